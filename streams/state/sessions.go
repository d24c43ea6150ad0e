package state

import (
	"bytes"
	"fmt"

	"github.com/millrace/millrace/streams/window"
)

// Session is a session store of a running task: a value for each key and span
// of time. What [KeyValue] says of goroutines and errors holds here too.
//
// The store observes the largest end that is put and the largest time that
// [Session.Advance] is given. Sessions that ended the store's retention before
// that, or earlier, have expired: they are not found, and putting them does
// nothing but count.
type Session[K, V any] struct{ s *sessions[K, V] }

type sessions[K, V any] struct {
	store  *byteStore
	codecs codecs[K, V]
	key    []byte
	value  []byte
}

// Get returns the value of exactly that session of a key, and false if there
// is none or it has expired.
func (s Session[K, V]) Get(key K, span window.Span) (value V, ok bool, err error) {
	if err = s.s.setKey(key, span); err != nil {
		return value, false, err
	}
	enc, ok, err := s.s.store.get(s.s.key)
	if err != nil || !ok {
		return value, false, wrapStore(err, "reading", s.s.store.spec)
	}
	value, err = s.s.codecs.decodeValue(s.s.store.spec, enc)
	return value, err == nil, err
}

// Put sets the value of a session. Spans that are empty or start before 1970
// are an error.
func (s Session[K, V]) Put(key K, span window.Span, value V) (err error) {
	if err = s.s.setKey(key, span); err != nil {
		return err
	}
	// An empty value must not look like a deletion.
	if s.s.value, err = s.s.codecs.appendValue(append(s.s.value[:0], 0)[:0], s.s.store.spec, value); err != nil {
		return err
	}
	return wrapStore(s.s.store.put(s.s.key, s.s.value), "writing", s.s.store.spec)
}

// Delete removes exactly that session of a key; one that is not there is no
// error.
func (s Session[K, V]) Delete(key K, span window.Span) error {
	if err := s.s.setKey(key, span); err != nil {
		return err
	}
	return wrapStore(s.s.store.put(s.s.key, nil), "writing", s.s.store.spec)
}

// Advance tells the store that stream time has come to t, so that sessions
// expire although nothing is put.
func (s Session[K, V]) Advance(t window.Instant) { s.s.store.advance(t) }

// Overlapping calls visit for the sessions of a key that have an instant in
// common with reach, in the order of their ends, until it returns false. It
// sees the store as it was at the call: visit may put and delete.
func (s Session[K, V]) Overlapping(key K, reach window.Span, visit func(span window.Span, value V) bool) error {
	return s.s.overlapping(key, reach, scanOptions{}, visit)
}

// All calls visit for every session of every key, until it returns false:
// older segments of time first, by key within one.
func (s Session[K, V]) All(visit func(key K, span window.Span, value V) bool) error {
	return s.s.all(scanOptions{}, visit)
}

func (s *sessions[K, V]) setKey(key K, span window.Span) error {
	if span.Start < 0 || span.End <= span.Start {
		return fmt.Errorf("store %q: a session from %d to %d cannot be kept: it is empty or starts before 1970", s.store.spec.Name, span.Start, span.End)
	}
	enc, err := s.codecs.appendKey(s.key[:0], s.store.spec, key)
	s.key = AppendSessionKey(enc, nil, span)
	return err
}

func (s *sessions[K, V]) overlapping(key K, reach window.Span, o scanOptions, visit func(window.Span, V) bool) error {
	enc, err := s.codecs.appendKey([]byte{}, s.store.spec, key)
	if err != nil {
		return err
	}
	// Overlap: the session ends after reach starts and starts before it ends.
	// Keys are ordered by end, so only the former bounds the scan.
	ends := window.Span{Start: max(reach.Start, 0) + 1, End: allTime.End}
	from := AppendSessionKey(nil, enc, window.Span{Start: 0, End: ends.Start})
	end := AppendSessionKey(nil, enc, window.Span{Start: allTime.End, End: allTime.End})
	end = append(end, 0) // inclusive
	var bad error
	err = s.store.scanTimes(window.Span{Start: ends.Start, End: ends.End}, from, end, o, func(k, v []byte, _ window.Instant) bool {
		k, span, err := SplitSessionKey(k)
		if err != nil {
			bad = fmt.Errorf("%w: %w", ErrCorrupt, err)
			return false
		}
		if !bytes.Equal(k, enc) || span.Start >= reach.End {
			return true
		}
		value, err := s.codecs.decodeValue(s.store.spec, v)
		if err != nil {
			bad = err
			return false
		}
		return visit(span, value)
	})
	return first(bad, wrapStore(err, "reading", s.store.spec))
}

func (s *sessions[K, V]) all(o scanOptions, visit func(K, window.Span, V) bool) error {
	var bad error
	err := s.store.scanTimes(allTime, nil, nil, o, func(k, v []byte, _ window.Instant) bool {
		k, span, err := SplitSessionKey(k)
		if err != nil {
			bad = fmt.Errorf("%w: %w", ErrCorrupt, err)
			return false
		}
		key, err := s.codecs.decodeKey(s.store.spec, k)
		if err != nil {
			bad = err
			return false
		}
		value, err := s.codecs.decodeValue(s.store.spec, v)
		if err != nil {
			bad = err
			return false
		}
		return visit(key, span, value)
	})
	return first(bad, wrapStore(err, "reading", s.store.spec))
}
