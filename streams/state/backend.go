package state

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace/millrace/streams/window"
)

// The first byte of each key of a task's folder (docs/format/state-store.md).
const (
	keyFormat      = 0x00
	keyCheckpoint  = 0x01
	keyDescription = 0x02
	keyFloor       = 0x03
	keyEntry       = 0x10
)

const formatVersion = 1

// backend is an ordered map of bytes in two layers: what is committed, and the
// owner's pending writes over it. Reads with committed set may come from any
// goroutine; everything else is the owner's. Keys and values passed in may be
// reused by the caller after the call.
type backend interface {
	// get appends the value of key to dst.
	get(dst, key []byte, committed bool) (value []byte, ok bool, err error)
	set(key, value []byte) error
	delete(key []byte) error
	// deleteRange deletes [from, end).
	deleteRange(from, end []byte) error
	// scan calls visit for the entries of [from, end) in order, until it
	// returns false. It sees what was there when it began: visit may write.
	// The slices are valid during the call of visit.
	scan(from, end []byte, o scanOptions, visit func(key, value []byte) bool) error
	commit() error
	drop() error
	// pendingBytes is how much memory the pending writes take, roughly.
	pendingBytes() int64
	close() error
}

type scanOptions struct {
	committed bool
	reverse   bool
}

// checkFormat writes the format version into a new folder, and refuses a
// folder of another version.
func checkFormat(b backend) error {
	v, ok, err := b.get(nil, []byte{keyFormat}, false)
	switch {
	case err != nil:
		return err
	case !ok:
		return b.set([]byte{keyFormat}, []byte{formatVersion})
	case len(v) != 1:
		return fmt.Errorf("%w: format version of %d bytes", ErrCorrupt, len(v))
	case v[0] > formatVersion:
		return fmt.Errorf("it has format version %d, this program knows up to %d: use a newer program, or another folder", v[0], formatVersion)
	}
	return nil
}

func descriptionKey(store string) []byte { return append([]byte{keyDescription}, store...) }

// storePrefix starts all keys of one kind that belong to a store.
func storePrefix(first byte, store string) []byte {
	p := append([]byte{first}, store...)
	return append(p, 0)
}

// prefixEnd is the end of the range of all keys that start with prefix, whose
// last byte is not 0xff.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	end[len(end)-1]++
	return end
}

// removeStore deletes everything of a store.
func removeStore(b backend, store string) error {
	for _, first := range []byte{keyFloor, keyEntry} {
		prefix := storePrefix(first, store)
		if err := b.deleteRange(prefix, prefixEnd(prefix)); err != nil {
			return err
		}
	}
	return b.delete(descriptionKey(store))
}

func appendSegment(dst []byte, segment window.Instant) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(segment))
}
