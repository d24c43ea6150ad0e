package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const canSyncDir = false

// errQuota says that the disk has no room.
const errQuota = windows.ERROR_DISK_FULL

func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}
