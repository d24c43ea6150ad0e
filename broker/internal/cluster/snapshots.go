package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/raft"
	"github.com/twmb/franz-go/pkg/kbin"
)

const (
	// snapshotChunkBytes is the size of the pieces a snapshot is kept in.
	snapshotChunkBytes = 256 << 10
	// snapshotsKept is how many snapshots are kept, the newest.
	snapshotsKept = 2
	// snapshotMetaVersion is the version of a snapshot's description.
	snapshotMetaVersion = 1
)

// snapshots keeps raft's snapshots in the store. Its methods return failures,
// since raft goes on without a snapshot.
type snapshots struct{ *store }

// snapshotName is what tells snapshots apart; greater ones are newer.
type snapshotName struct{ index, term uint64 }

func (n snapshotName) String() string { return fmt.Sprintf("%d-%d", n.index, n.term) }

func parseSnapshotName(id string) (n snapshotName, err error) {
	if _, err := fmt.Sscanf(id, "%d-%d", &n.index, &n.term); err != nil {
		return n, fmt.Errorf("snapshot name %q: %w", id, err)
	}
	return n, nil
}

// key is the key of the snapshot's description or, with a number of a piece,
// the key of that.
func (n snapshotName) key(prefix byte, chunk ...uint32) []byte {
	k := binary.BigEndian.AppendUint64([]byte{prefix}, n.index)
	k = binary.BigEndian.AppendUint64(k, n.term)
	for _, c := range chunk {
		k = binary.BigEndian.AppendUint32(k, c)
	}
	return k
}

func snapshotNameOf(key []byte) snapshotName {
	return snapshotName{binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:])}
}

// Create implements raft.SnapshotStore.
func (s snapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &snapshotSink{store: s.store, name: snapshotName{index, term}, meta: raft.SnapshotMeta{
		Version: version, Index: index, Term: term,
		Configuration: configuration, ConfigurationIndex: configurationIndex,
	}}, nil
}

// List implements raft.SnapshotStore.
func (s snapshots) List() ([]*raft.SnapshotMeta, error) {
	var metas []*raft.SnapshotMeta
	err := s.each(prefixSnapshotMeta, func(key, value []byte) error {
		meta, err := decodeSnapshotMeta(snapshotNameOf(key), value)
		metas = append(metas, meta)
		return err
	})
	slices.Reverse(metas)
	return metas, err
}

// Open implements raft.SnapshotStore.
func (s snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	name, err := parseSnapshotName(id)
	if err != nil {
		return nil, nil, err
	}
	value, err := s.get(name.key(prefixSnapshotMeta))
	if err != nil || value == nil {
		return nil, nil, fmt.Errorf("opening snapshot %s: %w", id, errors.Join(err, os.ErrNotExist))
	}
	meta, err := decodeSnapshotMeta(name, value)
	if err != nil {
		return nil, nil, err
	}
	data := make([]byte, 0, meta.Size)
	for chunk := uint32(0); int64(len(data)) < meta.Size; chunk++ {
		piece, err := s.get(name.key(prefixSnapshotData, chunk))
		if err != nil || piece == nil {
			return nil, nil, fmt.Errorf("snapshot %s lacks piece %d of its %d bytes: %w", id, chunk, meta.Size, errors.Join(err, io.ErrUnexpectedEOF))
		}
		data = append(data, piece...)
	}
	return meta, io.NopCloser(bytes.NewReader(data)), nil
}

// each calls f with all entries of a prefix, in order. The slices are f's only
// until it returns.
func (s *store) each(prefix byte, f func(key, value []byte) error) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
	if err != nil {
		return s.check(err)
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = f(it.Key(), it.Value())
	}
	return s.check(errors.Join(err, it.Error(), it.Close()))
}

// emptied reports whether there is neither log nor snapshot, and has removed
// what else there may be then: raft makes a new cluster by writing first a term
// and then the log, and would not do so again after a crash between the two.
func (s snapshots) emptied() (bool, error) {
	last, err := s.LastIndex()
	if err != nil || last > 0 {
		return false, err
	}
	metas, err := s.List()
	if err != nil || len(metas) > 0 {
		return false, err
	}
	left := false
	err = s.each(prefixStable, func(_, _ []byte) error { left = true; return nil })
	if err != nil || !left {
		return true, err
	}
	return true, s.check(s.db.DeleteRange([]byte{prefixStable}, []byte{prefixStable + 1}, s.write))
}

