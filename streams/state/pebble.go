package state

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// pebbleBackend keeps one task's stores in a Pebble database; pending writes
// are an indexed batch.
type pebbleBackend struct {
	lock   *pebble.Lock
	memory *Memory
	db     *pebble.DB
	batch  *pebble.Batch
}

func openPebble(cfg Config) (*pebbleBackend, error) {
	fs := cfg.FS
	if fs == nil {
		fs = vfs.Default
	}
	if err := fs.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := pebble.LockDirectory(cfg.Dir, fs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	db, err := pebble.Open(cfg.Dir, &pebble.Options{
		FS:                          fs,
		Lock:                        lock,
		Cache:                       cfg.Memory.cache,
		FileCache:                   cfg.Memory.files,
		MemTableSize:                cfg.Memory.memTableBytes(),
		MemTableStopWritesThreshold: 4,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      pebbleLog{cfg.Log, cfg.Dir},
	})
	if err != nil {
		return nil, errors.Join(marked(err), lock.Close())
	}
	cfg.Memory.opened(1)
	return &pebbleBackend{lock: lock, memory: cfg.Memory, db: db, batch: db.NewIndexedBatch()}, nil
}

// marked adds [ErrCorrupt] to the errors by which Pebble reports damage.
func marked(err error) error {
	if err != nil && (pebble.IsCorruptionError(err) || errors.Is(err, pebble.ErrDBDoesNotExist)) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// reader must not touch the batch for a committed read: it is the owner's.
func (b *pebbleBackend) reader(committed bool) pebble.Reader {
	if committed {
		return b.db
	}
	return b.batch
}

func (b *pebbleBackend) get(dst, key []byte, committed bool) ([]byte, bool, error) {
	v, closer, err := b.reader(committed).Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, marked(err)
	}
	dst = append(dst, v...)
	return dst, true, closer.Close()
}

func (b *pebbleBackend) set(key, value []byte) error { return b.batch.Set(key, value, nil) }
func (b *pebbleBackend) delete(key []byte) error     { return b.batch.Delete(key, nil) }
func (b *pebbleBackend) deleteRange(from, end []byte) error {
	return b.batch.DeleteRange(from, end, nil)
}

func (b *pebbleBackend) scan(from, end []byte, o scanOptions, visit func(k, v []byte) bool) error {
	it, err := b.reader(o.committed).NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: end})
	if err != nil {
		return marked(err)
	}
	first, next := it.First, it.Next
	if o.reverse {
		first, next = it.Last, it.Prev
	}
	for ok := first(); ok; ok = next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return marked(errors.Join(err, it.Close()))
		}
		if !visit(it.Key(), v) {
			break
		}
	}
	return marked(errors.Join(it.Error(), it.Close()))
}

func (b *pebbleBackend) commit() error {
	if b.batch.Empty() {
		return nil
	}
	if err := b.batch.Commit(pebble.NoSync); err != nil {
		return marked(err)
	}
	return b.renew()
}

func (b *pebbleBackend) drop() error { return b.renew() }

func (b *pebbleBackend) renew() error {
	if err := b.batch.Close(); err != nil {
		return marked(err)
	}
	b.batch = b.db.NewIndexedBatch()
	return nil
}

func (b *pebbleBackend) pendingBytes() int64 {
	if b.batch.Empty() {
		return 0 // Len counts the batch's header
	}
	return int64(b.batch.Len())
}

func (b *pebbleBackend) close() error {
	b.memory.opened(-1)
	return marked(errors.Join(b.batch.Close(), b.db.Close(), b.lock.Close()))
}

// pebbleLog sends Pebble's reports to the job's log: routine ones at debug.
type pebbleLog struct {
	log *slog.Logger
	dir string
}

func (l pebbleLog) Infof(format string, args ...any) {
	l.log.Debug(fmt.Sprintf(format, args...), "folder", l.dir)
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.log.Error(fmt.Sprintf(format, args...), "folder", l.dir)
}

// Fatalf is how Pebble says that it cannot write any more: it may not return.
func (l pebbleLog) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("state folder %s: "+format, append([]any{l.dir}, args...)...))
}

// readPebble reads one key of a database that nobody has open.
func readPebble(dir string, key []byte) (value []byte, err error) {
	db, err := pebble.Open(dir, &pebble.Options{ReadOnly: true, FormatMajorVersion: pebble.FormatNewest, Logger: pebbleLog{slog.New(slog.DiscardHandler), dir}})
	if err != nil {
		return nil, marked(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	v, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, marked(err)
	}
	return append([]byte{}, v...), closer.Close()
}

// LockFolder takes a folder for this process, until the lock is closed or the process ends. It fails with [ErrLocked] when
// another has it.
func LockFolder(dir string) (io.Closer, error) {
	lock, err := pebble.LockDirectory(dir, vfs.Default)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return lock, nil
}
