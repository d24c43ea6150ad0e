package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/raft"
	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/millrace/millrace/broker/internal/disk"
)

// The keys and values of the store are described in
// docs/format/metadata-log.md.
const (
	prefixLog          = 'l'
	prefixStable       = 's'
	prefixSnapshotMeta = 'm'
	prefixSnapshotData = 'd'
)

// Pebble's sizes suit a log of small entries of which the newest matter.
const (
	memTableBytes = 1 << 20
	cacheBytes    = 1 << 20
)

// entryVersion is the version of raft log entries in the store.
const entryVersion = 1

// store keeps raft's log, its stable values and its snapshots in one Pebble
// database. Each write is synced before it returns.
//
// raft panics, and takes the process with it, when it cannot read its log or
// write its term. So after a failure a method that raft calls on its own
// goroutine ends that goroutine instead of returning; the node sees the failure
// and shuts raft down. The node lets raft run on goroutines of their own only.
type store struct {
	fs    *pebbleFS
	db    *pebble.DB
	write *pebble.WriteOptions
	fatal func() // ends the calling goroutine

	// reading keeps the database open under reads: raft measures the age of
	// its log now and then on a goroutine that its shutdown does not wait for.
	reading sync.RWMutex
	closed  bool
}

// openStore opens the store in a folder, which is made if it is missing.
// fatal is called on a goroutine that met a failure and must not go on.
func openStore(files disk.FS, dir string, log *slog.Logger, fatal func()) (*store, error) {
	s := &store{fs: newPebbleFS(files, log), write: pebble.Sync, fatal: fatal}
	logger := pebbleLogger{log: log, fs: s.fs}
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{
		FS:                    s.fs,
		Cache:                 cache,
		MemTableSize:          memTableBytes,
		MaxOpenFiles:          64,
		L0CompactionThreshold: 2,
		FormatMajorVersion:    pebble.FormatValueSeparation,
		DisableTableStats:     true,
		Logger:                logger,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { log.Warn("cluster metadata store", "error", err.Error()) }, // without its stack
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				logger.Fatalf("%w: %s: %w", ErrLost, info.Path, info.Details)
			},
		},
	})
	if err = s.check(err); err != nil {
		if db != nil {
			_ = db.Close()
		}
		if !errors.Is(err, ErrLost) && (pebble.IsCorruptionError(err) || errors.Is(err, fs.ErrNotExist)) {
			err = fmt.Errorf("%w: %w", ErrLost, err)
		}
		return nil, fmt.Errorf("opening the cluster metadata in %s: %w", dir, err)
	}
	s.db = db
	return s, nil
}

// close closes the store; raft must not write to it any more, and what it reads
// fails with ErrClosed.
func (s *store) close() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.closed = true
	err := s.db.Close()
	if failure := s.fs.failure(); failure != nil {
		return nil // it was reported when it happened
	}
	if err != nil {
		return fmt.Errorf("closing the cluster metadata: %w", err)
	}
	return nil
}

// check turns what Pebble returned into what happened to the disk.
func (s *store) check(err error) error {
	if failure := s.fs.failure(); failure != nil {
		return failure
	}
	return err
}

// must ends the goroutine if err says that the disk or the store failed.
func (s *store) must(what string, err error) {
	if err = s.check(err); err != nil {
		s.fs.stop(fmt.Errorf("%s: %w", what, err))
		s.fatal()
	}
}

// get returns a copy of a value, nil if there is none.
func (s *store) get(key []byte) ([]byte, error) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value = append([]byte{}, value...)
	return value, closer.Close()
}

// set writes one value.
func (s *store) set(key, value []byte) error {
	return s.check(s.db.Set(key, value, s.write))
}

// logKey is the key of a log entry.
func logKey(index uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixLog}, index)
}

// FirstIndex implements raft.LogStore.
func (s *store) FirstIndex() (uint64, error) { return s.edge((*pebble.Iterator).First) }

// LastIndex implements raft.LogStore.
func (s *store) LastIndex() (uint64, error) { return s.edge((*pebble.Iterator).Last) }

