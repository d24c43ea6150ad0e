package storage

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
)

// recovery is the way from the files that were found to a log that can be
// used. It reads from the recovery point on.
type recovery struct {
	*Log
	// point is the recovery point: damage below is an error. Index entries
	// below trusted are believed.
	point, trusted ident.Offset
	found          Recovered
	// next is what the batch to come must keep to.
	next successor
	// below says that a batch did not fit that claims to lie below the point:
	// the offset of one before it must have been changed.
	below bool
}

// recover checks the segments from the one that holds the recovery point on,
// cuts the log where they stop being sound, and makes the rest durable.
func (l *Log) recover(epochsKnown bool) (Recovered, error) {
	r := recovery{Log: l, point: l.cfg.RecoveryPoint, trusted: l.cfg.RecoveryPoint}
	r.next.epoch = ident.NoLeaderEpoch
	first := view{segments: l.segments}.find(r.point)
	if l.cfg.Clean {
		r.trusted, first = math.MaxInt64, len(l.segments)-1
	}
	if !epochsKnown {
		// Every batch of the log names its epoch. Those of the first segment
		// that is checked are all read, too, if its index is not used.
		r.trusted = 0
		if err := r.readEpochs(first); err != nil {
			return r.found, err
		}
	}
	for i := first; i < len(l.segments); i++ {
		if err := r.readSegment(i); err != nil {
			return r.found, err
		}
	}
	if r.next.next < r.point && r.point > l.segments[0].base {
		s := last(l.segments)
		return r.found, &DamageError{File: s.logPath(), Position: s.size.Load(), Cause: fmt.Errorf("the log ends at offset %d, but once reached %d", r.next.next, r.point)}
	}
	if err := r.finish(first); err != nil {
		return r.found, err
	}
	if l.cfg.Start > l.end {
		// The start was checkpointed, and what lay before it was lost. No
		// offset may be given twice.
		if err := l.beginAnew(l.cfg.Start); err != nil {
			return r.found, err
		}
	}
	return r.found, nil
}

// readEpochs takes the leader epochs from the headers of the segments before
// first.
func (r *recovery) readEpochs(first int) error {
	buf := r.buffer()
	defer r.buffers.Put(buf)
	for i, s := range r.segments[:first] {
		o, err := s.load(s.size.Load(), r.segments[i+1].base, r.cfg.Settings.IndexInterval)
		if err != nil {
			return err
		}
		stop, err := walk(o.log.file, 0, s.size.Load(), *buf, func(_ int64, h batch.View, _ int) bool {
			r.epochs.assign(h.LeaderEpoch(), h.BaseOffset())
			return true
		})
		o.log.release()
		if err != nil {
			return s.damage(stop, err)
		}
	}
	return nil
}

// readSegment checks segment i and cuts the log in it if need be.
func (r *recovery) readSegment(i int) error {
	s := r.segments[i]
	if r.found.SegmentsRead > 0 && s.base != r.next.next && fits(r.segments[i-1].base, s.base) {
		// Its predecessor lost its end, or one between them is missing. A
		// wider gap is one that the leader's compaction left.
		cause := fmt.Errorf("segment begins at offset %d, but the log before it ends at %d", s.base, r.next.next)
		return r.dropFrom(i, cause)
	}
	o, err := s.openFiles(s.fs.OpenWrite)
	if err != nil {
		return err
	}
	s.open.Store(o)
	r.found.SegmentsRead++
	r.next.next = max(r.next.next, s.base)
	size := s.size.Load()
	x, stop, err := r.check(s, o, size)
	if err != nil {
		bad := (*badBatch)(nil)
		if !errors.As(err, &bad) || r.cfg.Clean || r.below || r.next.next < r.point {
			return s.damage(stop, err)
		}
		if err := r.cut(i, stop, bad.cause); err != nil {
			return err
		}
	}
	o.times.add(x.youngest)
	r.youngest = x.youngest
	r.tail.indexer = x
	return nil
}

// check reads the batches of s, from where its indexes are not trusted on, and
// completes the indexes. It returns the position of the first bad batch.
func (r *recovery) check(s *segment, o *openSegment, size int64) (*indexer, int64, error) {
	interval := r.cfg.Settings.IndexInterval
	x, from, rebuilt := o.resume(size, offsetMax(s.base), r.trusted, interval)
	for {
		if rebuilt && size > 0 {
			r.found.IndexesRebuilt++
		}
		next, seen := r.next, false
		stop, err := scan(o.log.file, from, size, func(pos int64, v batch.View) error {
			if err := v.VerifyCRC(); err != nil {
				return &badBatch{err}
			}
			if !fits(s.base, v.LastOffset()) {
				return &badBatch{fmt.Errorf("%w: offset %d cannot belong to the segment", ErrOutOfOrder, v.LastOffset())}
			}
			if err := next.admit(v); err != nil {
				r.below = v.BaseOffset() < r.point
				return &badBatch{err}
			}
			if !seen {
				// The file of epochs may be ahead of what the crash left.
				r.epochs.truncate(v.BaseOffset())
				seen = true
			}
			r.epochs.assign(v.LeaderEpoch(), v.BaseOffset())
			return x.add(pos, v, v.Size())
		})
		noBatch := errors.Is(err, errIndex) || (err != nil && from > 0 && stop == from)
		if noBatch || (err == nil && x.youngest.offset >= next.next) {
			// An index named a batch that is not there: its fault, not the
			// segment's.
			x, from, rebuilt = o.restart(interval), 0, true
			continue
		}
		r.next = next
		return x, stop, err
	}
}

