//go:build !linux

package disk

import "os"

func syncData(f *os.File) error { return f.Sync() }

// reserve does nothing: the hint is not supported here.
func reserve(*os.File, int64) error { return nil }
