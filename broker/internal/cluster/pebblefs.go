package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/broker/internal/disk"
)

// noSpaceRetry is how long a write waits between two tries on a full disk.
const noSpaceRetry = 250 * time.Millisecond

// noSpaceLogEvery is at how many tries the log says so again.
const noSpaceLogEvery = 120

// pebbleFS lets Pebble work on a disk.FS, and stops at the first failure.
//
// Pebble ends the process when a write or a sync of its manifest or of its
// write-ahead log fails. A broker must not: it has partitions to close, and a
// test has other brokers in the process. So Pebble never sees such a failure.
// The first one is kept, and told to whoever asks for [pebbleFS.failure];
// from then on nothing is written to the disk any more, which stays as it was
// at that moment, as after a loss of power. What Pebble believes to write
// after that goes to memory, so that it finds its files until it is closed.
// The stores ask for the failure after each write and before they trust it.
//
// A full disk is no failure once the node is open: the write waits for room.
type pebbleFS struct {
	under disk.FS
	log   *slog.Logger
	after vfs.FS        // what is written after the failure
	dead  chan struct{} // closed at the failure
	hurry chan struct{} // closed when nobody waits for room any more
	open  atomic.Bool   // whether a full disk is waited for

	mu  sync.Mutex
	err error
}

func newPebbleFS(under disk.FS, log *slog.Logger) *pebbleFS {
	return &pebbleFS{under: under, log: log, after: vfs.NewMem(), dead: make(chan struct{}), hurry: make(chan struct{})}
}

// failure returns what stopped the file system; nil while it works.
func (p *pebbleFS) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// stop makes err the failure, unless there is one.
func (p *pebbleFS) stop(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.dead)
	}
}

func (p *pebbleFS) stopped() bool { return p.failure() != nil }

// change does something to the disk, and hides whether that failed. The disk's
// errors name the file and what was done.
func (p *pebbleFS) change(do func() error) {
	if p.stopped() {
		return
	}
	if err := do(); err != nil {
		p.stop(err)
	}
}

// Create implements vfs.FS.
func (p *pebbleFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	if err := p.under.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		p.stop(err)
	}
	return p.openWrite(name)
}

// OpenReadWrite implements vfs.FS.
func (p *pebbleFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return p.openWrite(name)
}

// openWrite opens a file that may be new. The names of manifests and markers
// are durable at once: Pebble counts on a manifest being found after a crash
// before the marker that points to it, and on a new marker before the old one
// is gone, and POSIX promises no order. Of all others Pebble syncs the folder
// itself before it relies on them.
func (p *pebbleFS) openWrite(name string) (vfs.File, error) {
	var f disk.File
	p.change(func() (err error) {
		if f, err = p.under.OpenWrite(name); err != nil {
			return err
		}
		if base := path.Base(name); strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker.") {
			err = p.under.SyncDir(path.Dir(name))
		}
		return err
	})
	if f == nil {
		if err := p.after.MkdirAll(path.Dir(name), 0o755); err != nil {
			return nil, err
		}
		return p.after.Create(name, vfs.WriteCategoryUnspecified)
	}
	return &pebbleFile{fs: p, name: name, file: f}, nil
}

// ReuseForWrite implements vfs.FS: the old file is not reused, since bytes of
// its former life must not be taken for new ones.
func (p *pebbleFS) ReuseForWrite(oldName, newName string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := p.Remove(oldName); err != nil {
		return nil, err
	}
	return p.Create(newName, c)
}

// Open implements vfs.FS.
func (p *pebbleFS) Open(name string, _ ...vfs.OpenOption) (vfs.File, error) {
	if p.stopped() {
		if f, err := p.after.Open(name); err == nil {
			return f, nil
		}
	}
	f, err := p.under.Open(name)
	if err != nil {
		return nil, err
	}
	return &pebbleFile{fs: p, name: name, file: f}, nil
}

// OpenDir implements vfs.FS.
func (p *pebbleFS) OpenDir(name string) (vfs.File, error) {
	return &pebbleFile{fs: p, name: name, file: folder{p.under, name}}, nil
}

// Link implements vfs.FS. Pebble links files for checkpoints and ingestion
// only, of which there are none here.
func (p *pebbleFS) Link(string, string) error { return vfs.ErrUnsupported }

// Remove implements vfs.FS.
func (p *pebbleFS) Remove(name string) error {
	if p.stopped() {
		return nil
	}
	err := p.under.Remove(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.stop(err)
		return nil
	}
	return err
}

// RemoveAll implements vfs.FS.
func (p *pebbleFS) RemoveAll(name string) error {
	p.change(func() error { return p.under.RemoveAll(name) })
	return nil
}

// Rename implements vfs.FS.
func (p *pebbleFS) Rename(oldName, newName string) error {
	if p.stopped() {
		return p.after.Rename(oldName, newName)
	}
	p.change(func() error { return p.under.Rename(oldName, newName) })
	return nil
}

// MkdirAll implements vfs.FS.
func (p *pebbleFS) MkdirAll(dir string, _ os.FileMode) error { return p.under.MkdirAll(dir) }