// checkWhole looks for entries that the log lacks, and for a term that was
// forgotten: raft, which never leaves such gaps, would end the process at the
// first, and use a term twice after the second.
func (s snapshots) checkWhole() error {
	metas, err := s.List()
	if err != nil {
		return err
	}
	next, last := uint64(1), raft.Log{}
	first := true
	err = s.each(prefixLog, func(key, value []byte) error {
		index := binary.BigEndian.Uint64(key[1:])
		if first && len(metas) > 0 {
			next = min(index, metas[0].Index+1) // older entries may have gone
		}
		if first = false; index != next {
			return fmt.Errorf("entry %d of its log is missing", next)
		}
		next = index + 1
		return decodeEntry(value, &last)
	})
	if err != nil {
		return err
	}
	term, err := s.GetUint64([]byte("CurrentTerm")) // raft's name for it
	if err == nil && term < last.Term {
		err = fmt.Errorf("its log is of term %d, and the last term is said to be %d", last.Term, term)
	}
	return err
}

// prune deletes all snapshots but the newest, and pieces that belong to none.
func (s snapshots) prune() error {
	metas, err := s.List()
	if err != nil {
		return fmt.Errorf("listing snapshots: %w", err)
	}
	kept := make(map[snapshotName]bool)
	for _, meta := range metas[:min(snapshotsKept, len(metas))] {
		kept[snapshotName{meta.Index, meta.Term}] = true
	}
	batch := s.db.NewBatch()
	for _, prefix := range []byte{prefixSnapshotMeta, prefixSnapshotData} {
		err := s.each(prefix, func(key, _ []byte) error {
			if kept[snapshotNameOf(key)] {
				return nil
			}
			return batch.Delete(key, nil)
		})
		if err != nil {
			return fmt.Errorf("looking for old snapshots: %w", err)
		}
	}
	if batch.Empty() {
		return batch.Close()
	}
	if err := s.check(batch.Commit(s.write)); err != nil {
		return fmt.Errorf("deleting old snapshots: %w", err)
	}
	return nil
}

// snapshotSink writes a snapshot in pieces, and its description at the end.
type snapshotSink struct {
	*store
	name   snapshotName
	meta   raft.SnapshotMeta
	chunk  uint32
	buffer []byte
}

// ID implements raft.SnapshotSink.
func (w *snapshotSink) ID() string { return w.name.String() }

// Write implements io.Writer.
func (w *snapshotSink) Write(b []byte) (int, error) {
	w.buffer = append(w.buffer, b...)
	w.meta.Size += int64(len(b))
	for len(w.buffer) >= snapshotChunkBytes {
		if err := w.flush(snapshotChunkBytes); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// flush writes the first n bytes of the buffer as a piece.
func (w *snapshotSink) flush(n int) error {
	if err := w.set(w.name.key(prefixSnapshotData, w.chunk), w.buffer[:n]); err != nil {
		return fmt.Errorf("writing piece %d of snapshot %s: %w", w.chunk, w.name, err)
	}
	w.chunk++
	w.buffer = append(w.buffer[:0], w.buffer[n:]...)
	return nil
}

// Close implements io.Closer: it makes the snapshot count.
func (w *snapshotSink) Close() error {
	if len(w.buffer) > 0 {
		if err := w.flush(len(w.buffer)); err != nil {
			return err
		}
	}
	if err := w.set(w.name.key(prefixSnapshotMeta), encodeSnapshotMeta(&w.meta)); err != nil {
		return fmt.Errorf("writing the description of snapshot %s: %w", w.name, err)
	}
	return snapshots{w.store}.prune()
}

// Cancel implements raft.SnapshotSink.
func (w *snapshotSink) Cancel() error { return snapshots{w.store}.prune() }

func encodeSnapshotMeta(meta *raft.SnapshotMeta) []byte {
	b := kbin.AppendInt8(nil, snapshotMetaVersion)
	b = kbin.AppendInt64(b, meta.Size)
	b = kbin.AppendInt64(b, int64(meta.ConfigurationIndex))
	return kbin.AppendCompactBytes(b, raft.EncodeConfiguration(meta.Configuration))
}

func decodeSnapshotMeta(name snapshotName, b []byte) (*raft.SnapshotMeta, error) {
	r := &kbin.Reader{Src: b}
	if version := r.Int8(); r.Ok() && version != snapshotMetaVersion {
		return nil, fmt.Errorf("snapshot %s of version %d: %w", name, version, ErrNewerFormat)
	}
	meta := &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: name.String(), Index: name.index, Term: name.term,
		Size: r.Int64(), ConfigurationIndex: uint64(r.Int64()),
	}
	configuration := r.CompactBytes()
	if err := complete(r); err != nil {
		return nil, fmt.Errorf("description of snapshot %s: %w", name, err)
	}
	meta.Configuration = raft.DecodeConfiguration(configuration)
	return meta, nil
}
