package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a file system in memory that can crash. It remembers what was made
// durable apart from what was only written; [Memory.Crash] returns a disk on
// which the difference was lost, in part or in whole.
//
// Relative and absolute paths name the same files: both begin at one root.
type Memory struct {
	now func() time.Time

	// mu guards the tree, the pending changes and the locks. The bytes of a
	// file have a lock of their own, taken after this one.
	mu      sync.RWMutex
	root    *node
	pending []*dirChange
	locks   map[string]bool
	dead    bool
}

// NewMemory returns an empty file system. now dates the files.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, root: newDir(now()), locks: map[string]bool{}}
}

// node is a folder or a file.
type node struct {
	dir bool
	// entries are what a folder lists, durable what it lists after a crash at
	// the worst moment.
	entries, durable map[string]*node
	// data is what a file holds.
	data *content
	// modified is a folder's time.
	modified time.Time
}

func newDir(now time.Time) *node {
	return &node{dir: true, entries: map[string]*node{}, durable: map[string]*node{}, modified: now}
}

// dirChange is one change to folders that happens as a whole or, after a
// crash, not at all.
type dirChange struct{ edits []edit }

// edit makes name refer to a node, or to nothing.
type edit struct {
	dir  *node
	name string
	to   *node
}

// apply makes the change in what each folder lists durably.
func (c *dirChange) apply() {
	for _, e := range c.edits {
		if e.to == nil {
			delete(e.dir.durable, e.name)
		} else {
			e.dir.durable[e.name] = e.to
		}
	}
}

func (c *dirChange) touches(dir *node) bool {
	return slices.ContainsFunc(c.edits, func(e edit) bool { return e.dir == dir })
}

// change makes edits visible at once, and durable later.
func (m *Memory) change(edits ...edit) {
	for _, e := range edits {
		if e.to == nil {
			delete(e.dir.entries, e.name)
		} else {
			e.dir.entries[e.name] = e.to
		}
		e.dir.modified = m.now()
	}
	m.pending = append(m.pending, &dirChange{edits})
}

func parts(p string) []string {
	p = strings.TrimPrefix(path.Clean("/"+p), "/")
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

// find returns the node at p. The caller holds mu.
func (m *Memory) find(op, p string) (*node, error) {
	if m.dead {
		return nil, &fs.PathError{Op: op, Path: p, Err: ErrCrashed}
	}
	n := m.root
	for _, name := range parts(p) {
		if !n.dir || n.entries[name] == nil {
			return nil, &fs.PathError{Op: op, Path: p, Err: fs.ErrNotExist}
		}
		n = n.entries[name]
	}
	return n, nil
}

// findParent returns the folder that holds p, and p's name in it.
func (m *Memory) findParent(op, p string) (*node, string, error) {
	names := parts(p)
	if len(names) == 0 {
		return nil, "", &fs.PathError{Op: op, Path: p, Err: fs.ErrInvalid}
	}
	dir, err := m.find(op, path.Join(names[:len(names)-1]...))
	if err == nil && !dir.dir {
		err = &fs.PathError{Op: op, Path: p, Err: fs.ErrNotExist}
	}
	return dir, names[len(names)-1], err
}

// Open implements [FS].
func (m *Memory) Open(p string) (File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find("open", p)
	if err != nil {
		return nil, err
	}
	if n.dir {
		return nil, &fs.PathError{Op: "open", Path: p, Err: errIsDir}
	}
	return &memoryFile{m: m, path: p, data: n.data, readOnly: true}, nil
}

var (
	errIsDir    = errors.New("is a folder")
	errNotDir   = errors.New("is not a folder")
	errNotEmpty = errors.New("folder is not empty")
	errReadOnly = errors.New("file was opened for reading")
)

// OpenWrite implements [FS].
func (m *Memory) OpenWrite(p string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, name, err := m.findParent("open", p)
	if err != nil {
		return nil, err
	}
	n := dir.entries[name]
	if n == nil {
		n = &node{data: &content{modified: m.now()}}
		m.change(edit{dir, name, n})
	}
	if n.dir {
		return nil, &fs.PathError{Op: "open", Path: p, Err: errIsDir}
	}
	return &memoryFile{m: m, path: p, data: n.data}, nil
}

// MkdirAll implements [FS].
func (m *Memory) MkdirAll(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find("mkdir", "/"); err != nil {
		return err
	}
	dir := m.root
	for _, name := range parts(p) {
		next := dir.entries[name]
		if next == nil {
			next = newDir(m.now())
			m.change(edit{dir, name, next})
		}
		if !next.dir {
			return &fs.PathError{Op: "mkdir", Path: p, Err: errNotDir}
		}
		dir = next
	}
	return nil
}

// ReadDir implements [FS].
func (m *Memory) ReadDir(p string) ([]fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	dir, err := m.find("readdir", p)
	if err != nil {
		return nil, err
	}
	if !dir.dir {
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: errNotDir}
	}
	infos := make([]fs.FileInfo, 0, len(dir.entries))
	for _, name := range slices.Sorted(maps.Keys(dir.entries)) {
		infos = append(infos, describe(name, dir.entries[name]))
	}
	return infos, nil
}