// edge returns the index of the first or last log entry, 0 if there is none.
func (s *store) edge(move func(*pebble.Iterator) bool) (uint64, error) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.closed {
		return 0, ErrClosed
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixLog}, UpperBound: []byte{prefixLog + 1}})
	s.must("looking into the metadata log", err)
	var index uint64
	if move(it) {
		index = binary.BigEndian.Uint64(it.Key()[1:])
	}
	s.must("looking into the metadata log", errors.Join(it.Error(), it.Close()))
	return index, nil
}

// GetLog implements raft.LogStore.
func (s *store) GetLog(index uint64, entry *raft.Log) error {
	value, err := s.get(logKey(index))
	if errors.Is(err, ErrClosed) {
		return err
	}
	s.must("reading the metadata log", err)
	if value == nil {
		return raft.ErrLogNotFound
	}
	if err := decodeEntry(value, entry); err != nil {
		s.must("reading the metadata log", fmt.Errorf("entry %d: %w", index, err))
	}
	entry.Index = index
	return nil
}

// StoreLog implements raft.LogStore.
func (s *store) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore.
func (s *store) StoreLogs(entries []*raft.Log) error {
	batch := s.db.NewBatch()
	for _, e := range entries {
		if err := batch.Set(logKey(e.Index), encodeEntry(e), nil); err != nil {
			s.must("writing the metadata log", err)
		}
	}
	s.must("writing the metadata log", batch.Commit(s.write))
	return nil
}

// DeleteRange implements raft.LogStore.
func (s *store) DeleteRange(first, last uint64) error {
	s.must("trimming the metadata log", s.db.DeleteRange(logKey(first), logKey(last+1), s.write))
	return nil
}

func encodeEntry(e *raft.Log) []byte {
	b := make([]byte, 0, 32+len(e.Data)+len(e.Extensions))
	b = kbin.AppendInt8(b, entryVersion)
	b = kbin.AppendInt64(b, int64(e.Term))
	b = kbin.AppendInt8(b, int8(e.Type))
	b = kbin.AppendInt64(b, e.AppendedAt.UnixNano())
	b = kbin.AppendCompactBytes(b, e.Extensions)
	return kbin.AppendCompactBytes(b, e.Data)
}

// decodeEntry reads what encodeEntry wrote; the entry takes over slices of b.
func decodeEntry(b []byte, e *raft.Log) error {
	r := &kbin.Reader{Src: b}
	if version := r.Int8(); r.Ok() && version != entryVersion {
		return fmt.Errorf("version %d: %w", version, ErrNewerFormat)
	}
	*e = raft.Log{Term: uint64(r.Int64()), Type: raft.LogType(r.Int8()), AppendedAt: time.Unix(0, r.Int64())}
	e.Extensions, e.Data = r.CompactBytes(), r.CompactBytes()
	return complete(r)
}

func stableKey(key []byte) []byte { return append([]byte{prefixStable}, key...) }

// Set implements raft.StableStore.
func (s *store) Set(key, value []byte) error {
	s.must("writing the raft state", s.set(stableKey(key), value))
	return nil
}

// Get implements raft.StableStore.
func (s *store) Get(key []byte) ([]byte, error) {
	value, err := s.get(stableKey(key))
	s.must("reading the raft state", err)
	return value, nil
}

// SetUint64 implements raft.StableStore.
func (s *store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 implements raft.StableStore.
func (s *store) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil || len(value) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// pebbleLogger passes Pebble's warnings on.
type pebbleLogger struct {
	log *slog.Logger
	fs  *pebbleFS
}

// Infof implements pebble.Logger.
func (l pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug("cluster metadata store: " + fmt.Sprintf(format, args...))
}

// Errorf implements pebble.Logger.
func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Warn("cluster metadata store: " + fmt.Sprintf(format, args...))
}

// Fatalf implements pebble.Logger. It stops the disk, which makes the node
// fail, instead of ending the process.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.fs.stop(fmt.Errorf(format, args...))
}
