// Package disk is the file system as the broker sees it.
//
// Every file that a broker reads or writes goes through an [FS] that was
// passed in, so that the same code runs on real files, in memory, and on a
// memory disk that crashes, tears writes, runs full or fails an fsync.
//
// The interface is small on purpose: positioned reads and writes, truncation,
// explicit sync of files and of folders. Durability follows the rules of
// POSIX: bytes are durable after [File.Sync] returned nil, and the existence,
// name or absence of a file is durable after [FS.SyncDir] of its folder
// returned nil. Nothing else is.
package disk

import (
	"io"
	"io/fs"
)

// FS is a file system. Paths are slash-separated and are passed to the
// underlying system as they are. All methods may be called concurrently.
// Errors satisfy errors.Is with [fs.ErrNotExist], [fs.ErrExist], [ErrNoSpace]
// and [ErrLocked] where those apply.
type FS interface {
	// Open opens an existing file for reading.
	Open(path string) (File, error)
	// OpenWrite opens a file for reading and writing, and creates it with
	// size 0 if it does not exist. It does not truncate.
	OpenWrite(path string) (File, error)
	// MkdirAll creates a folder and its missing parents.
	MkdirAll(path string) error
	// ReadDir lists a folder in the order of its entries' names.
	ReadDir(path string) ([]fs.FileInfo, error)
	// Stat describes a file or folder.
	Stat(path string) (fs.FileInfo, error)
	// Rename replaces newPath by oldPath atomically.
	Rename(oldPath, newPath string) error
	// Remove deletes a file or an empty folder.
	Remove(path string) error
	// RemoveAll deletes a folder and all it holds; a missing one is no error.
	RemoveAll(path string) error
	// SyncDir makes the entries of a folder durable.
	SyncDir(path string) error
	// Lock takes an exclusive lock that dies with the process. It fails with
	// [ErrLocked] when another holder, in this process or another, has it.
	Lock(path string) (io.Closer, error)
}

// File is an open file. ReadAt and WriteAt may be called concurrently; the
// caller orders writes, truncations and syncs among themselves.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Truncate sets the size; growing adds zero bytes.
	Truncate(size int64) error
	// Sync makes the bytes and the size durable. After it failed, what the
	// disk holds is unknown, and a second Sync must not be trusted.
	Sync() error
	// Size returns the current size in bytes.
	Size() (int64, error)
	// Reserve asks the system to set space aside for size bytes without
	// changing Size. It is a hint: not supported is not an error.
	Reserve(size int64) error
}
