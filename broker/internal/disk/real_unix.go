//go:build unix

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const canSyncDir = true

// errQuota says that the user's share of the disk is used up.
const errQuota = unix.EDQUOT

// lockFile takes the lock of the open file, which conflicts with any other
// open file, in this process too.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
