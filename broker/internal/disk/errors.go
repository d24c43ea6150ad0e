package disk

import "errors"

var (
	// ErrNoSpace says that the disk is full. A write that returns it may have
	// written a part.
	ErrNoSpace = errors.New("no space left on disk")
	// ErrLocked says that another holder has the lock.
	ErrLocked = errors.New("locked by another process")
)
