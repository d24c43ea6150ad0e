package disk

import "errors"

var (
	// ErrNoSpace says that the disk is full. A write that returns it may have
	// written a part.
	ErrNoSpace = errors.New("no space left on disk")
	// ErrLocked says that another holder has the lock.
	ErrLocked = errors.New("locked by another process")
	// ErrCrashed says that a simulated crash happened; the file system and
	// its files are of no use any more.
	ErrCrashed = errors.New("file system has crashed")
	// ErrSyncFailed is the failure that [Faults] injects into a sync.
	ErrSyncFailed = errors.New("sync failed by injection")
)
