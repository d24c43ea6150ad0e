package storage

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/broker/internal/ident"
)

// Deleted says what retention removed.
type Deleted struct {
	Segments int
	Bytes    int64
	// Start is the start of the log afterwards.
	Start ident.Offset
}

// ApplyRetention deletes the oldest segments that are beyond the settings'
// age or size, or lie below the start of the log. No record at or above
// bound, the high watermark, is deleted. It also closes the files of sealed
// segments that nobody read since it last ran.
func (l *Log) ApplyRetention(now time.Time, bound ident.Offset) (Deleted, error) {
	w, err := l.look()
	if err != nil {
		return Deleted{}, err
	}
	n, err := l.expired(w, now, bound)
	if err != nil {
		return Deleted{Start: w.start}, fmt.Errorf("finding expired segments of %s: %w", l.cfg.Dir, err)
	}
	if n == len(w.segments) {
		// The active segment goes too, once it is sealed.
		if err := l.Roll(); err != nil {
			return Deleted{Start: w.start}, err
		}
	}
	d := Deleted{Start: w.start}
	if n > 0 {
		_, end := w.bounds(n - 1)
		l.mu.Lock()
		l.start = max(l.start, end)
		d.Start = l.start
		l.mu.Unlock()
		l.epochs.advance(d.Start)
		for _, s := range w.segments[:n] {
			d.Bytes += s.size.Load()
		}
		if d.Segments, err = l.deleteFront(w.segments[:n]); err != nil {
			return d, err
		}
		l.cfg.Logger.Info("deleted old segments", "log", l.cfg.Dir, "segments", d.Segments, "bytes", d.Bytes, "start", d.Start)
	}
	return d, l.dropIdle()
}

// expired returns how many of the oldest segments may go.
func (l *Log) expired(w view, now time.Time, bound ident.Offset) (int, error) {
	set := l.settings.Load()
	excess := int64(0)
	if set.Delete && set.RetentionBytes >= 0 {
		excess = -set.RetentionBytes
		for i := range w.segments {
			size, _ := w.bounds(i)
			excess += size
		}
	}
	for i := range w.segments {
		size, end := w.bounds(i)
		active := i == len(w.segments)-1
		if end > bound || (active && size == 0) {
			return i, nil
		}
		if end <= w.start && !active {
			excess -= size
			continue
		}
		if excess >= size && excess > 0 {
			excess -= size
			continue
		}
		if !set.Delete || set.RetentionAge < 0 {
			return i, nil
		}
		ms, err := l.youngestTime(w, i)
		if err != nil {
			return 0, err
		}
		if now.UnixMilli()-ms <= set.RetentionAge.Milliseconds() {
			return i, nil
		}
		excess -= size
	}
	return len(w.segments), nil
}

// youngestTime returns the time in milliseconds from which segment i's age
// counts: its highest timestamp. Where it has none, or one that lies after the
// file was last written, which no clock but a wrong one gave, the file's time
// counts: a record from the future would be kept for ever otherwise.
func (l *Log) youngestTime(w view, i int) (int64, error) {
	info, err := l.cfg.FS.Stat(w.segments[i].logPath())
	if err != nil {
		return 0, err
	}
	written := info.ModTime().UnixMilli()
	m, err := l.youngestOf(w, i)
	if err != nil {
		return 0, err
	}
	if m.timestamp < 0 || m.timestamp > written {
		return written, nil
	}
	return m.timestamp, nil
}

// deleteFront deletes the log's first segments, as far as they are still
// there, and returns how many. Each is durably gone before the next one goes,
// so that a crash leaves no gap.
func (l *Log) deleteFront(old []*segment) (int, error) {
	for n, s := range old {
		there, err := l.deleteFirst(s)
		if err != nil {
			return n, fmt.Errorf("deleting segment %s: %w", s.logPath(), err)
		}
		if !there {
			return n, nil
		}
	}
	return len(old), nil
}

// deleteFirst deletes s if it is the log's first segment and not its only one.
func (l *Log) deleteFirst(s *segment) (bool, error) {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.mu.Lock()
	if l.closed || len(l.segments) < 2 || l.segments[0] != s {
		l.mu.Unlock()
		return false, nil
	}
	l.segments = slices.Clone(l.segments[1:])
	l.start = max(l.start, l.segments[0].base)
	l.flushed = max(l.flushed, l.start)
	l.mu.Unlock()
	// What follows must be there for good before s goes.
	if err := l.syncDir(); err != nil {
		return false, err
	}
	l.mu.Lock()
	l.newDirs++
	l.mu.Unlock()
	return true, errors.Join(s.drop(true), s.remove(), l.syncDir())
}

// dropIdle closes the files of durable sealed segments that nobody used since
// the last call.
func (l *Log) dropIdle() error {
	// A truncation could make one of them the active segment meanwhile.
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.mu.RLock()
	var idle []*segment
	for _, s := range l.segments[:len(l.segments)-1] {
		if s.open.Load() != nil && s.indexed && s.synced == s.size.Load() && !s.used.Swap(false) {
			idle = append(idle, s)
		}
	}
	l.mu.RUnlock()
	var err error
	for _, s := range idle {
		err = errors.Join(err, s.drop(false))
	}
	return err
}
