package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

const lockName = ".lock"

// Folder is a broker's data folder, locked and checked.
type Folder struct {
	fs   disk.FS
	dir  string
	node ident.BrokerID
	lock io.Closer
	meta meta
	// marked says that meta is on the disk.
	marked bool
}

// OpenFolder creates the folder if it does not exist, locks it, and checks that
// it is one of broker node. Errors are LockedError, FormatError, NodeError,
// MetaError and those of the disk. The folder is unlocked by [Manager.Close],
// or by Close if no manager took it over.
func OpenFolder(files disk.FS, dir string, node ident.BrokerID) (*Folder, error) {
	if err := makeFolder(files, dir); err != nil {
		return nil, fmt.Errorf("creating data folder: %w", err)
	}
	lock, err := files.Lock(dir + "/" + lockName)
	if errors.Is(err, disk.ErrLocked) {
		return nil, &LockedError{Dir: dir, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("locking data folder: %w", err)
	}
	f := &Folder{fs: files, dir: dir, node: node, lock: lock}
	if err := f.check(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return f, nil
}

// makeFolder creates dir and what is missing above it, durably.
func makeFolder(files disk.FS, dir string) error {
	_, err := files.Stat(dir)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := path.Dir(dir)
	if parent != dir {
		if err := makeFolder(files, parent); err != nil {
			return err
		}
	}
	if err := files.MkdirAll(dir); err != nil {
		return err
	}
	return files.SyncDir(parent)
}

func (f *Folder) check() error {
	m, ok, err := readMeta(f.fs, f.dir)
	if err != nil {
		return err
	}
	if ok && m.node != f.node {
		return &NodeError{File: f.dir + "/" + metaName, Have: m.node, Want: f.node}
	}
	f.meta, f.marked = m, ok
	return nil
}

// Dir returns the path.
func (f *Folder) Dir() string { return f.dir }

// ClusterID returns the id of the cluster that the folder belongs to; ok is
// false when it is new.
func (f *Folder) ClusterID() (id string, ok bool) { return f.meta.cluster, f.marked }

// SetClusterID marks a new folder, durably, and checks one that is marked: the
// error is a ClusterError then.
func (f *Folder) SetClusterID(id string) error {
	if id == "" {
		return errors.New("marking data folder: cluster id is empty")
	}
	if f.marked {
		if f.meta.cluster != id {
			return &ClusterError{File: f.dir + "/" + metaName, Have: f.meta.cluster, Want: id}
		}
		return nil
	}
	m := meta{node: f.node, cluster: id}
	if err := m.write(f.fs, f.dir); err != nil {
		return fmt.Errorf("marking data folder: %w", err)
	}
	f.meta, f.marked = m, true
	return nil
}

// Close unlocks the folder.
func (f *Folder) Close() error { return f.lock.Close() }
