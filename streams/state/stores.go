package state

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var (
	// ErrLocked says that another process, or another task of this one, has
	// the folder open.
	ErrLocked = errors.New("state folder is in use")
	// ErrCorrupt says that what the folder holds cannot be trusted: it is to
	// be removed and restored from the changelogs.
	ErrCorrupt = errors.New("state folder is corrupt")
	// ErrClosed says that the stores were closed while they were read.
	ErrClosed = errors.New("state stores are closed")
)

// Change is one write to a store, as its changelog has to record it.
type Change struct {
	// Store is the name of the store.
	Store string
	// Key and Value are those of the changelog record. A nil Value deletes;
	// an empty one does not. Both are valid during the call only.
	Key, Value []byte
}

// Config says what [Open] opens.
type Config struct {
	// Dir is the folder of the task; Open makes it. It may be empty if no
	// store is kept on disk.
	Dir string
	// Specs are the task's stores.
	Specs []Spec
	// ChangelogTopic names the changelog topic of a store, which its serdes
	// are bound to. Nil leaves them unbound.
	ChangelogTopic func(store string) string
	// Memory is shared by all stores of a process. Nil gives these stores a
	// small one of their own.
	Memory *Memory
	// Capture is called for each write to a logged store, by the goroutine
	// that writes and before the write returns. Its error becomes the
	// write's. Nil captures nothing.
	Capture func(Change) error
	// FS is the file system of Dir; nil means the real one.
	FS vfs.FS
	// Log gets what is worth a line. Nil discards.
	Log *slog.Logger
}

// Stores are the stores of one task. Except where said, methods are for the
// goroutine that owns the task; reads made through [ReadOnly] views come from
// any goroutine.
type Stores struct {
	config     Config
	stores     map[string]*byteStore
	disk       backend // nil if no store is on disk
	memory     backend // nil if no store is in memory
	checkpoint Checkpoint
	freeMemory func() // set when Memory is our own

	// reading is held for reading by committed reads, so that Close waits
	// for them.
	reading sync.RWMutex
	closed  bool
}