// Stat implements [FS].
func (m *Memory) Stat(p string) (fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n, err := m.find("stat", p)
	if err != nil {
		return nil, err
	}
	return describe(path.Base(p), n), nil
}

// Rename implements [FS]. Whole folders can be renamed.
func (m *Memory) Rename(oldPath, newPath string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, oldName, err := m.findParent("rename", oldPath)
	if err != nil {
		return err
	}
	to, newName, err := m.findParent("rename", newPath)
	if err != nil {
		return err
	}
	n, replaced := from.entries[oldName], to.entries[newName]
	switch {
	case n == nil:
		return &fs.PathError{Op: "rename", Path: oldPath, Err: fs.ErrNotExist}
	case n == replaced:
		return nil
	case replaced != nil && replaced.dir != n.dir:
		return &fs.PathError{Op: "rename", Path: newPath, Err: fs.ErrExist}
	case replaced != nil && len(replaced.entries) > 0:
		return &fs.PathError{Op: "rename", Path: newPath, Err: errNotEmpty}
	}
	m.change(edit{from, oldName, nil}, edit{to, newName, n})
	return nil
}

// Remove implements [FS].
func (m *Memory) Remove(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, name, err := m.findParent("remove", p)
	if err != nil {
		return err
	}
	n := dir.entries[name]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: p, Err: fs.ErrNotExist}
	}
	if len(n.entries) > 0 {
		return &fs.PathError{Op: "remove", Path: p, Err: errNotEmpty}
	}
	m.change(edit{dir, name, nil})
	return nil
}

// RemoveAll implements [FS]. Each file goes by a change of its own, so that a
// crash may leave a part.
func (m *Memory) RemoveAll(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, name, err := m.findParent("removeall", p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if dir.entries[name] != nil {
		m.removeTree(dir, name)
	}
	return nil
}

func (m *Memory) removeTree(dir *node, name string) {
	n := dir.entries[name]
	for _, child := range slices.Sorted(maps.Keys(n.entries)) {
		m.removeTree(n, child)
	}
	m.change(edit{dir, name, nil})
}

// SyncDir implements [FS].
func (m *Memory) SyncDir(p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.find("syncdir", p)
	if err != nil {
		return err
	}
	m.pending = slices.DeleteFunc(m.pending, func(c *dirChange) bool {
		if !c.touches(dir) {
			return false
		}
		c.apply()
		return true
	})
	return nil
}

// Lock implements [FS].
func (m *Memory) Lock(p string) (io.Closer, error) {
	f, err := m.OpenWrite(p)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := path.Clean("/" + p)
	if m.locks[key] {
		return nil, fmt.Errorf("locking %s: %w", p, ErrLocked)
	}
	m.locks[key] = true
	return &memoryLock{m, key}, nil
}

type memoryLock struct {
	m   *Memory
	key string
}

func (l *memoryLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.locks, l.key)
	return nil
}

// alive fails when the file system has crashed.
func (m *Memory) alive() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.dead {
		return ErrCrashed
	}
	return nil
}

// info describes a node as it was.
type info struct {
	name     string
	size     int64
	dir      bool
	modified time.Time
}

func describe(name string, n *node) fs.FileInfo {
	if n.dir {
		return info{name: name, dir: true, modified: n.modified}
	}
	size, modified := n.data.stat()
	return info{name: name, size: size, modified: modified}
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) IsDir() bool        { return i.dir }
func (i info) ModTime() time.Time { return i.modified }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
