package storage

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/broker/internal/ident"
)

// Log is the log of one partition. All methods may be called concurrently.
// Methods that change the log wait for one another; reads wait for none.
//
// Three locks are taken in this order: writing, by whoever appends or
// truncates; flushing, by whoever syncs or truncates; mu, for moments, to look
// at or publish the state below it. Only mu is ever held without I/O, and only
// mu is taken by readers.
type Log struct {
	cfg      Config // but Settings, which change
	settings atomic.Pointer[Settings]
	epochs   epochCache
	buffers  sync.Pool // *[]byte of walkBuffer

	writing sync.Mutex
	tail    tail // guarded by writing

	flushing sync.Mutex

	mu sync.RWMutex
	// segments are ordered by base and never empty; the last is active. The
	// slice is replaced, never changed, so that readers may keep it.
	segments []*segment
	start    ident.Offset
	end      ident.Offset
	flushed  ident.Offset
	youngest mark // of the active segment
	// newDirs counts changes of the folder, syncedDirs those that are durable.
	newDirs, syncedDirs int
	// cuts counts truncations of the tail. A reader that ran into nonsense
	// while one happened looks again.
	cuts   int
	failed error // wraps ErrFailed
	closed bool
}

// usable fails when the log has failed or was closed.
func (l *Log) usable() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.usableLocked()
}

func (l *Log) usableLocked() error {
	if l.closed {
		return fmt.Errorf("%s: %w", l.cfg.Dir, ErrClosed)
	}
	return l.failed
}

// fail makes cause the end of the log and returns the error that everyone will
// see. The first cause stays.
func (l *Log) fail(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = fmt.Errorf("%w: %w", ErrFailed, cause)
	}
	return l.failed
}

// Start returns the first offset that may be read.
func (l *Log) Start() ident.Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.start
}

// End returns the offset that the next record will get.
func (l *Log) End() ident.Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.end
}

// FlushedEnd returns the end of what survives a crash. It is also the recovery
// point to checkpoint.
func (l *Log) FlushedEnd() ident.Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.flushed
}

// Size returns the size of all segments in bytes, indexes excluded.
func (l *Log) Size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var n int64
	for _, s := range l.segments {
		n += s.size.Load()
	}
	return n
}

// Err returns why the log has failed, or nil.
func (l *Log) Err() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.failed
}

// SetSettings replaces the settings; the active segment obeys them from the
// next append on.
func (l *Log) SetSettings(s Settings) {
	s = s.withDefaults()
	l.settings.Store(&s)
}

// AssignEpoch records that a leader of this epoch begins at the end of the
// log. Epochs not above the latest are ignored.
func (l *Log) AssignEpoch(epoch ident.LeaderEpoch) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.epochs.assign(epoch, l.End())
}

// LatestEpoch returns the latest leader epoch that the log knows, or
// NoLeaderEpoch.
func (l *Log) LatestEpoch() ident.LeaderEpoch { return l.epochs.latest() }

// EpochEnd returns the largest epoch not above the one asked for, and where it
// ended: the start of the next larger one, or the end of the log when epoch is
// the latest. It returns NoLeaderEpoch and NoOffset when the log cannot say
// (KIP-101, KIP-279).
func (l *Log) EpochEnd(epoch ident.LeaderEpoch) (ident.LeaderEpoch, ident.Offset) {
	return l.epochs.end(epoch, l.End())
}

// EpochAt returns the leader epoch of the record at offset o, or NoLeaderEpoch
// when the log cannot say.
func (l *Log) EpochAt(o ident.Offset) ident.LeaderEpoch { return l.epochs.at(o) }

// view is the log at one moment: what a reader works on without a lock.
type view struct {
	segments   []*segment
	start, end ident.Offset
	// activeSize and youngest are those of the last segment.
	activeSize int64
	youngest   mark
	cuts       int
}

// look returns the log as it is now.
func (l *Log) look() (view, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.usableLocked(); err != nil {
		return view{}, err
	}
	return view{l.segments, l.start, l.end, last(l.segments).size.Load(), l.youngest, l.cuts}, nil
}

// find returns the index of the segment that holds o or the gap that o is in.
func (w view) find(o ident.Offset) int {
	return max(0, sort.Search(len(w.segments), func(i int) bool { return w.segments[i].base > o })-1)
}

// bounds returns the size of segment i and the offset before which it ends.
func (w view) bounds(i int) (size int64, end ident.Offset) {
	if i == len(w.segments)-1 {
		return w.activeSize, w.end
	}
	return w.segments[i].size.Load(), w.segments[i+1].base
}

// load opens segment i for reading; the caller releases its file.
func (l *Log) load(w view, i int) (*openSegment, int64, error) {
	size, end := w.bounds(i)
	o, err := w.segments[i].load(size, end, l.settings.Load().IndexInterval)
	return o, size, err
}

// buffer lends walkBuffer bytes.
func (l *Log) buffer() *[]byte {
	if b, ok := l.buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, walkBuffer)
	return &b
}

// Close flushes and closes the log. Chunks remain readable until they are
// closed. The error says that the log may not be opened as clean.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	switch err := l.usable(); {
	case errors.Is(err, ErrClosed):
		return err
	case err != nil:
		return errors.Join(err, l.shut())
	}
	l.flushing.Lock()
	_, err := l.flush()
	l.flushing.Unlock()
	if err == nil {
		// Sealed indexes let the next start trust the active segment's too.
		l.tail.times().add(l.tail.youngest)
		err = errors.Join(l.tail.offsets().seal(), l.tail.times().seal(), l.epochs.store(l.cfg.FS, l.cfg.Dir))
	}
	return errors.Join(err, l.shut())
}

// Delete closes the log without flushing and removes its folder.
func (l *Log) Delete() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.usable(); errors.Is(err, ErrClosed) {
		return err
	}
	err := l.shut()
	err = errors.Join(err, l.cfg.FS.RemoveAll(l.cfg.Dir), l.cfg.FS.SyncDir(path.Dir(l.cfg.Dir)))
	if err != nil {
		return fmt.Errorf("deleting log: %w", err)
	}
	return nil
}

// shut closes all files, after a sync that may be under way. The caller holds
// writing.
func (l *Log) shut() error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.mu.Lock()
	l.closed = true
	segments := l.segments
	l.mu.Unlock()
	var errs []error
	for _, s := range segments {
		errs = append(errs, s.drop(true))
	}
	return errors.Join(errs...)
}

// last returns the active segment.
func last(segments []*segment) *segment { return segments[len(segments)-1] }

// with returns the segments and one more.
func with(segments []*segment, s *segment) []*segment { return append(slices.Clone(segments), s) }

// offsetMax is beyond every offset of a segment at base.
func offsetMax(base ident.Offset) ident.Offset { return base + math.MaxInt32 + 1 }
