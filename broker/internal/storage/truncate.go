package storage

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
)

// TruncateTail removes all batches that hold offsets at or above end, and is
// durable when it returns. The end of the log is end or, when end lay inside
// a batch, the start of that batch. An end below the first segment empties the
// log and lets it begin there.
func (l *Log) TruncateTail(end ident.Offset) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	w, err := l.look()
	if err != nil {
		return err
	}
	// An epoch that began at the end and got no records ends with it.
	l.epochs.truncate(end)
	if end < w.end {
		err = l.truncateTail(w, end)
		l.cfg.Logger.Info("truncated log", "log", l.cfg.Dir, "from", w.end, "to", l.End())
	}
	if err == nil {
		err = l.epochs.store(l.cfg.FS, l.cfg.Dir)
	}
	if err != nil {
		return l.fail(fmt.Errorf("truncating %s to %d: %w", l.cfg.Dir, end, err))
	}
	return nil
}

func (l *Log) truncateTail(w view, end ident.Offset) error {
	anew := end < w.segments[0].base
	if !anew {
		// Batches go whole, so the end may lie lower than asked for.
		var err error
		if _, end, err = l.locate(w, w.find(end), end); err != nil {
			return err
		}
	}
	if l.cfg.LowerRecoveryPoint != nil && end < l.FlushedEnd() {
		if err := l.cfg.LowerRecoveryPoint(end); err != nil {
			return fmt.Errorf("lowering the recovery point: %w", err)
		}
	}
	if anew {
		return l.beginAnew(end)
	}
	if err := l.cutTail(end); err != nil {
		return err
	}
	return l.syncTail()
}

// cutTail removes the batches that hold offsets at or above end, and whatever
// lies behind the active segment's last batch. It syncs nothing. The caller
// holds writing.
func (l *Log) cutTail(end ident.Offset) error {
	// A sync under way would count bytes as durable that go now.
	l.flushing.Lock()
	defer l.flushing.Unlock()
	w, err := l.look()
	if err != nil {
		return err
	}
	i := w.find(end)
	pos, end, err := l.locate(w, i, end)
	if err != nil {
		return err
	}
	s, rest := w.segments[i], w.segments[i+1:]

	// Publish first: nobody may begin to read what goes.
	l.mu.Lock()
	l.segments = slices.Clone(w.segments[:i+1])
	s.size.Store(pos)
	s.synced = min(s.synced, pos)
	s.indexed = false
	l.start = min(l.start, end)
	l.end = end
	l.flushed = min(l.flushed, end)
	l.newDirs++
	l.cuts++
	l.mu.Unlock()
	l.epochs.truncate(end)

	for _, r := range slices.Backward(rest) {
		if err := errors.Join(r.drop(true), r.remove()); err != nil {
			return err
		}
	}
	o := s.open.Load()
	if s != l.tail.segment {
		if o, err = s.reopen(); err != nil {
			return err
		}
	}
	return l.shortenTail(s, o, end)
}

// locate returns the position in segment i of the first batch that holds an
// offset at or above end, and the end of the log without it.
func (l *Log) locate(w view, i int, end ident.Offset) (int64, ident.Offset, error) {
	if size, segmentEnd := w.bounds(i); end >= segmentEnd {
		return size, segmentEnd, nil
	}
	o, size, err := l.load(w, i)
	if err != nil {
		return 0, 0, err
	}
	defer o.log.release()
	buf := l.buffer()
	defer l.buffers.Put(buf)
	pos, err := o.walk(o.offsets.floor(end), size, *buf, func(_ int64, h batch.View, _ int) bool {
		if h.LastOffset() < end {
			return true
		}
		end = min(end, h.BaseOffset())
		return false
	})
	if err != nil {
		return 0, 0, w.segments[i].damage(pos, err)
	}
	return pos, end, nil
}

