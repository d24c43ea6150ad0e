package state

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace/millrace/streams/window"
)

// KeyValue is a key-value store of a running task. Use it only in the task's
// own goroutine: in the methods of the operator or processor that it belongs
// to. An error of a method means that the store cannot be read or written, or
// that a serde failed; return it.
type KeyValue[K, V any] struct{ s *keyValue[K, V] }

type keyValue[K, V any] struct {
	store  *byteStore
	codecs codecs[K, V]
	key    []byte
	value  []byte
}

// Get returns the value of a key, and false if it has none.
func (s KeyValue[K, V]) Get(key K) (value V, ok bool, err error) {
	value, _, ok, err = s.GetTimed(key)
	return value, ok, err
}

// GetTimed is [KeyValue.Get] with the time that the value was put with.
func (s KeyValue[K, V]) GetTimed(key K) (value V, at window.Instant, ok bool, err error) {
	if s.s.key, err = s.s.codecs.appendKey(s.s.key[:0], s.s.store.spec, key); err != nil {
		return value, 0, false, err
	}
	enc, ok, err := s.s.store.get(s.s.key)
	if err != nil || !ok {
		return value, 0, false, wrapStore(err, "reading", s.s.store.spec)
	}
	value, at, err = s.s.codecs.decodeTimed(s.s.store.spec, enc)
	return value, at, err == nil, err
}

// Put sets the value of a key. At is the time of the record that caused it.
func (s KeyValue[K, V]) Put(key K, value V, at window.Instant) (err error) {
	if s.s.key, err = s.s.codecs.appendKey(s.s.key[:0], s.s.store.spec, key); err != nil {
		return err
	}
	if s.s.value, err = s.s.codecs.appendTimed(s.s.value[:0], s.s.store.spec, value, at); err != nil {
		return err
	}
	return wrapStore(s.s.store.put(s.s.key, s.s.value), "writing", s.s.store.spec)
}

// Delete removes a key; one that is not there is no error.
func (s KeyValue[K, V]) Delete(key K) (err error) {
	if s.s.key, err = s.s.codecs.appendKey(s.s.key[:0], s.s.store.spec, key); err != nil {
		return err
	}
	return wrapStore(s.s.store.put(s.s.key, nil), "writing", s.s.store.spec)
}

// Range calls visit for the entries with keys in [from, end), in the order of
// the keys' bytes, until it returns false. It sees the store as it was at the
// call: visit may put and delete.
func (s KeyValue[K, V]) Range(from, end K, visit func(key K, value V, at window.Instant) bool) error {
	return s.s.scan(&from, &end, scanOptions{}, visit)
}

// All calls visit for every entry, as [KeyValue.Range] does.
func (s KeyValue[K, V]) All(visit func(key K, value V, at window.Instant) bool) error {
	return s.s.scan(nil, nil, scanOptions{}, visit)
}

// scan decodes the entries of a range; nil bounds are open.
func (s *keyValue[K, V]) scan(from, end *K, o scanOptions, visit func(K, V, window.Instant) bool) error {
	var bounds [2][]byte
	for i, k := range []*K{from, end} {
		if k == nil {
			continue
		}
		b, err := s.codecs.appendKey([]byte{}, s.store.spec, *k)
		if err != nil {
			return err
		}
		bounds[i] = b
	}
	var bad error
	err := s.store.scan(bounds[0], bounds[1], o, func(k, v []byte) bool {
		key, err := s.codecs.decodeKey(s.store.spec, k)
		if err != nil {
			bad = err
			return false
		}
		value, at, err := s.codecs.decodeTimed(s.store.spec, v)
		if err != nil {
			bad = err
			return false
		}
		return visit(key, value, at)
	})
	return first(bad, wrapStore(err, "reading", s.store.spec))
}

// timestampLen is the length of the time before a value.
const timestampLen = 8

func (c codecs[K, V]) appendKey(dst []byte, spec Spec, key K) ([]byte, error) {
	dst, err := c.key.Append(dst, key)
	if err != nil {
		return dst, fmt.Errorf("encoding a key of store %q: %w", spec.Name, err)
	}
	return dst, nil
}

func (c codecs[K, V]) decodeKey(spec Spec, b []byte) (K, error) {
	key, err := c.key.Decode(b)
	if err != nil {
		return key, fmt.Errorf("decoding a key of store %q: %w", spec.Name, err)
	}
	return key, nil
}

func (c codecs[K, V]) appendValue(dst []byte, spec Spec, value V) ([]byte, error) {
	dst, err := c.value.Append(dst, value)
	if err != nil {
		return dst, fmt.Errorf("encoding a value of store %q: %w", spec.Name, err)
	}
	return dst, nil
}

func (c codecs[K, V]) decodeValue(spec Spec, b []byte) (V, error) {
	value, err := c.value.Decode(b)
	if err != nil {
		return value, fmt.Errorf("decoding a value of store %q: %w", spec.Name, err)
	}
	return value, nil
}

func (c codecs[K, V]) appendTimed(dst []byte, spec Spec, value V, at window.Instant) ([]byte, error) {
	return c.appendValue(binary.BigEndian.AppendUint64(dst, uint64(at)), spec, value)
}

func (c codecs[K, V]) decodeTimed(spec Spec, b []byte) (value V, at window.Instant, err error) {
	if len(b) < timestampLen {
		return value, 0, fmt.Errorf("%w: a value of store %q has %d bytes and no room for its time", ErrCorrupt, spec.Name, len(b))
	}
	at = window.Instant(binary.BigEndian.Uint64(b))
	value, err = c.decodeValue(spec, b[timestampLen:])
	return value, at, err
}

func wrapStore(err error, doing string, spec Spec) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s store %q: %w", doing, spec.Name, err)
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
