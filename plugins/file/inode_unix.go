//go:build unix

package file

import (
	"io/fs"
	"syscall"
)

// inodeOf returns the number by which the file system knows a file.
func inodeOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Ino)
	}
	return 0
}