// cut ends the log at position pos of segment i.
func (r *recovery) cut(i int, pos int64, cause error) error {
	s := r.segments[i]
	size := s.size.Load()
	o := s.open.Load()
	more, err := hasBatch(o.log.file, pos, size, r.next)
	if err != nil {
		return fmt.Errorf("reading %s: %w", s.logPath(), err)
	}
	if more {
		// Not a torn end: the disk, or someone, lost bytes in the middle.
		r.keep(s, pos, size)
	}
	r.found.CutBytes += size - pos
	r.found.CutCause = &DamageError{File: s.logPath(), Position: pos, Cause: cause}
	if err := o.log.file.Truncate(pos); err != nil {
		return fmt.Errorf("cutting %s: %w", s.logPath(), err)
	}
	s.size.Store(pos)
	if i+1 < len(r.segments) {
		return r.dropFrom(i+1, r.found.CutCause)
	}
	return nil
}

// keep copies the bytes [pos, size) of a segment to a file beside it, for
// whoever wants to find out what happened. A full disk does not stop recovery.
func (r *recovery) keep(s *segment, pos, size int64) {
	name := fmt.Sprintf("%s%s%s%d", s.stem, logSuffix, cutInfix, pos)
	err := r.copyOut(s, name, pos, size)
	if err != nil {
		r.cfg.Logger.Warn("cut bytes could not be kept", "file", name, "error", err)
		return
	}
	r.found.Kept = append(r.found.Kept, name)
}

func (r *recovery) copyOut(s *segment, name string, pos, size int64) error {
	f, err := r.cfg.FS.OpenWrite(name)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	from := io.NewSectionReader(s.open.Load().log.file, pos, size-pos)
	if err == nil {
		_, err = io.Copy(io.NewOffsetWriter(f, 0), from)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// dropFrom takes segment i and those after it out of the log. Nothing in them
// was ever flushed, since a flush goes in order. Their bytes are kept.
func (r *recovery) dropFrom(i int, cause error) error {
	for _, s := range r.segments[i:] {
		if s.base < r.point {
			return &DamageError{File: s.logPath(), Cause: cause}
		}
		size := s.size.Load()
		r.found.CutBytes += size
		if r.found.CutCause == nil {
			r.found.CutCause = cause
		}
		if size > 0 {
			name := s.logPath() + cutInfix + "0"
			if err := r.cfg.FS.Rename(s.logPath(), name); err != nil {
				return fmt.Errorf("taking segment out of the log: %w", err)
			}
			r.found.Kept = append(r.found.Kept, name)
			for _, suffix := range []string{offsetSuffix, timeSuffix, txnSuffix} {
				if err := removeIfThere(r.cfg.FS, s.stem+suffix); err != nil {
					return err
				}
			}
		} else if err := s.remove(); err != nil {
			return err
		}
	}
	r.segments = r.segments[:i]
	return nil
}

// finish makes what was read durable and the last segment the active one.
func (r *recovery) finish(first int) error {
	l := r.Log
	for _, s := range l.segments[first:] {
		if err := r.finishSegment(s); err != nil {
			return err
		}
	}
	l.end = r.next.next
	l.start = min(max(l.cfg.Start, l.segments[0].base), l.end)
	l.flushed = l.end
	l.epochs.truncate(l.end)
	l.epochs.advance(l.start)
	// After a clean stop nothing can have gone from the epochs but one that began
	// at the end of the log, as that of an idle partition does; the next flush
	// writes them.
	if !l.cfg.Clean {
		if err := l.epochs.store(l.cfg.FS, l.cfg.Dir); err != nil {
			return err
		}
		if err := l.cfg.FS.SyncDir(l.cfg.Dir); err != nil {
			return err
		}
	}
	s, x := last(l.segments), l.tail.indexer
	firstTime := batch.NoTimestamp
	header := make(batch.View, batch.HeaderLen)
	if s.size.Load() > 0 {
		if err := readFull(x.files.log.file, header, 0); err != nil {
			return err
		}
		firstTime = header.MaxTimestamp()
	}
	l.setTail(s, x, firstTime)
	return nil
}

// finishSegment makes a segment that was read durable: a process that was
// killed may have left it in the system's memory only.
func (r *recovery) finishSegment(s *segment) error {
	o := s.open.Load()
	s.synced = s.size.Load()
	if r.cfg.Clean {
		return errors.Join(o.offsets.write(), o.times.write())
	}
	if err := o.log.file.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", s.logPath(), err)
	}
	return errors.Join(o.offsets.seal(), o.times.seal())
}
