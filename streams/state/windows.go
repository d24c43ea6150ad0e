package state

import (
	"bytes"
	"fmt"
	"math"

	"github.com/millrace/millrace/streams/window"
)

// allTime is every time that a store can hold.
var allTime = window.Span{Start: 0, End: math.MaxInt64}

// Window is a window store of a running task: a value for each key and window
// start. What [KeyValue] says of goroutines and errors holds here too.
//
// The store observes the largest start that is put and the largest time that
// [Window.Advance] is given. Windows that started the store's retention before
// that, or earlier, have expired: they are not found, and putting them does
// nothing but count.
type Window[K, V any] struct{ s *windows[K, V] }

type windows[K, V any] struct {
	store  *byteStore
	codecs codecs[K, V]
	key    []byte
	value  []byte
}

// Get returns the value of a key's window, the time it was put with, and false
// if there is none or it has expired.
func (s Window[K, V]) Get(key K, start window.Instant) (value V, at window.Instant, ok bool, err error) {
	if start < 0 {
		return value, 0, false, nil
	}
	if err = s.s.setKey(key, start); err != nil {
		return value, 0, false, err
	}
	enc, ok, err := s.s.store.get(s.s.key)
	if err != nil || !ok {
		return value, 0, false, wrapStore(err, "reading", s.s.store.spec)
	}
	value, at, err = s.s.codecs.decodeTimed(s.s.store.spec, enc)
	return value, at, err == nil, err
}

// Put sets the value of a key's window. At is the time of the record that
// caused it. Starts before 1970 are an error.
func (s Window[K, V]) Put(key K, start window.Instant, value V, at window.Instant) (err error) {
	if err = s.s.setKey(key, start); err != nil {
		return err
	}
	if s.s.value, err = s.s.codecs.appendTimed(s.s.value[:0], s.s.store.spec, value, at); err != nil {
		return err
	}
	return wrapStore(s.s.store.put(s.s.key, s.s.value), "writing", s.s.store.spec)
}

// Delete removes the value of a key's window; one that is not there is no
// error.
func (s Window[K, V]) Delete(key K, start window.Instant) error {
	if err := s.s.setKey(key, start); err != nil {
		return err
	}
	return wrapStore(s.s.store.put(s.s.key, nil), "writing", s.s.store.spec)
}

// Advance tells the store that stream time has come to t, so that windows
// expire although nothing is put.
func (s Window[K, V]) Advance(t window.Instant) { s.s.store.advance(t) }

// Fetch calls visit for the windows of a key whose starts lie in starts, in
// the order of their starts, until it returns false. It sees the store as it
// was at the call: visit may put and delete.
func (s Window[K, V]) Fetch(key K, starts window.Span, visit func(start window.Instant, value V, at window.Instant) bool) error {
	return s.s.fetch(key, starts, scanOptions{}, visit)
}

// All calls visit for the windows of all keys whose starts lie in starts,
// until it returns false: older segments of time first, by key within one.
func (s Window[K, V]) All(starts window.Span, visit func(key K, start window.Instant, value V, at window.Instant) bool) error {
	return s.s.all(starts, scanOptions{}, visit)
}

func (s *windows[K, V]) setKey(key K, start window.Instant) error {
	if start < 0 {
		return fmt.Errorf("store %q: a window that starts at %d, before 1970, cannot be kept", s.store.spec.Name, start)
	}
	enc, err := s.codecs.appendKey(s.key[:0], s.store.spec, key)
	s.key = AppendWindowKey(enc, nil, start, 0)
	return err
}

func (s *windows[K, V]) fetch(key K, starts window.Span, o scanOptions, visit func(window.Instant, V, window.Instant) bool) error {
	enc, err := s.codecs.appendKey([]byte{}, s.store.spec, key)
	if err != nil {
		return err
	}
	starts.Start = max(starts.Start, 0)
	if starts.End <= starts.Start {
		return nil
	}
	from := AppendWindowKey(nil, enc, starts.Start, 0)
	end := AppendWindowKey(nil, enc, starts.End, 0)
	var bad error
	err = s.store.scanTimes(starts, from, end, o, func(k, v []byte, start window.Instant) bool {
		if !bytes.Equal(k[:len(k)-windowTailLen], enc) {
			return true // another key that this one is a prefix of
		}
		value, at, err := s.codecs.decodeTimed(s.store.spec, v)
		if err != nil {
			bad = err
			return false
		}
		return visit(start, value, at)
	})
	return first(bad, wrapStore(err, "reading", s.store.spec))
}

func (s *windows[K, V]) all(starts window.Span, o scanOptions, visit func(K, window.Instant, V, window.Instant) bool) error {
	var bad error
	err := s.store.scanTimes(starts, nil, nil, o, func(k, v []byte, start window.Instant) bool {
		key, err := s.codecs.decodeKey(s.store.spec, k[:len(k)-windowTailLen])
		if err != nil {
			bad = err
			return false
		}
		value, at, err := s.codecs.decodeTimed(s.store.spec, v)
		if err != nil {
			bad = err
			return false
		}
		return visit(key, start, value, at)
	})
	return first(bad, wrapStore(err, "reading", s.store.spec))
}
