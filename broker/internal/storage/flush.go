package storage

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// Flush makes durable all that was appended before it was called, and returns
// the flushed end. Calls that overlap share syncs. It may run concurrently
// with appends and reads. An error that wraps [ErrFailed] is final. The only
// other one wraps [disk.ErrNoSpace]: the leader epochs could not be written,
// and a later flush may succeed.
func (l *Log) Flush() (ident.Offset, error) {
	l.mu.RLock()
	want, done, err := l.end, l.flushed, l.usableLocked()
	l.mu.RUnlock()
	if err != nil {
		return done, err
	}
	if done >= want {
		return done, nil
	}
	l.flushing.Lock()
	defer l.flushing.Unlock()
	// Whoever had the lock may have flushed all that this caller wants.
	l.mu.RLock()
	done, err = l.flushed, l.usableLocked()
	l.mu.RUnlock()
	if err != nil || done >= want {
		return done, err
	}
	return l.flush()
}

// flushJob is what one flush makes durable.
type flushJob struct {
	segments []*segment // with bytes or indexes that are not durable
	sizes    []int64
	active   *segment
	end      ident.Offset
}

// plan collects what is not durable.
func (l *Log) plan() flushJob {
	l.mu.RLock()
	defer l.mu.RUnlock()
	j := flushJob{active: last(l.segments), end: l.end}
	// Segments become durable in order, so the rest is a suffix.
	i := len(l.segments)
	for i > 0 {
		s := l.segments[i-1]
		if s != j.active && s.indexed && s.synced == s.size.Load() {
			break
		}
		i--
	}
	for _, s := range l.segments[i:] {
		j.segments = append(j.segments, s)
		j.sizes = append(j.sizes, s.size.Load())
	}
	return j
}

// flush syncs everything that was appended so far. The caller holds flushing.
func (l *Log) flush() (ident.Offset, error) {
	j := l.plan()
	if err := l.epochs.store(l.cfg.FS, l.cfg.Dir); err != nil {
		if errors.Is(err, disk.ErrNoSpace) {
			return l.FlushedEnd(), err
		}
		return l.FlushedEnd(), l.fail(err)
	}
	for i, s := range j.segments {
		if err := l.syncSegment(s, j.sizes[i], s != j.active); err != nil {
			return l.FlushedEnd(), l.fail(err)
		}
	}
	if err := l.syncDir(); err != nil {
		return l.FlushedEnd(), l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range j.segments {
		s.synced = j.sizes[i]
		s.indexed = s != j.active
	}
	l.flushed = max(l.flushed, j.end)
	return l.flushed, nil
}

// syncDir makes the names of all files so far durable, if they are not. The
// caller holds flushing.
func (l *Log) syncDir() error {
	l.mu.RLock()
	now, synced := l.newDirs, l.syncedDirs
	l.mu.RUnlock()
	if now == synced {
		return nil
	}
	if err := l.cfg.FS.SyncDir(l.cfg.Dir); err != nil {
		return fmt.Errorf("syncing folder %s: %w", l.cfg.Dir, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncedDirs = now
	return nil
}

// syncSegment makes a segment durable up to size. A full disk may keep its
// indexes from being written: they are mended when next opened.
func (l *Log) syncSegment(s *segment, size int64, sealed bool) error {
	o := s.open.Load()
	if o == nil || !o.log.acquire() {
		// Unsynced segments stay open; this one was deleted meanwhile.
		return nil
	}
	defer o.log.release()
	l.mu.RLock()
	synced := s.synced
	l.mu.RUnlock()
	if synced < size {
		if err := o.log.file.Sync(); err != nil {
			return fmt.Errorf("syncing %s: %w", s.logPath(), err)
		}
	}
	write := (*indexFile).write
	if sealed {
		write = (*indexFile).seal
	}
	err := errors.Join(write(&o.offsets.indexFile), write(&o.times.indexFile))
	if errors.Is(err, disk.ErrNoSpace) {
		return nil
	}
	return err
}
