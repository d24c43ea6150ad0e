package state

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/streams/window"
)

// ErrUnavailable says that a store cannot be read here at present: its tasks
// run in other processes, are being restored, or the job is not running.
var ErrUnavailable = errors.New("store is not available in this process now")

// Source gives the stores of the tasks that run in this process and have a
// store of that name, or an error if the job has none of that name. An
// [ErrUnavailable] beside the stores says that more of them belong here and are
// not to be read yet. It may be called from any goroutine.
type Source func(store string) ([]*Stores, error)

// ReadOnly reads a key-value store from outside of its tasks: the committed
// state of all its partitions that are in this process. Any number of
// goroutines may use it, for as long as the job lives. Methods fail with
// [ErrUnavailable] if no partition is here, or one that belongs here is being
// restored or was taken away meanwhile: then, what visit was given is not all.
// Whether a missing key is nowhere, or in another process, they cannot tell.
type ReadOnly[K, V any] struct {
	source Source
	ref    KeyValueRef[K, V]
}

// NewReadOnly makes a view. Jobs get theirs from App.Query.
func NewReadOnly[K, V any](source Source, ref KeyValueRef[K, V]) ReadOnly[K, V] {
	return ReadOnly[K, V]{source, ref}
}

// Get returns the value of a key, and false if it has none here. A key that is
// found needs no partition but its own.
func (r ReadOnly[K, V]) Get(key K) (value V, ok bool, err error) {
	value, _, ok, err = r.GetTimed(key)
	return value, ok, err
}

// GetTimed is [ReadOnly.Get] with the time that the value was put with.
func (r ReadOnly[K, V]) GetTimed(key K) (value V, at window.Instant, ok bool, err error) {
	here, missing := r.source(r.ref.spec.Name)
	if missing != nil && !errors.Is(missing, ErrUnavailable) {
		return value, at, false, missing
	}
	err = eachHere(here, r.ref.spec, missing, func(in *Stores) (bool, error) {
		st, err := r.ref.In(in)
		if err != nil {
			return false, err
		}
		s := st.s
		enc, err := s.codecs.appendKey(nil, s.store.spec, key)
		if err != nil {
			return false, err
		}
		enc, ok, err = s.store.getCommitted(enc)
		if err != nil || !ok {
			return true, wrapStore(err, "reading", s.store.spec)
		}
		value, at, err = s.codecs.decodeTimed(s.store.spec, enc)
		return false, err
	})
	return value, at, ok && err == nil, err
}

// Range calls visit for the entries with keys in [from, end), partition after
// partition and in the order of the keys' bytes within one, until it returns
// false. Each partition is seen as it was when it was reached.
func (r ReadOnly[K, V]) Range(from, end K, visit func(key K, value V, at window.Instant) bool) error {
	return r.scan(&from, &end, visit)
}

// All calls visit for every entry, as [ReadOnly.Range] does.
func (r ReadOnly[K, V]) All(visit func(key K, value V, at window.Instant) bool) error {
	return r.scan(nil, nil, visit)
}

func (r ReadOnly[K, V]) scan(from, end *K, visit func(K, V, window.Instant) bool) error {
	return eachOf(r.source, r.ref.spec, func(s *Stores) (more bool, err error) {
		st, err := r.ref.In(s)
		if err != nil {
			return false, err
		}
		more = true
		err = st.s.scan(from, end, scanOptions{committed: true}, func(k K, v V, at window.Instant) bool {
			more = visit(k, v, at)
			return more
		})
		return more, err
	})
}

// ReadOnlyWindow reads a window store from outside of its tasks, as [ReadOnly]
// does a key-value store.
type ReadOnlyWindow[K, V any] struct {
	source Source
	ref    WindowRef[K, V]
}

// NewReadOnlyWindow makes a view. Jobs get theirs from App.QueryWindow.
func NewReadOnlyWindow[K, V any](source Source, ref WindowRef[K, V]) ReadOnlyWindow[K, V] {
	return ReadOnlyWindow[K, V]{source, ref}
}