// Open opens the stores of a task, with what was last committed. It fails with
// [ErrLocked] or [ErrCorrupt] where those apply.
func Open(cfg Config) (*Stores, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Stores{config: cfg, stores: map[string]*byteStore{}, freeMemory: func() {}}
	for _, spec := range cfg.Specs {
		if err := spec.Validate(); err != nil {
			return nil, err
		}
		if _, twice := s.stores[spec.Name]; twice {
			return nil, fmt.Errorf("store %q: listed twice", spec.Name)
		}
		s.stores[spec.Name] = newStore(s, spec)
	}
	if cfg.Memory == nil {
		own := NewMemory(ownMemoryBytes)
		s.config.Memory, s.freeMemory = own, own.Close
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stores) open() error {
	var onDisk, inMemory bool
	for _, st := range s.stores {
		onDisk = onDisk || !st.spec.InMemory
		inMemory = inMemory || st.spec.InMemory
	}
	if inMemory {
		s.memory = newMemoryBackend(s.config.Memory)
	}
	if onDisk {
		disk, err := openPebble(s.config)
		if err != nil {
			return fmt.Errorf("opening state folder %s: %w", s.config.Dir, err)
		}
		s.disk = disk
		if err := s.loadFolder(); err != nil {
			return fmt.Errorf("reading state folder %s: %w", s.config.Dir, err)
		}
	}
	for _, st := range s.sorted() {
		st.backend = s.disk
		if st.spec.InMemory {
			st.backend = s.memory
		}
		if err := st.load(); err != nil {
			return fmt.Errorf("reading store %q in %s: %w", st.spec.Name, s.config.Dir, err)
		}
	}
	return s.Commit(s.checkpoint)
}

// loadFolder checks the format, reads the checkpoint and removes stores that
// the topology does not have any more, or has with another kind.
func (s *Stores) loadFolder() error {
	if err := checkFormat(s.disk); err != nil {
		return err
	}
	enc, ok, err := s.disk.get(nil, []byte{keyCheckpoint}, false)
	if err != nil {
		return err
	}
	if ok {
		if s.checkpoint, err = decodeCheckpoint(enc); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	known := map[string]Kind{}
	err = s.disk.scan([]byte{keyDescription}, []byte{keyDescription + 1}, scanOptions{}, func(k, v []byte) bool {
		d, derr := decodeDescription(v)
		if derr != nil {
			err = fmt.Errorf("%w: description of store %q: %w", ErrCorrupt, k[1:], derr)
			return false
		}
		known[string(k[1:])] = d.kind
		return true
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		st, wanted := s.stores[name]
		if wanted && !st.spec.InMemory && st.spec.Kind == known[name] {
			continue
		}
		s.config.Log.Info("removing a store that the topology no longer has", "store", name, "kind", known[name], "folder", s.config.Dir)
		if err := removeStore(s.disk, name); err != nil {
			return err
		}
		delete(s.checkpoint.Changelogs, name)
	}
	return nil
}

// Checkpoint returns what was committed last: the zero value in a new folder.
// The caller must not change its maps. Positions of stores in memory are there
// only while these stores are open.
func (s *Stores) Checkpoint() Checkpoint { return s.checkpoint }

// UncommittedBytes is how much memory the pending writes take, roughly.
func (s *Stores) UncommittedBytes() int64 {
	var n int64
	for _, b := range s.backends() {
		n += b.pendingBytes()
	}
	return n
}

// Commit makes the pending writes visible to everybody, together with c. It
// does not sync: after a crash of the machine the folder may hold an earlier
// commit, whole, and the changelogs make up the difference. After an error the
// stores must be closed.
func (s *Stores) Commit(c Checkpoint) error {
	for _, st := range s.sorted() {
		if err := st.beforeCommit(); err != nil {
			return fmt.Errorf("committing store %q: %w", st.spec.Name, err)
		}
	}
	if s.disk != nil {
		onDisk := c
		onDisk.Changelogs = maps.Clone(c.Changelogs)
		maps.DeleteFunc(onDisk.Changelogs, func(store string, _ Position) bool {
			st, ok := s.stores[store]
			return !ok || st.spec.InMemory
		})
		if err := s.disk.set([]byte{keyCheckpoint}, appendCheckpoint(nil, onDisk)); err != nil {
			return fmt.Errorf("committing state in %s: %w", s.config.Dir, err)
		}
	}
	for _, b := range s.backends() {
		if err := b.commit(); err != nil {
			return fmt.Errorf("committing state in %s: %w", s.config.Dir, err)
		}
	}
	s.checkpoint = c
	for _, st := range s.stores {
		st.afterCommit()
	}
	return nil
}

// Drop forgets the pending writes.
func (s *Stores) Drop() error {
	for _, b := range s.backends() {
		if err := b.drop(); err != nil {
			return fmt.Errorf("dropping uncommitted state in %s: %w", s.config.Dir, err)
		}
	}
	for _, st := range s.stores {
		if err := st.load(); err != nil {
			return fmt.Errorf("reading store %q in %s: %w", st.spec.Name, s.config.Dir, err)
		}
	}
	return nil
}

// Restore applies one changelog record to a store, without capturing it: a nil
// value deletes. Restored writes are pending as others are.
func (s *Stores) Restore(store string, key, value []byte, offset int64) error {
	st, ok := s.stores[store]
	if !ok {
		return fmt.Errorf("restoring store %q: this task has no such store", store)
	}
	if err := st.restore(key, value, offset); err != nil {
		return fmt.Errorf("restoring store %q at offset %d: %w", store, offset, err)
	}
	return nil
}

// Reset empties a store, in the pending batch, so that it can be restored from
// the start of its changelog.
func (s *Stores) Reset(store string) error {
	st, ok := s.stores[store]
	if !ok {
		return fmt.Errorf("emptying store %q: this task has no such store", store)
	}
	if err := st.reset(); err != nil {
		return fmt.Errorf("emptying store %q: %w", store, err)
	}
	return nil
}

// PurgeBefore returns the offset of a store's changelog below which all
// records are of expired entries, as of the last commit. It reports false for
// key-value stores, whose changelogs are compacted only, and when there is
// nothing known to purge.
func (s *Stores) PurgeBefore(store string) (offset int64, ok bool) {
	st, found := s.stores[store]
	if !found || st.spec.Kind == KindKeyValue || st.spec.Unlogged {
		return 0, false
	}
	position, found := s.checkpoint.Changelogs[store]
	if !found {
		return 0, false
	}
	before := position.Next
	for _, floor := range st.segments {
		before = min(before, floor)
	}
	return before, before > 0
}

// ExpiredWrites is how many writes were dropped because their entry had
// expired already, since Open. Any goroutine may call it.
func (s *Stores) ExpiredWrites() int64 {
	var n int64
	for _, st := range s.stores {
		n += st.expired.Load()
	}
	return n
}

// Close forgets pending writes and closes the folder. It waits for reads of
// [ReadOnly] views; later ones fail with [ErrClosed]. Closing twice is fine.
func (s *Stores) Close() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, b := range s.backends() {
		errs = append(errs, b.close())
	}
	s.freeMemory()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing state folder %s: %w", s.config.Dir, err)
	}
	return nil
}

func (s *Stores) backends() []backend {
	var all []backend
	if s.disk != nil {
		all = append(all, s.disk)
	}
	if s.memory != nil {
		all = append(all, s.memory)
	}
	return all
}

// sorted lists the stores by name, so that what is written does not depend on
// the order of a map.
func (s *Stores) sorted() []*byteStore {
	return slices.SortedFunc(maps.Values(s.stores), func(a, b *byteStore) int {
		if a.spec.Name < b.spec.Name {
			return -1
		}
		return 1
	})
}

// committed runs a read of committed state while Close waits.
func (s *Stores) committed(read func() error) error {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return read()
}

// ReadCheckpoint reads what was last committed to a task's folder, which nobody has open: the zero value if nothing was.
func ReadCheckpoint(dir string) (Checkpoint, error) {
	enc, err := readPebble(dir, []byte{keyCheckpoint})
	if err != nil {
		return Checkpoint{}, fmt.Errorf("reading state folder %s: %w", dir, err)
	}
	if enc == nil {
		return Checkpoint{}, nil
	}
	c, err := decodeCheckpoint(enc)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("reading state folder %s: %w: %w", dir, ErrCorrupt, err)
	}
	return c, nil
}
