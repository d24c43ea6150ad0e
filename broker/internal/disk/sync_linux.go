package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes bytes and size durable. Fdatasync leaves out the times,
// which saves a write to the journal when the size did not change.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync "+f.Name(), err)
		}
	}
}

// reserve allocates blocks without changing the size.
func reserve(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINTR) {
		return nil
	}
	return os.NewSyscallError("fallocate "+f.Name(), err)
}
