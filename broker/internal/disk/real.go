package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Real is the file system of the machine. The zero value is ready for use.
type Real struct{}

// Open implements [FS].
func (Real) Open(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &realFile{f}, nil
}

// OpenWrite implements [FS].
func (Real) OpenWrite(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, spaceError(err)
	}
	return &realFile{f}, nil
}

// MkdirAll implements [FS].
func (Real) MkdirAll(path string) error { return spaceError(os.MkdirAll(path, 0o755)) }

// ReadDir implements [FS]. Entries that vanish while it runs are left out.
func (Real) ReadDir(path string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// Stat implements [FS].
func (Real) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// Rename implements [FS].
func (Real) Rename(oldPath, newPath string) error { return spaceError(os.Rename(oldPath, newPath)) }

// Remove implements [FS].
func (Real) Remove(path string) error { return os.Remove(path) }

// RemoveAll implements [FS].
func (Real) RemoveAll(path string) error { return os.RemoveAll(path) }

// SyncDir implements [FS]. Where a folder cannot be synced by itself, as on
// Windows, it does nothing: the system orders changes to folders there.
func (Real) SyncDir(path string) error {
	if !canSyncDir {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(spaceError(err), d.Close())
}

// Lock implements [FS] with the system's advisory lock on an open file.
func (Real) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, spaceError(err)
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return f, nil
}

// realFile adds to os.File what File has besides.
type realFile struct{ *os.File }

func (f *realFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, spaceError(err)
}

func (f *realFile) Truncate(size int64) error { return spaceError(f.File.Truncate(size)) }

func (f *realFile) Sync() error { return spaceError(syncData(f.File)) }

func (f *realFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *realFile) Reserve(size int64) error { return spaceError(reserve(f.File, size)) }

// spaceError makes the system's ways of saying that there is no room
// recognisable as ErrNoSpace.
func spaceError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}
