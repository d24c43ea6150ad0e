package streams

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
)

// Count keeps the number of records of each key. The name is the store's.
func (g Grouped[K, V]) Count(name string, opts ...StoreOption) Table[K, int64] {
	return aggregate(g, "count", name, counting[K, V], serde.Int64, opts)
}

// Reduce keeps one value per key: the first as it is, then what f makes of the one kept and the next. The name is the
// store's. F may change the kept value, if that is a map or pointer, but must return the result.
func (g Grouped[K, V]) Reduce(name string, f func(key K, kept, next V) V, opts ...StoreOption) Table[K, V] {
	t := aggregate(g, "reduce", name, reducing(f), g.s.v, opts)
	t.n.require(f != nil)
	return t
}

// Aggregate keeps a value of any type per key: it begins with zero(), and each record makes it add(key, value, kept). Add
// may change the kept value, if that is a map or pointer, but must return the result. The name is the store's, a the kept
// value's serde.
func (g Grouped[K, V]) Aggregate[A any](name string, zero func() A, add func(key K, value V, kept A) A, a serde.Serde[A], opts ...StoreOption) Table[K, A] {
	t := aggregate(g, "aggregate", name, aggregating(zero, add), reported(a), opts)
	t.n.argument("zero", zero == nil)
	t.n.argument("add", add == nil)
	t.n.argument("a", a == nil)
	return t
}

// fold makes the next kept value of a key from a record and the one kept, if there is one.
type fold[K, V, A any] func(k K, v V, kept A, had bool) A

func counting[K, V any](_ K, _ V, kept int64, _ bool) int64 { return kept + 1 }

func reducing[K, V any](f func(K, V, V) V) fold[K, V, V] {
	return func(k K, v V, kept V, had bool) V {
		if !had {
			return v
		}
		return f(k, kept, v)
	}
}

func aggregating[K, V, A any](zero func() A, add func(K, V, A) A) fold[K, V, A] {
	return func(k K, v V, kept A, had bool) A {
		if !had {
			kept = zero()
		}
		return add(k, v, kept)
	}
}

func aggregate[K, V, A any](g Grouped[K, V], op, name string, f fold[K, V, A], a serde.Serde[A], opts []StoreOption) Table[K, A] {
	s := g.placed(name)
	cfg := storeConfigOf(opts)
	ref := state.NewKeyValue(name, guarded(s.k), guarded(a), cfg.state...)
	n := connect(s.n, topology.Node{Op: op, Name: name}, func(o opening, out push[K, change[A]]) push[K, V] {
		store, err := ref.In(o.Stores())
		if err != nil {
			o.a.Fail(o.op, err)
			return nil
		}
		return func(k K, v V) error {
			if o.NullKey() {
				o.op.Drop(task.NullKey)
				return nil
			}
			old, oldAt, had, err := store.GetTimed(k)
			if err != nil {
				return settleStore(o.op, err)
			}
			var kept A
			if ok, err := o.op.Guard(func() error { kept = f(k, v, old, had); return nil }); !ok {
				return err
			}
			at := o.Time()
			newAt := max(at, oldAt)
			if err := store.Put(k, kept, newAt); err != nil {
				return settleStore(o.op, err)
			}
			o.SetTime(newAt)
			err = out(k, change[A]{old: old, had: had, new: kept, exists: true})
			o.SetTime(at)
			return err
		}
	})
	n.keep(name, ref)
	need(n.b, n.name, s.k, serde.Key)
	need(n.b, n.name, a, serde.Value)
	n.check(cfg.noWindows())
	return Table[K, A]{n: n, k: s.k, v: a, ref: ref, stored: true}
}

// noWindows tells which options make no sense for a store without windows.
func (c storeConfig) noWindows() error {
	switch {
	case c.lateTo != "":
		return errors.New("LateTo is for windows: without them no record is late")
	case c.retention != 0:
		return errors.New("Retention is for windows: without them nothing is forgotten")
	}
	return nil
}

// keep claims the operator's name, gives it its store and checks its serdes.
func (n *node[K, V]) keep(name string, ref state.Ref) {
	n.claim(name)
	n.b.graph.AddStore(n.id, ref.Spec())
}

// guardedSerde marks what a user's serde does wrong when it encodes, errors and panics, as the record's fault, and not the
// store's: see settleStore.
type guardedSerde[T any] struct{ s serde.Serde[T] }

func guarded[T any](s serde.Serde[T]) serde.Serde[T] { return guardedSerde[T]{s} }

func (g guardedSerde[T]) Append(dst []byte, v T) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &encodingError{fmt.Errorf("panic: %v", p)}
		}
	}()
	if out, err = g.s.Append(dst, v); err != nil {
		return out, &encodingError{err}
	}
	return out, nil
}

func (g guardedSerde[T]) Decode(src []byte) (T, error) { return g.s.Decode(src) }

// For keeps a Binder one.
func (g guardedSerde[T]) For(topic string, part serde.Part) serde.Serde[T] {
	return guardedSerde[T]{serde.Bind(g.s, topic, part)}
}

type encodingError struct{ cause error }

func (e *encodingError) Error() string { return e.cause.Error() }
func (e *encodingError) Unwrap() error { return e.cause }

// settleStore deals with an error of a store. A record that cannot be encoded goes to the processing handler. Everything
// else, a disk that fails or a state that cannot be read, is not the record's fault, and ends the task.
func settleStore(op *task.Op, err error) error {
	var enc *encodingError
	if errors.As(err, &enc) {
		_, err := op.Guard(func() error { return enc })
		return err
	}
	return fmt.Errorf("%s: %w", op.Label(), err)
}
