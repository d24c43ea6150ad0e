package logs

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/broker/internal/disk"
)

// readFile returns the bytes of a small file.
func readFile(fs disk.FS, path string) (b []byte, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	b = make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return b, nil
}

// replaceFile puts a file with the bytes b at dir/name, durably and such that a
// crash leaves the old or the new one whole.
func replaceFile(fs disk.FS, dir, name string, b []byte) error {
	if err := placeFile(fs, dir, name, b); err != nil {
		return err
	}
	if err := fs.SyncDir(dir); err != nil {
		return fmt.Errorf("syncing folder %s: %w", dir, err)
	}
	return nil
}

// placeFile is replaceFile without its last step: the file is whole, and durable
// when the folder is synced next.
func placeFile(fs disk.FS, dir, name string, b []byte) error {
	path := dir + "/" + name
	temporary := path + ".tmp"
	if err := writeFile(fs, temporary, b); err != nil {
		return fmt.Errorf("writing %s: %w", temporary, err)
	}
	if err := fs.Rename(temporary, path); err != nil {
		return fmt.Errorf("replacing %s: %w", path, err)
	}
	return nil
}

func writeFile(fs disk.FS, path string, b []byte) (err error) {
	f, err := fs.OpenWrite(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// What an earlier attempt left may be longer.
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	return f.Sync()
}
