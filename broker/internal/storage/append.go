package storage

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
)

// Appended says where batches went.
type Appended struct {
	// Base is the offset of the first record, and End the end of the log
	// after the last.
	Base, End ident.Offset
	// Bytes is the size of what was written.
	Bytes int64
}

// AppendAsLeader gives the batches the next offsets and the epoch, in place,
// and writes them. The batches must have been validated. They are not kept.
//
// Nothing is appended when it returns an error: a partial write is cut off.
// The error wraps [disk.ErrNoSpace] when the disk is full, and a later append
// may succeed; [ErrTooLarge]; [ErrOutOfOrder] when the epoch is below that of
// the log; [ErrFailed].
func (l *Log) AppendAsLeader(batches []byte, epoch ident.LeaderEpoch) (Appended, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	next, sizeMax := l.End(), l.settings.Load().SegmentBytes
	if latest := l.epochs.latest(); epoch < latest {
		return Appended{}, fmt.Errorf("appending to %s: %w: leader epoch %d comes after %d", l.cfg.Dir, ErrOutOfOrder, epoch, latest)
	}
	return l.append(batches, func(v batch.View) error {
		if int64(v.Size()) > sizeMax {
			return fmt.Errorf("%w: %d bytes, segment.bytes is %d", ErrTooLarge, v.Size(), sizeMax)
		}
		v.SetBaseOffset(next)
		v.SetLeaderEpoch(epoch)
		next = v.NextOffset()
		return nil
	})
}

// AppendAsFollower writes batches that came from the leader, with their
// offsets and epochs. Their checksums are verified here. Offsets must not lie
// below the end of the log, must increase and may leave gaps, as compaction
// does; epochs must not decrease; else the error is [ErrOutOfOrder]. Errors are
// those of AppendAsLeader besides, but a batch larger than a segment gets a
// segment of its own.
func (l *Log) AppendAsFollower(batches []byte) (Appended, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	expected := successor{next: l.End(), epoch: l.epochs.latest()}
	return l.append(batches, func(v batch.View) error {
		if err := v.VerifyCRC(); err != nil {
			return err
		}
		return expected.admit(v)
	})
}

// append prepares all batches and writes them. The caller holds writing.
func (l *Log) append(batches []byte, prepare func(batch.View) error) (Appended, error) {
	if err := l.usable(); err != nil {
		return Appended{}, err
	}
	before := l.End()
	done := Appended{Base: before, End: before}
	for rest := batches; len(rest) > 0; {
		v, after, err := batch.Next(rest)
		if err == nil {
			err = prepare(v)
		}
		if err != nil {
			return Appended{}, fmt.Errorf("appending to %s at offset %d: %w", l.cfg.Dir, before, err)
		}
		if len(rest) == len(batches) {
			done.Base = v.BaseOffset()
		}
		done.End = v.NextOffset()
		rest = after
	}
	if err := l.writeRuns(batches); err != nil {
		return Appended{}, l.takeBack(before, err)
	}
	done.Bytes = int64(len(batches))
	return done, nil
}

// run is batches that go to one segment in one piece.
type run struct {
	bytes        []byte
	first, last  ident.Offset
	timestampMax int64
}

// nextRun splits off the first run of batches: as a rule all of them. Only a
// gap that no segment can span ends a run.
func nextRun(batches []byte) (r run, rest []byte, err error) {
	r = run{timestampMax: batch.NoTimestamp}
	for rest = batches; len(rest) > 0; {
		v, after, err := batch.Next(rest)
		if err != nil {
			return r, rest, err
		}
		if len(r.bytes) == 0 {
			r.first = v.BaseOffset()
		}
		if !fits(r.first, v.LastOffset()) {
			break
		}
		r.bytes = batches[:len(r.bytes)+v.Size()]
		r.last = v.LastOffset()
		r.timestampMax = max(r.timestampMax, v.MaxTimestamp())
		rest = after
	}
	return r, rest, nil
}

// writeRuns writes batches, and rolls the segment before if it has to be.
func (l *Log) writeRuns(batches []byte) error {
	set, now := l.settings.Load(), l.cfg.Now()
	l.tail.interval = set.IndexInterval
	for len(batches) > 0 {
		r, rest, err := nextRun(batches)
		if err != nil {
			return err
		}
		if l.mustRoll(set, now, r) {
			base := l.End()
			if !fits(base, r.last) {
				base = r.first
			}
			if err := l.roll(base); err != nil {
				return err
			}
		}
		if err := l.writeRun(r.bytes); err != nil {
			return err
		}
		batches = rest
	}
	return nil
}

