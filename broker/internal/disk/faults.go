package disk

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"sync"
)

// Faults is a file system that passes everything on to another one, and fails
// on demand. All methods may be called concurrently, also while files are in
// use. Call [WithFaults] to make one.
type Faults struct {
	under FS

	mu       sync.Mutex
	ops      int                    // changes so far
	crashAt  int                    // the number of the change that crashes
	space    int64                  // bytes that may still be written
	failSync func(path string) bool // nil: none
}

// WithFaults returns a file system over under that does not fail yet.
func WithFaults(under FS) *Faults {
	return &Faults{under: under, crashAt: math.MaxInt, space: math.MaxInt64}
}

// Ops returns the number of changes so far: writes, truncations, syncs of
// files and folders, creations, renames and removals.
func (f *Faults) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// CrashAt makes the n-th change from now on, counted from 1, the last one: it
// and everything after it fails with [ErrCrashed]. That change is passed on
// unless it is a sync, so that [Memory.Crash] may keep it in part or whole.
func (f *Faults) CrashAt(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashAt = f.ops + n
}

// SetSpace lets n more bytes be written; a write beyond is cut short and fails
// with [ErrNoSpace]. Nothing that is removed gives space back. A negative n
// lifts the limit.
func (f *Faults) SetSpace(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < 0 {
		n = math.MaxInt64
	}
	f.space = n
}

// FailSync makes syncs of the files and folders that match fail with
// [ErrSyncFailed], without syncing. Nil ends it.
func (f *Faults) FailSync(match func(path string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failSync = match
}

// crashed fails after the crash.
func (f *Faults) crashed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ops >= f.crashAt {
		return ErrCrashed
	}
	return nil
}

// change counts a change and makes it, unless a crash came before; do is also
// called by the change that crashes.
func (f *Faults) change(do func() error) error {
	f.mu.Lock()
	if f.ops >= f.crashAt {
		f.mu.Unlock()
		return ErrCrashed
	}
	f.ops++
	last := f.ops == f.crashAt
	f.mu.Unlock()
	err := do()
	if last {
		return ErrCrashed
	}
	return err
}

// sync counts a sync and makes it, unless it is to fail.
func (f *Faults) sync(p string, do func() error) error {
	f.mu.Lock()
	if f.ops < f.crashAt {
		f.ops++
	}
	crash := f.ops >= f.crashAt
	fail := f.failSync != nil && f.failSync(p)
	f.mu.Unlock()
	switch {
	case crash:
		return ErrCrashed
	case fail:
		return fmt.Errorf("syncing %s: %w", p, ErrSyncFailed)
	}
	return do()
}

// take reserves up to n bytes of what space is left.
func (f *Faults) take(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = int(min(int64(n), f.space))
	if f.space != math.MaxInt64 {
		f.space -= int64(n)
	}
	return n
}

// Open implements [FS].
func (f *Faults) Open(p string) (File, error) {
	if err := f.crashed(); err != nil {
		return nil, err
	}
	file, err := f.under.Open(p)
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, p, file}, nil
}

// OpenWrite implements [FS].
func (f *Faults) OpenWrite(p string) (file File, err error) {
	open := func() error {
		file, err = f.under.OpenWrite(p)
		return err
	}
	if _, missing := f.under.Stat(p); missing == nil {
		err = f.crashed()
		if err == nil {
			err = open()
		}
	} else {
		err = f.change(open)
	}
	if err != nil {
		if file != nil {
			file.Close()
		}
		return nil, err
	}
	return &faultyFile{f, p, file}, nil
}

// MkdirAll implements [FS].
func (f *Faults) MkdirAll(p string) error {
	return f.change(func() error { return f.under.MkdirAll(p) })
}

// ReadDir implements [FS].
func (f *Faults) ReadDir(p string) ([]fs.FileInfo, error) {
	if err := f.crashed(); err != nil {
		return nil, err
	}
	return f.under.ReadDir(p)
}

// Stat implements [FS].
func (f *Faults) Stat(p string) (fs.FileInfo, error) {
	if err := f.crashed(); err != nil {
		return nil, err
	}
	return f.under.Stat(p)
}

// Rename implements [FS].
func (f *Faults) Rename(oldPath, newPath string) error {
	return f.change(func() error { return f.under.Rename(oldPath, newPath) })
}

// Remove implements [FS].
func (f *Faults) Remove(p string) error {
	return f.change(func() error { return f.under.Remove(p) })
}

// RemoveAll implements [FS].
func (f *Faults) RemoveAll(p string) error {
	return f.change(func() error { return f.under.RemoveAll(p) })
}

// SyncDir implements [FS].
func (f *Faults) SyncDir(p string) error {
	return f.sync(path.Clean(p), func() error { return f.under.SyncDir(p) })
}

// Lock implements [FS].
func (f *Faults) Lock(p string) (io.Closer, error) {
	if err := f.crashed(); err != nil {
		return nil, err
	}
	return f.under.Lock(p)
}

type faultyFile struct {
	f    *Faults
	path string
	File
}

func (w *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := w.f.crashed(); err != nil {
		return 0, err
	}
	return w.File.ReadAt(p, off)
}

func (w *faultyFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = w.f.change(func() error {
		room := w.f.take(len(p))
		n, err = w.File.WriteAt(p[:room], off)
		if err == nil && room < len(p) {
			err = fmt.Errorf("writing %s: %w", w.path, ErrNoSpace)
		}
		return err
	})
	return n, err
}

func (w *faultyFile) Truncate(size int64) error {
	return w.f.change(func() error { return w.File.Truncate(size) })
}

func (w *faultyFile) Sync() error {
	return w.f.sync(w.path, w.File.Sync)
}

func (w *faultyFile) Size() (int64, error) {
	if err := w.f.crashed(); err != nil {
		return 0, err
	}
	return w.File.Size()
}