// shortenTail makes s the active segment, cut to its size, with indexes that
// know nothing at or above end.
func (l *Log) shortenTail(s *segment, o *openSegment, end ident.Offset) error {
	size := s.size.Load()
	if err := o.log.file.Truncate(size); err != nil {
		return fmt.Errorf("truncating %s: %w", s.logPath(), err)
	}
	x, firstTime, err := l.resumeTail(s, o, size, end)
	if err != nil {
		return err
	}
	created := l.tail.created
	l.setTail(s, x, firstTime)
	l.tail.created = created
	s.sealed.Store(nil)
	l.mu.Lock()
	l.youngest = x.youngest
	l.mu.Unlock()
	return nil
}

// resumeTail returns an indexer that has seen all of an active segment, and
// the maximum timestamp of its first batch.
func (l *Log) resumeTail(s *segment, o *openSegment, size int64, end ident.Offset) (*indexer, int64, error) {
	interval := l.settings.Load().IndexInterval
	x, from, _ := o.resume(size, offsetMax(s.base), end, interval)
	buf := l.buffer()
	defer l.buffers.Put(buf)
	for {
		var wrong error
		stop, err := walk(o.log.file, from, size, *buf, func(pos int64, h batch.View, length int) bool {
			wrong = x.add(pos, h, length)
			return wrong == nil
		})
		if wrong == nil && err == nil {
			break
		}
		if from == 0 && wrong == nil {
			return nil, 0, s.damage(stop, err)
		}
		x, from = o.restart(interval), 0
	}
	firstTime := batch.NoTimestamp
	_, err := walk(o.log.file, 0, size, *buf, func(_ int64, h batch.View, _ int) bool {
		firstTime = h.MaxTimestamp()
		return false
	})
	if err != nil {
		return nil, 0, s.damage(0, err)
	}
	return x, firstTime, nil
}

// syncTail makes a cut durable. The caller holds writing.
func (l *Log) syncTail() error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	t := &l.tail
	if err := t.files.log.file.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", t.logPath(), err)
	}
	// Old entries must not come back among new ones.
	if err := errors.Join(t.offsets().seal(), t.times().seal()); err != nil {
		return err
	}
	if err := l.syncDir(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.synced = t.size.Load()
	return nil
}

// AdvanceStart makes start the first offset that may be read, and deletes the
// segments that lie below. A start beyond the end empties the log and lets it
// continue there. A start that is not above the present one is ignored. The
// caller checkpoints the new start.
func (l *Log) AdvanceStart(start ident.Offset) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	w, err := l.look()
	switch {
	case err != nil:
		return err
	case start <= w.start:
		return nil
	case start > w.end:
		l.cfg.Logger.Info("emptied log", "log", l.cfg.Dir, "end", w.end, "start", start)
		if err := l.beginAnew(start); err != nil {
			return l.fail(fmt.Errorf("beginning %s anew at %d: %w", l.cfg.Dir, start, err))
		}
		return nil
	}
	l.mu.Lock()
	l.start = start
	l.mu.Unlock()
	l.epochs.advance(start)
	n := 0
	for n+1 < len(w.segments) && w.segments[n+1].base <= start {
		n++
	}
	_, err = l.deleteFront(w.segments[:n])
	return err
}

// beginAnew replaces all segments by an empty one at base. The caller holds
// writing.
func (l *Log) beginAnew(base ident.Offset) error {
	old, err := l.addAnew(base)
	if err != nil {
		return err
	}
	_, err = l.deleteFront(old)
	return errors.Join(err, l.epochs.store(l.cfg.FS, l.cfg.Dir))
}

// addAnew adds the empty segment and returns those that are to be deleted.
func (l *Log) addAnew(base ident.Offset) ([]*segment, error) {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	w, err := l.look()
	if err != nil {
		return nil, err
	}
	l.epochs.truncate(0)
	old := w.segments
	if base < w.end {
		// Going back: what is there goes first, latest first, so that a crash
		// leaves a log that is merely shorter.
		for _, r := range slices.Backward(old) {
			if err := errors.Join(r.drop(true), r.remove()); err != nil {
				return nil, err
			}
		}
		old = nil
	}
	s := newSegment(l.cfg.FS, l.cfg.Dir, base)
	if err := l.begin(s); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.newDirs++
	l.mu.Unlock()
	if err := l.syncDir(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = with(old, s)
	l.start, l.end, l.flushed, l.youngest = base, base, base, noMark
	l.cuts++
	return old, nil
}