// mustRoll reports whether r belongs in a new segment (LogSegment.shouldRoll
// of Kafka).
func (l *Log) mustRoll(set *Settings, now time.Time, r run) bool {
	t := &l.tail
	if !fits(t.base, r.last) {
		return true
	}
	size := t.size.Load()
	if size == 0 {
		return false
	}
	return size+int64(len(r.bytes)) > set.SegmentBytes ||
		t.offsets().count() >= set.IndexBytes/offsetEntrySize ||
		t.times().count() >= set.IndexBytes/timeEntrySize ||
		t.waited(r.timestampMax, now) > set.SegmentAge-t.jitter
}

// writeRun appends to the active segment and publishes the new end.
func (l *Log) writeRun(run []byte) error {
	t := &l.tail
	pos := l.tail.size.Load()
	if _, err := t.files.log.file.WriteAt(run, pos); err != nil {
		return fmt.Errorf("writing %s at %d: %w", t.logPath(), pos, err)
	}
	size, end := pos, ident.Offset(0)
	for rest := run; len(rest) > 0; {
		v, after, err := batch.Next(rest)
		if err != nil {
			return err
		}
		if size == 0 {
			t.firstTime = v.MaxTimestamp()
		}
		l.epochs.assign(v.LeaderEpoch(), v.BaseOffset())
		if err := t.add(size, v, v.Size()); err != nil {
			return err
		}
		size += int64(v.Size())
		end = v.NextOffset()
		rest = after
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.size.Store(size)
	l.end, l.youngest = end, t.youngest
	return nil
}

// takeBack undoes what a failed append wrote, so that the log ends at end
// again, and returns the cause of the failure. When that fails too, so has the
// log: the next append could leave half a batch behind.
func (l *Log) takeBack(end ident.Offset, cause error) error {
	if errors.Is(cause, ErrFailed) {
		return cause
	}
	if err := l.cutTail(end); err != nil {
		return l.fail(errors.Join(cause, err))
	}
	return cause
}

// Roll begins a new segment, unless the active one is empty.
func (l *Log) Roll() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if l.tail.size.Load() == 0 {
		return nil
	}
	return l.roll(l.End())
}

// roll begins a new segment at base. The sealed one is synced by the next
// flush, so that an append does not wait for it. The caller holds writing.
func (l *Log) roll(base ident.Offset) error {
	t := &l.tail
	t.times().add(t.youngest)
	if err := errors.Join(t.offsets().write(), t.times().write()); err != nil {
		return fmt.Errorf("rolling segment: %w", err)
	}
	if l.settings.Load().Preallocate {
		// Give back what was reserved and is not needed.
		if err := t.files.log.file.Truncate(t.size.Load()); err != nil {
			return fmt.Errorf("rolling segment: %w", err)
		}
	}
	youngest := t.youngest
	t.segment.sealed.Store(&youngest)
	next := newSegment(l.cfg.FS, l.cfg.Dir, base)
	if err := l.begin(next); err != nil {
		return fmt.Errorf("rolling segment: %w", err)
	}
	l.mu.Lock()
	gap := base != l.end
	l.segments = with(l.segments, next)
	l.newDirs++
	l.end, l.youngest = base, noMark
	l.mu.Unlock()
	l.cfg.Logger.Debug("rolled log segment", "log", l.cfg.Dir, "base", base)
	if l.cfg.Rolled != nil && !gap {
		l.cfg.Rolled(base)
	}
	return nil
}

// begin creates the files of s and makes it the tail.
func (l *Log) begin(s *segment) error {
	set := l.settings.Load()
	reserve := int64(0)
	if set.Preallocate {
		reserve = set.SegmentBytes
	}
	o, err := s.create(reserve)
	if err != nil {
		return err
	}
	l.setTail(s, o.restart(set.IndexInterval), batch.NoTimestamp)
	return nil
}

// setTail makes s, open for writing, the active segment.
func (l *Log) setTail(s *segment, x *indexer, firstTime int64) {
	set := l.settings.Load()
	l.tail = tail{segment: s, indexer: x, firstTime: firstTime, created: l.cfg.Now()}
	if l.cfg.Jitter != nil && set.SegmentJitter > 0 {
		l.tail.jitter = min(l.cfg.Jitter(set.SegmentJitter), set.SegmentAge)
	}
}