// Fetch calls visit for the windows of a key whose starts lie in starts, in the
// order of their starts, until it returns false.
func (r ReadOnlyWindow[K, V]) Fetch(key K, starts window.Span, visit func(start window.Instant, value V, at window.Instant) bool) error {
	return eachOf(r.source, r.ref.spec, func(s *Stores) (more bool, err error) {
		st, err := r.ref.In(s)
		if err != nil {
			return false, err
		}
		more = true
		err = st.s.fetch(key, starts, scanOptions{committed: true}, func(start window.Instant, v V, at window.Instant) bool {
			more = visit(start, v, at)
			return more
		})
		return more, err
	})
}

// All calls visit for the windows of all keys whose starts lie in starts,
// partition after partition, until it returns false.
func (r ReadOnlyWindow[K, V]) All(starts window.Span, visit func(key K, start window.Instant, value V, at window.Instant) bool) error {
	return eachOf(r.source, r.ref.spec, func(s *Stores) (more bool, err error) {
		st, err := r.ref.In(s)
		if err != nil {
			return false, err
		}
		more = true
		err = st.s.all(starts, scanOptions{committed: true}, func(k K, start window.Instant, v V, at window.Instant) bool {
			more = visit(k, start, v, at)
			return more
		})
		return more, err
	})
}

// ReadOnlySession reads a session store from outside of its tasks, as
// [ReadOnly] does a key-value store.
type ReadOnlySession[K, V any] struct {
	source Source
	ref    SessionRef[K, V]
}

// NewReadOnlySession makes a view. Jobs get theirs from App.QuerySession.
func NewReadOnlySession[K, V any](source Source, ref SessionRef[K, V]) ReadOnlySession[K, V] {
	return ReadOnlySession[K, V]{source, ref}
}

// Overlapping calls visit for the sessions of a key that have an instant in
// common with reach, in the order of their ends, until it returns false.
func (r ReadOnlySession[K, V]) Overlapping(key K, reach window.Span, visit func(span window.Span, value V) bool) error {
	return eachOf(r.source, r.ref.spec, func(s *Stores) (more bool, err error) {
		st, err := r.ref.In(s)
		if err != nil {
			return false, err
		}
		more = true
		err = st.s.overlapping(key, reach, scanOptions{committed: true}, func(span window.Span, v V) bool {
			more = visit(span, v)
			return more
		})
		return more, err
	})
}

// All calls visit for every session of every key, partition after partition,
// until it returns false.
func (r ReadOnlySession[K, V]) All(visit func(key K, span window.Span, value V) bool) error {
	return eachOf(r.source, r.ref.spec, func(s *Stores) (more bool, err error) {
		st, err := r.ref.In(s)
		if err != nil {
			return false, err
		}
		more = true
		err = st.s.all(scanOptions{committed: true}, func(k K, span window.Span, v V) bool {
			more = visit(k, span, v)
			return more
		})
		return more, err
	})
}

// eachOf reads the stores of all tasks that are here, one after the other,
// until read says that no more is wanted. If some are missing it reads none.
func eachOf(source Source, spec Spec, read func(*Stores) (more bool, err error)) error {
	all, missing := source(spec.Name)
	if missing != nil {
		return unavailable(spec, missing)
	}
	return eachHere(all, spec, nil, read)
}

// eachHere reads stores. When none ends the search, it fails with missing if
// set, or because a task is gone or none was here.
func eachHere(here []*Stores, spec Spec, missing error, read func(*Stores) (more bool, err error)) error {
	if len(here) == 0 && missing == nil {
		missing = ErrUnavailable
	}
	for _, s := range here {
		more := true
		err := s.committed(func() (err error) {
			more, err = read(s)
			return err
		})
		switch {
		case errors.Is(err, ErrClosed):
			missing = fmt.Errorf("%w: a partition was taken away meanwhile", ErrUnavailable)
		case err != nil || !more:
			return err
		}
	}
	return unavailable(spec, missing)
}

// unavailable says which store a failure of a [Source] is about. A source's
// other failures say it themselves.
func unavailable(spec Spec, err error) error {
	if errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("reading store %q: %w", spec.Name, err)
	}
	return err
}
