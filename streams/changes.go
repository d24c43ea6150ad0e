package streams

import (
	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/internal/topology"
)

// Changes is what a table emits: a key, and its new value or the absence of one. Its callbacks get a flag, present: when
// it is false, the key was deleted and the value means nothing. Written to a topic, a delete is a record with a null value
// (a tombstone).
type Changes[K, V any] struct {
	n       *node[K, opt[V]]
	k       serde.Serde[K]
	v       serde.Serde[V]
	rekeyed bool
}

// With sets the serdes of the changes.
func (c Changes[K, V]) With(k serde.Serde[K], v serde.Serde[V]) Changes[K, V] {
	c.k, c.v = k, v
	return c
}

// Filter passes on the changes that keep returns true for. To filter rows, use [Table.Filter], which deletes a row that
// ceases to fit.
func (c Changes[K, V]) Filter(keep func(key K, value V, present bool) bool) Changes[K, V] {
	c.n = filterChanges(c.n, "filter", keep, true)
	return c
}

// FilterNot passes on the changes that drop returns false for.
func (c Changes[K, V]) FilterNot(drop func(key K, value V, present bool) bool) Changes[K, V] {
	c.n = filterChanges(c.n, "filter-not", drop, false)
	return c
}

// Map replaces key, value and presence. For deletes to hit the rows that they are meant for, the new key must not depend
// on the value, which a delete does not have.
func (c Changes[K, V]) Map[K2, V2 any](f func(key K, value V, present bool) (K2, V2, bool)) Changes[K2, V2] {
	return Changes[K2, V2]{n: mapChanges(c.n, f), k: carry[K, K2](c.k), v: carry[V, V2](c.v), rekeyed: true}
}

// MapValues replaces the values; deletes stay deletes, and f is not called for them.
func (c Changes[K, V]) MapValues[V2 any](f func(key K, value V) V2) Changes[K, V2] {
	return Changes[K, V2]{n: mapChangedValues(c.n, f), k: c.k, v: carry[V, V2](c.v), rekeyed: c.rekeyed}
}

// Peek calls f for each change and passes it on unchanged.
func (c Changes[K, V]) Peek(f func(key K, value V, present bool)) Changes[K, V] {
	c.n = peekChanges(c.n, "peek", f)
	return c
}

// ForEach calls f for each change, at the end of a stream; see [Stream.ForEach].
func (c Changes[K, V]) ForEach(f func(key K, value V, present bool)) {
	peekChanges(c.n, "for-each", f)
}

// Merge returns the changes of c and all others, which must come from the same Builder.
func (c Changes[K, V]) Merge(others ...Changes[K, V]) Changes[K, V] {
	var from []*node[K, opt[V]]
	for _, o := range others {
		if !c.n.mergeable(o.n) {
			continue
		}
		from = append(from, o.n)
		c.k, c.v = same(c.k, o.k), same(c.v, o.v)
		c.rekeyed = c.rekeyed || o.rekeyed
	}
	c.n = join(c.n, from, "merge")
	return c
}

// Present returns the changes that are not deletes as a stream of events.
func (c Changes[K, V]) Present() Stream[K, V] {
	n := connect(c.n, topology.Node{Op: "present"}, func(_ opening, out push[K, V]) push[K, opt[V]] {
		return func(k K, v opt[V]) error {
			if !v.present {
				return nil
			}
			return out(k, v.value)
		}
	})
	return Stream[K, V]{n: n, k: c.k, v: c.v, rekeyed: c.rekeyed}
}

// ToTable keeps the latest value of each key, and deletes what is deleted; see [Stream.ToTable].
func (c Changes[K, V]) ToTable(name string, opts ...StoreOption) Table[K, V] {
	n := c.n
	if c.rekeyed {
		n = repartitioned(n, "repartition", name, 0, c.k, c.v, changesSink[K, V], optionalValues[V])
		c.k, c.v = reported(c.k), reported(c.v)
	}
	return materialize(n, "to-table", name, c.k, c.v, opts)
}

// To writes the changes to a topic, deletes as null values; see [Stream.To].
func (c Changes[K, V]) To(topic string, opts ...SinkOption) {
	sinkOf(c.n, target[K, V]{topic: topic}, c.k, c.v, opts, changesSink)
}

// ToFunc writes each change to the topic that f returns for its key. A delete has to go where its row is, so f sees no
// value.
func (c Changes[K, V]) ToFunc(f func(key K) string, opts ...SinkOption) {
	var choose func(K, V) string
	if f != nil {
		choose = func(k K, _ V) string { return f(k) }
	}
	sinkOf(c.n, target[K, V]{chosen: true, choose: choose}, c.k, c.v, opts, changesSink)
}

// ToPartitioned writes the changes to a topic, each to the partition that f returns for its key; see
// [Stream.ToPartitioned]. A delete has to go where its row is, so f sees no value.
func (c Changes[K, V]) ToPartitioned(topic string, f func(key K, partitions int32) int32, opts ...SinkOption) {
	var partition func(K, V, int32) int32
	if f != nil {
		partition = func(k K, _ V, n int32) int32 { return f(k, n) }
	}
	sinkOf(c.n, target[K, V]{topic: topic, partitioned: true, partition: partition}, c.k, c.v, opts, changesSink)
}

func filterChanges[K, V any](from *node[K, opt[V]], op string, f func(K, V, bool) bool, want bool) *node[K, opt[V]] {
	n := connect(from, topology.Node{Op: op}, func(o opening, out push[K, opt[V]]) push[K, opt[V]] {
		return func(k K, v opt[V]) error {
			var got bool
			if ok, err := o.op.Guard(func() error { got = f(k, v.value, v.present); return nil }); !ok || got != want {
				return err
			}
			return out(k, v)
		}
	})
	n.require(f != nil)
	return n
}

func mapChanges[K, V, K2, V2 any](from *node[K, opt[V]], f func(K, V, bool) (K2, V2, bool)) *node[K2, opt[V2]] {
	n := mapped(from, topology.Node{Op: "map"}, func(k K, v opt[V]) (K2, opt[V2], error) {
		k2, v2, present := f(k, v.value, v.present)
		return k2, opt[V2]{v2, present}, nil
	})
	n.require(f != nil)
	return n
}

func mapChangedValues[K, V, V2 any](from *node[K, opt[V]], f func(K, V) V2) *node[K, opt[V2]] {
	n := connect(from, topology.Node{Op: "map-values"}, func(o opening, out push[K, opt[V2]]) push[K, opt[V]] {
		return func(k K, v opt[V]) error {
			var v2 opt[V2]
			if v.present {
				v2.present = true
				if ok, err := o.op.Guard(func() error { v2.value = f(k, v.value); return nil }); !ok {
					return err
				}
			}
			return out(k, v2)
		}
	})
	n.require(f != nil)
	return n
}

func peekChanges[K, V any](from *node[K, opt[V]], op string, f func(K, V, bool)) *node[K, opt[V]] {
	n := connect(from, topology.Node{Op: op}, func(o opening, out push[K, opt[V]]) push[K, opt[V]] {
		return func(k K, v opt[V]) error {
			if ok, err := o.op.Guard(func() error { f(k, v.value, v.present); return nil }); !ok {
				return err
			}
			return out(k, v)
		}
	})
	n.require(f != nil)
	return n
}
