package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"sync/atomic"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// The files of a segment are named after its base offset.
const (
	logSuffix       = ".log"
	offsetSuffix    = ".index"
	timeSuffix      = ".timeindex"
	txnSuffix       = ".txnindex"
	deletedSuffix   = ".deleted"
	cleanedSuffix   = ".cleaned"
	swapSuffix      = ".swap"
	temporarySuffix = ".tmp"
	cutInfix        = ".cut-"

	nameDigits = 20
)

// stem returns a segment's path without suffix.
func stem(dir string, base ident.Offset) string {
	return path.Join(dir, fmt.Sprintf("%0*d", nameDigits, base))
}

// parseName splits the name of a segment's file into base offset and suffix.
func parseName(name string) (base ident.Offset, suffix string, ok bool) {
	if len(name) <= nameDigits || name[nameDigits] != '.' {
		return 0, "", false
	}
	n, err := strconv.ParseUint(name[:nameDigits], 10, 63)
	if err != nil {
		return 0, "", false
	}
	return ident.Offset(n), name[nameDigits:], true
}

// handle is an open file that lives until its last user lets go.
type handle struct {
	file disk.File
	refs atomic.Int64
}

func newHandle(f disk.File) *handle {
	h := &handle{file: f}
	h.refs.Store(1)
	return h
}

// acquire adds a user; it fails when the file was closed.
func (h *handle) acquire() bool {
	for {
		n := h.refs.Load()
		if n == 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (h *handle) release() error {
	if h.refs.Add(-1) == 0 {
		return h.file.Close()
	}
	return nil
}

// removeIfThere removes a file that may be missing.
func removeIfThere(fsys disk.FS, p string) error {
	if err := fsys.Remove(p); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readFile returns all bytes of a small file.
func readFile(fsys disk.FS, p string) ([]byte, error) {
	f, err := fsys.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) && err != nil {
		return nil, err
	}
	return b, nil
}

// replaceFile puts b in place of a file, so that a crash leaves the old or the
// new one.
func replaceFile(fsys disk.FS, dir, name string, b []byte) error {
	final := path.Join(dir, name)
	temporary := final + temporarySuffix
	f, err := fsys.OpenWrite(temporary)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(temporary, final); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}
