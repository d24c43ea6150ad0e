package state

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/sdk/serde"
)

// Ref names a store of any kind: what a processor lists to be given its
// stores. The references of this package are the only ones.
type Ref interface {
	// Spec describes the store without its types.
	Spec() Spec
	sealed()
}

// codecs are the two serdes of a store.
type codecs[K, V any] struct {
	key   serde.Serde[K]
	value serde.Serde[V]
}

func (c codecs[K, V]) bindTo(topic string) codecs[K, V] {
	return codecs[K, V]{serde.Bind(c.key, topic, serde.Key), serde.Bind(c.value, topic, serde.Value)}
}

// KeyValueRef names a store of one value per key. The zero value is invalid:
// make one with [NewKeyValue]. References are values and may be shared freely.
type KeyValueRef[K, V any] struct {
	spec   Spec
	codecs codecs[K, V]
}

// NewKeyValue names a key-value store. The name is unique in the topology and
// becomes part of the name of the changelog topic.
func NewKeyValue[K, V any](name string, key serde.Serde[K], value serde.Serde[V], opts ...Option) KeyValueRef[K, V] {
	return KeyValueRef[K, V]{newSpec(name, KindKeyValue, 0, opts), codecs[K, V]{key, value}}
}

// Spec implements [Ref].
func (r KeyValueRef[K, V]) Spec() Spec { return r.spec }

func (KeyValueRef[K, V]) sealed() {}

// In opens the store in a task, with its serdes bound to the changelog topic.
// It fails if the task has no such store, or one of another kind.
func (r KeyValueRef[K, V]) In(s *Stores) (KeyValue[K, V], error) {
	b, err := s.store(r.spec)
	if err != nil {
		return KeyValue[K, V]{}, err
	}
	return KeyValue[K, V]{&keyValue[K, V]{store: b, codecs: r.codecs.bindTo(b.topic)}}, nil
}

// WindowRef names a store of one value per key and window start. The zero
// value is invalid: make one with [NewWindow].
type WindowRef[K, V any] struct {
	spec   Spec
	codecs codecs[K, V]
}

// NewWindow names a window store. Retention is how far, in stream time, the
// start of a window may lie behind before the window is forgotten: at least
// size and grace of the windows (window.Time.Retention). Whole milliseconds.
func NewWindow[K, V any](name string, key serde.Serde[K], value serde.Serde[V], retention time.Duration, opts ...Option) WindowRef[K, V] {
	return WindowRef[K, V]{newSpec(name, KindWindow, retention, opts), codecs[K, V]{key, value}}
}

// Spec implements [Ref].
func (r WindowRef[K, V]) Spec() Spec { return r.spec }

func (WindowRef[K, V]) sealed() {}

// In opens the store in a task, with its serdes bound to the changelog topic.
// It fails if the task has no such store, or one of another kind.
func (r WindowRef[K, V]) In(s *Stores) (Window[K, V], error) {
	b, err := s.store(r.spec)
	if err != nil {
		return Window[K, V]{}, err
	}
	return Window[K, V]{&windows[K, V]{store: b, codecs: r.codecs.bindTo(b.topic)}}, nil
}

// SessionRef names a store of one value per key and session. The zero value is
// invalid: make one with [NewSession].
type SessionRef[K, V any] struct {
	spec   Spec
	codecs codecs[K, V]
}

// NewSession names a session store. Retention is how far, in stream time, the
// end of a session may lie behind before the session is forgotten: at least
// gap and grace (window.Sessions.Retention). Whole milliseconds.
func NewSession[K, V any](name string, key serde.Serde[K], value serde.Serde[V], retention time.Duration, opts ...Option) SessionRef[K, V] {
	return SessionRef[K, V]{newSpec(name, KindSession, retention, opts), codecs[K, V]{key, value}}
}

// Spec implements [Ref].
func (r SessionRef[K, V]) Spec() Spec { return r.spec }

func (SessionRef[K, V]) sealed() {}

// In opens the store in a task, with its serdes bound to the changelog topic.
// It fails if the task has no such store, or one of another kind.
func (r SessionRef[K, V]) In(s *Stores) (Session[K, V], error) {
	b, err := s.store(r.spec)
	if err != nil {
		return Session[K, V]{}, err
	}
	return Session[K, V]{&sessions[K, V]{store: b, codecs: r.codecs.bindTo(b.topic)}}, nil
}

// store finds the store that a reference means and checks its kind.
func (s *Stores) store(spec Spec) (*byteStore, error) {
	st, ok := s.stores[spec.Name]
	if !ok {
		return nil, fmt.Errorf("store %q: this task has no such store: list it where the operator is added", spec.Name)
	}
	if st.spec.Kind != spec.Kind {
		return nil, fmt.Errorf("store %q: opened as a %v store, but it is a %v store", spec.Name, spec.Kind, st.spec.Kind)
	}
	return st, nil
}