// Lock implements vfs.FS.
func (p *pebbleFS) Lock(name string) (io.Closer, error) { return p.under.Lock(name) }

// List implements vfs.FS.
func (p *pebbleFS) List(dir string) ([]string, error) {
	entries, err := p.under.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Stat implements vfs.FS.
func (p *pebbleFS) Stat(name string) (vfs.FileInfo, error) {
	if p.stopped() {
		if info, err := p.after.Stat(name); err == nil {
			return info, nil
		}
	}
	info, err := p.under.Stat(name)
	if err != nil {
		return nil, err
	}
	return fileInfo{info}, nil
}

// PathBase implements vfs.FS.
func (p *pebbleFS) PathBase(name string) string { return path.Base(name) }

// PathJoin implements vfs.FS.
func (p *pebbleFS) PathJoin(elem ...string) string { return path.Join(elem...) }

// PathDir implements vfs.FS.
func (p *pebbleFS) PathDir(name string) string { return path.Dir(name) }

// GetDiskUsage implements vfs.FS.
func (p *pebbleFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{}, vfs.ErrUnsupported
}

// Unwrap implements vfs.FS.
func (p *pebbleFS) Unwrap() vfs.FS { return nil }

// fileInfo adds to what a disk.FS knows of a file the device, which it does
// not know.
type fileInfo struct{ os.FileInfo }

// DeviceID implements vfs.FileInfo.
func (fileInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

// pebbleFile is an open file, read and written from its beginning.
type pebbleFile struct {
	fs      *pebbleFS
	name    string
	file    disk.File
	read    int64 // where the next Read begins
	written int64 // where the next Write begins
}

// Read implements vfs.File.
func (f *pebbleFile) Read(b []byte) (int, error) {
	n, err := f.file.ReadAt(b, f.read)
	f.read += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// ReadAt implements vfs.File.
func (f *pebbleFile) ReadAt(b []byte, at int64) (int, error) { return f.file.ReadAt(b, at) }

// Write implements vfs.File.
func (f *pebbleFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.written)
	f.written += int64(n)
	return n, err
}

// WriteAt implements vfs.File.
func (f *pebbleFile) WriteAt(b []byte, at int64) (int, error) {
	f.fs.change(func() error {
		tries := 0
		for rest := b; ; {
			n, err := f.file.WriteAt(rest, at)
			if !errors.Is(err, disk.ErrNoSpace) {
				return err
			}
			rest, at = rest[n:], at+int64(n)
			if tries++; tries%noSpaceLogEvery == 1 && f.fs.open.Load() {
				f.fs.log.Error("no space left for the cluster metadata; waiting", "file", f.name)
			}
			if !f.fs.waitForSpace() {
				return err
			}
		}
	})
	return len(b), nil
}

// waitForSpace waits before a write is tried again; it returns false if it
// should not be.
func (p *pebbleFS) waitForSpace() bool {
	if !p.open.Load() {
		return false // nobody could stop a start that waits
	}
	t := time.NewTimer(noSpaceRetry)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.dead:
	case <-p.hurry:
	}
	return false
}

// Preallocate implements vfs.File.
func (f *pebbleFile) Preallocate(at, length int64) error {
	if f.fs.stopped() {
		return nil
	}
	return f.file.Reserve(at + length)
}

// Stat implements vfs.File.
func (f *pebbleFile) Stat() (vfs.FileInfo, error) { return f.fs.Stat(f.name) }

// Sync implements vfs.File.
func (f *pebbleFile) Sync() error {
	f.fs.change(f.file.Sync)
	return nil
}

// SyncData implements vfs.File.
func (f *pebbleFile) SyncData() error { return f.Sync() }

// SyncTo implements vfs.File.
func (f *pebbleFile) SyncTo(int64) (bool, error) { return true, f.Sync() }

// Prefetch implements vfs.File.
func (f *pebbleFile) Prefetch(int64, int64) error { return nil }

// Fd implements vfs.File.
func (f *pebbleFile) Fd() uintptr { return vfs.InvalidFd }

// Close implements vfs.File.
func (f *pebbleFile) Close() error {
	if err := f.file.Close(); err != nil && !f.fs.stopped() {
		return err
	}
	return nil
}

// folder is an open folder, of which only Sync and Close are called.
type folder struct {
	fs   disk.FS
	name string
}

func (d folder) ReadAt([]byte, int64) (int, error)  { return 0, d.notFile("read") }
func (d folder) WriteAt([]byte, int64) (int, error) { return 0, d.notFile("write") }
func (d folder) Truncate(int64) error               { return d.notFile("truncate") }
func (d folder) Size() (int64, error)               { return 0, d.notFile("measure") }
func (d folder) Reserve(int64) error                { return nil }
func (d folder) Sync() error                        { return d.fs.SyncDir(d.name) }
func (d folder) Close() error                       { return nil }

func (d folder) notFile(what string) error {
	return fmt.Errorf("cannot %s %s: it is a folder", what, d.name)
}
