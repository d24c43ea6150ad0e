package disk

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// content is the bytes of a file: as last written, as last synced, and where
// the two may differ. Syncing copies what differs and no more.
type content struct {
	mu       sync.RWMutex
	live     []byte
	durable  []byte
	dirty    extents
	modified time.Time
	// low is the smallest size since the last sync: durable bytes beyond it
	// may have been given up by the disk.
	low int
}

func (c *content) stat() (int64, time.Time) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return int64(len(c.live)), c.modified
}

func (c *content) readAt(p []byte, off int64) (int, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if off >= int64(len(c.live)) {
		return 0, io.EOF
	}
	n := copy(p, c.live[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (c *content) writeAt(p []byte, off int64, now time.Time) {
	if len(p) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	end := int(off) + len(p)
	if end > len(c.live) {
		// The hole between the old end and off is as unsynced as the bytes.
		c.dirty.add(len(c.live), end)
		c.live = resize(c.live, end)
	}
	copy(c.live[off:], p)
	c.dirty.add(int(off), end)
	c.modified = now
}

func (c *content) truncate(size int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > len(c.live) {
		c.dirty.add(len(c.live), size)
	}
	c.live = resize(c.live, size)
	c.dirty.cut(size)
	c.low = min(c.low, size)
	c.modified = now
}

func (c *content) sync() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.durable = resize(c.durable, len(c.live))
	for _, e := range c.dirty.list {
		copy(c.durable[e.from:e.end], c.live[e.from:e.end])
	}
	c.dirty.list = nil
	c.low = len(c.live)
}

// resize returns b with the given length, the new bytes zero.
func resize(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size]
	}
	old := len(b)
	b = slices.Grow(b, size-old)[:size]
	clear(b[old:])
	return b
}

// extent is the range [from, end) of a file.
type extent struct{ from, end int }

// extents is a set of bytes as ordered ranges that do not touch.
type extents struct{ list []extent }

func (x *extents) add(from, end int) {
	if from >= end {
		return
	}
	// i is the first range that reaches from, j the first beyond end.
	i, _ := slices.BinarySearchFunc(x.list, from, func(e extent, v int) int { return e.end - v })
	j := i
	for j < len(x.list) && x.list[j].from <= end {
		from, end = min(from, x.list[j].from), max(end, x.list[j].end)
		j++
	}
	x.list = slices.Replace(x.list, i, j, extent{from, end})
}

// cut removes all bytes at or above size.
func (x *extents) cut(size int) {
	for len(x.list) > 0 {
		last := &x.list[len(x.list)-1]
		if last.from < size {
			last.end = min(last.end, size)
			return
		}
		x.list = x.list[:len(x.list)-1]
	}
}

// memoryFile is an open file of a Memory.
type memoryFile struct {
	m        *Memory
	path     string
	data     *content
	readOnly bool

	mu     sync.RWMutex
	closed bool
}

// begin checks that the file may be used.
func (f *memoryFile) begin(op string, write bool) error {
	f.mu.RLock()
	closed := f.closed
	f.mu.RUnlock()
	err := f.m.alive()
	switch {
	case err != nil:
	case closed:
		err = fs.ErrClosed
	case write && f.readOnly:
		err = errReadOnly
	default:
		return nil
	}
	return &fs.PathError{Op: op, Path: f.path, Err: err}
}

func (f *memoryFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.begin("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.path, Err: fs.ErrInvalid}
	}
	return f.data.readAt(p, off)
}

func (f *memoryFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.begin("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "write", Path: f.path, Err: fs.ErrInvalid}
	}
	f.data.writeAt(p, off, f.m.now())
	return len(p), nil
}

func (f *memoryFile) Truncate(size int64) error {
	if err := f.begin("truncate", true); err != nil {
		return err
	}
	if size < 0 {
		return &fs.PathError{Op: "truncate", Path: f.path, Err: fs.ErrInvalid}
	}
	f.data.truncate(int(size), f.m.now())
	return nil
}

// Sync works on files opened for reading too, as fsync does.
func (f *memoryFile) Sync() error {
	if err := f.begin("sync", false); err != nil {
		return err
	}
	f.data.sync()
	return nil
}

func (f *memoryFile) Size() (int64, error) {
	if err := f.begin("size", false); err != nil {
		return 0, err
	}
	size, _ := f.data.stat()
	return size, nil
}

func (f *memoryFile) Reserve(int64) error { return f.begin("reserve", true) }

func (f *memoryFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("close %s: %w", f.path, fs.ErrClosed)
	}
	f.closed = true
	return nil
}
