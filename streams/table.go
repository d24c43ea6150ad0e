package streams

import (
	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
)

// Table is a value per key that changes over time: the rows of a topic, or the results of an aggregation. Its methods
// describe further tables; ToStream gives its changes.
type Table[K, V any] struct {
	n *node[K, change[V]]
	k serde.Serde[K]
	v serde.Serde[V]
	// ref is the store that holds the rows, if stored; views of a table have none of their own.
	ref    state.KeyValueRef[K, V]
	stored bool
}

// With sets the serdes of the table, for what is written further on. It does not change those of its store.
func (t Table[K, V]) With(k serde.Serde[K], v serde.Serde[V]) Table[K, V] {
	t.k, t.v = k, v
	return t
}

// Store returns the reference of the store that holds the table, for queries and processors. It reports false for a view of a
// table (by Filter or MapValues), which is computed and not stored.
func (t Table[K, V]) Store() (ref state.KeyValueRef[K, V], ok bool) { return t.ref, t.stored }

// Filter returns the table of the rows that keep returns true for. A row that ceases to fit is deleted from it.
func (t Table[K, V]) Filter(keep func(key K, value V) bool) Table[K, V] {
	n := filtered(t.n, "filter", keep, true)
	return Table[K, V]{n: n, k: t.k, v: t.v}
}

// FilterNot returns the table of the rows that drop returns false for.
func (t Table[K, V]) FilterNot(drop func(key K, value V) bool) Table[K, V] {
	n := filtered(t.n, "filter-not", drop, false)
	return Table[K, V]{n: n, k: t.k, v: t.v}
}

// MapValues returns the table of the values that f makes. F must be pure: it is called for a row's old value again when the
// row changes.
func (t Table[K, V]) MapValues[V2 any](f func(key K, value V) V2) Table[K, V2] {
	n := remapped(t.n, f)
	return Table[K, V2]{n: n, k: t.k, v: carry[V, V2](t.v)}
}

// ToStream returns the table's changes: for each the key, and the new value or its absence.
func (t Table[K, V]) ToStream() Changes[K, V] {
	return Changes[K, V]{n: emitted(t.n), k: t.k, v: t.v}
}

// filtered is a view of a table with the rows for which f returns want. K is the key as callbacks see it.
func filtered[K, V any](from *node[K, change[V]], op string, f func(K, V) bool, want bool) *node[K, change[V]] {
	n := connect(from, topology.Node{Op: op}, func(o opening, out push[K, change[V]]) push[K, change[V]] {
		return func(k K, c change[V]) error {
			if ok, err := o.op.Guard(func() error {
				c.had = c.had && f(k, c.old) == want
				c.exists = c.exists && f(k, c.new) == want
				return nil
			}); !ok {
				return err
			}
			if !c.had && !c.exists {
				return nil
			}
			var none V
			if !c.had {
				c.old = none
			}
			if !c.exists {
				c.new = none
			}
			return out(k, c)
		}
	})
	n.require(f != nil)
	return n
}

// remapped is a view of a table with other values.
func remapped[K, V, V2 any](from *node[K, change[V]], f func(K, V) V2) *node[K, change[V2]] {
	n := connect(from, topology.Node{Op: "map-values"}, func(o opening, out push[K, change[V2]]) push[K, change[V]] {
		return func(k K, c change[V]) error {
			c2 := change[V2]{had: c.had, exists: c.exists}
			if ok, err := o.op.Guard(func() error {
				if c.had {
					c2.old = f(k, c.old)
				}
				if c.exists {
					c2.new = f(k, c.new)
				}
				return nil
			}); !ok {
				return err
			}
			return out(k, c2)
		}
	})
	n.require(f != nil)
	return n
}

// emitted turns a table's changes into a stream of them.
func emitted[K, V any](from *node[K, change[V]]) *node[K, opt[V]] {
	return connect(from, topology.Node{Op: "to-stream"}, func(_ opening, out push[K, opt[V]]) push[K, change[V]] {
		return func(k K, c change[V]) error { return out(k, opt[V]{c.new, c.exists}) }
	})
}

// materialize keeps the latest value of each key of a stream of changes in a store of that name.
func materialize[K, V any](from *node[K, opt[V]], op, name string, k serde.Serde[K], v serde.Serde[V], opts []StoreOption) Table[K, V] {
	return stored(from, op, name, k, v, opts, func(p push[K, opt[V]]) push[K, opt[V]] { return p })
}

// stored is materialize for any stream of which enter makes changes.
func stored[K, V, W any](from *node[K, W], op, name string, k serde.Serde[K], v serde.Serde[V], opts []StoreOption, enter func(push[K, opt[V]]) push[K, W]) Table[K, V] {
	cfg := storeConfigOf(opts)
	ref := state.NewKeyValue(name, guarded(k), guarded(v), cfg.state...)
	n := connect(from, topology.Node{Op: op, Name: name}, func(o opening, out push[K, change[V]]) push[K, W] {
		store, err := ref.In(o.Stores())
		if err != nil {
			o.a.Fail(o.op, err)
			return nil
		}
		return enter(func(k K, v opt[V]) error { return setRow(o, store, k, v, out) })
	})
	n.keep(name, ref)
	need(n.b, n.name, k, serde.Key)
	need(n.b, n.name, v, serde.Value)
	n.check(cfg.noWindows())
	return Table[K, V]{n: n, k: k, v: v, ref: ref, stored: true}
}

// setRow sets or deletes a row, and passes the change on. Deleting a row that is not there is no change.
func setRow[K, V any](o opening, store state.KeyValue[K, V], k K, v opt[V], out push[K, change[V]]) error {
	if o.NullKey() {
		o.op.Drop(task.NullKey)
		return nil
	}
	old, had, err := store.Get(k)
	if err != nil {
		return settleStore(o.op, err)
	}
	switch {
	case v.present:
		err = store.Put(k, v.value, o.Time())
	case had:
		err = store.Delete(k)
	default:
		return nil
	}
	if err != nil {
		return settleStore(o.op, err)
	}
	return out(k, change[V]{old: old, had: had, new: v.value, exists: v.present})
}

// ToTable keeps the latest value of each key. The name is the store's. If the key may have been changed, the records go
// through an internal topic, <application>-<name>-repartition, first. Records without a key are dropped and counted.
func (s Stream[K, V]) ToTable(name string, opts ...StoreOption) Table[K, V] {
	s = Grouped[K, V]{s}.placed(name)
	return stored(s.n, "to-table", name, s.k, s.v, opts, func(p push[K, opt[V]]) push[K, V] {
		return func(k K, v V) error { return p(k, opt[V]{v, true}) }
	})
}
