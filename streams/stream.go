package streams

import (
	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/internal/topology"
)

// Stream is a sequence of events, each with a key and a value. Its methods add operators; a Stream may be used any number
// of times, and each use gets all its records.
//
// Functions given to operators are called by one goroutine per task at a time, and by several at once when a process runs
// several tasks: they must not share what they change. A function that panics fails that record as if it had returned an
// error: see [Handlers].
type Stream[K, V any] struct {
	n *node[K, V]
	k serde.Serde[K]
	v serde.Serde[V]
	// rekeyed says that the key may not be the one that the records are partitioned by.
	rekeyed bool
}

// With sets the serdes of the stream. They are used when it is written to a topic or store further on.
func (s Stream[K, V]) With(k serde.Serde[K], v serde.Serde[V]) Stream[K, V] {
	s.k, s.v = k, v
	return s
}

// Filter passes on the records that keep returns true for.
func (s Stream[K, V]) Filter(keep func(key K, value V) bool) Stream[K, V] {
	return s.filter("filter", keep, true)
}

// FilterNot passes on the records that drop returns false for.
func (s Stream[K, V]) FilterNot(drop func(key K, value V) bool) Stream[K, V] {
	return s.filter("filter-not", drop, false)
}

func (s Stream[K, V]) filter(op string, f func(K, V) bool, want bool) Stream[K, V] {
	s.n = connect(s.n, topology.Node{Op: op}, func(o opening, out push[K, V]) push[K, V] {
		return func(k K, v V) error {
			var got bool
			if ok, err := o.op.Guard(func() error { got = f(k, v); return nil }); !ok || got != want {
				return err
			}
			return out(k, v)
		}
	})
	s.n.require(f != nil)
	return s
}

// Map replaces key and value. The key's place in the partitions changes with it: an operator further on that works by key
// sends the records through an internal topic first.
func (s Stream[K, V]) Map[K2, V2 any](f func(key K, value V) (K2, V2)) Stream[K2, V2] {
	n := mapped(s.n, topology.Node{Op: "map"}, func(k K, v V) (K2, V2, error) {
		k2, v2 := f(k, v)
		return k2, v2, nil
	})
	n.require(f != nil)
	return rekeyed[K, V](s, n)
}

// TryMap is Map for a function that can fail: the record goes to the processing handler with the error. The name
// identifies the operator in logs, counts and dead letters.
func (s Stream[K, V]) TryMap[K2, V2 any](name string, f func(key K, value V) (K2, V2, error)) Stream[K2, V2] {
	n := mapped(s.n, topology.Node{Op: "try-map", Name: name}, f)
	n.require(f != nil)
	n.claim(name)
	return rekeyed[K, V](s, n)
}

// SelectKey replaces the key. GroupByKey further on then sends the records through an internal topic first; Process does
// not.
func (s Stream[K, V]) SelectKey[K2 any](f func(key K, value V) K2) Stream[K2, V] {
	n := mapped(s.n, topology.Node{Op: "select-key"}, func(k K, v V) (K2, V, error) { return f(k, v), v, nil })
	n.require(f != nil)
	return rekeyed[K, V](s, n)
}

// mapped adds an operator that makes one record of one, with a new key.
func mapped[K, V, K2, V2 any](from *node[K, V], meta topology.Node, f func(K, V) (K2, V2, error)) *node[K2, V2] {
	return connect(from, meta, func(o opening, out push[K2, V2]) push[K, V] {
		return func(k K, v V) error {
			var k2 K2
			var v2 V2
			if ok, err := o.op.Guard(func() (err error) { k2, v2, err = f(k, v); return err }); !ok {
				return err
			}
			was := o.SetNullKey(false)
			err := out(k2, v2)
			o.SetNullKey(was)
			return err
		}
	})
}

// rekeyed makes the stream of an operator with new keys, that came from s.
func rekeyed[K, V, K2, V2 any](s Stream[K, V], n *node[K2, V2]) Stream[K2, V2] {
	return Stream[K2, V2]{n: n, k: carry[K, K2](s.k), v: carry[V, V2](s.v), rekeyed: true}
}

// revalued makes the stream of an operator that keeps the keys of s.
func revalued[K, V, V2 any](s Stream[K, V], n *node[K, V2]) Stream[K, V2] {
	return Stream[K, V2]{n: n, k: s.k, v: carry[V, V2](s.v), rekeyed: s.rekeyed}
}

// MapValues replaces the value. The key stays, and so does the record's partition.
func (s Stream[K, V]) MapValues[V2 any](f func(key K, value V) V2) Stream[K, V2] {
	n := mappedValues(s.n, topology.Node{Op: "map-values"}, func(k K, v V) (V2, error) { return f(k, v), nil })
	n.require(f != nil)
	return revalued[K, V](s, n)
}

// TryMapValues is MapValues for a function that can fail: the record goes to the processing handler with the error. The name
// identifies the operator in logs, counts and dead letters.
func (s Stream[K, V]) TryMapValues[V2 any](name string, f func(key K, value V) (V2, error)) Stream[K, V2] {
	n := mappedValues(s.n, topology.Node{Op: "try-map-values", Name: name}, f)
	n.require(f != nil)
	n.claim(name)
	return revalued[K, V](s, n)
}

// mappedValues adds an operator that makes one value of one.
func mappedValues[K, V, V2 any](from *node[K, V], meta topology.Node, f func(K, V) (V2, error)) *node[K, V2] {
	return connect(from, meta, func(o opening, out push[K, V2]) push[K, V] {
		return func(k K, v V) error {
			var v2 V2
			if ok, err := o.op.Guard(func() (err error) { v2, err = f(k, v); return err }); !ok {
				return err
			}
			return out(k, v2)
		}
	})
}

// FlatMap makes any number of records of one: f calls emit for each, and must not keep it.
func (s Stream[K, V]) FlatMap[K2, V2 any](f func(key K, value V, emit func(K2, V2))) Stream[K2, V2] {
	n := connect(s.n, topology.Node{Op: "flat-map"}, func(o opening, out push[K2, V2]) push[K, V] {
		// One closure for all records: a stream's operator is never entered while it runs.
		var fatal error
		emit := func(k2 K2, v2 V2) {
			if fatal == nil {
				was := o.SetNullKey(false)
				fatal = out(k2, v2)
				o.SetNullKey(was)
			}
		}
		return func(k K, v V) error {
			_, err := o.op.Guard(func() error { f(k, v, emit); return nil })
			if fatal != nil {
				return fatal
			}
			return err
		}
	})
	n.require(f != nil)
	return rekeyed[K, V](s, n)
}

// FlatMapValues makes any number of records of one, all with its key: f calls emit for each, and must not keep it.
func (s Stream[K, V]) FlatMapValues[V2 any](f func(key K, value V, emit func(V2))) Stream[K, V2] {
	n := flatMapped(s.n, topology.Node{Op: "flat-map-values"}, func(k K, v V, emit func(V2)) error {
		f(k, v, emit)
		return nil
	})
	n.require(f != nil)
	return revalued[K, V](s, n)
}

// TryFlatMapValues is FlatMapValues for a function that can fail: the record goes to the processing handler with the
// error; what f emitted before stays emitted. The name identifies the operator in logs, counts and dead letters.
func (s Stream[K, V]) TryFlatMapValues[V2 any](name string, f func(key K, value V, emit func(V2)) error) Stream[K, V2] {
	n := flatMapped(s.n, topology.Node{Op: "try-flat-map-values", Name: name}, f)
	n.require(f != nil)
	n.claim(name)
	return revalued[K, V](s, n)
}

func flatMapped[K, V, V2 any](from *node[K, V], meta topology.Node, f func(K, V, func(V2)) error) *node[K, V2] {
	return connect(from, meta, func(o opening, out push[K, V2]) push[K, V] {
		// One closure for all records: a stream's operator is never entered while it runs.
		var fatal error
		var key K
		emit := func(v2 V2) {
			if fatal == nil {
				fatal = out(key, v2)
			}
		}
		return func(k K, v V) error {
			key = k
			_, err := o.op.Guard(func() error { return f(k, v, emit) })
			if fatal != nil {
				return fatal
			}
			return err
		}
	})
}

// Peek calls f for each record and passes it on unchanged: for logs and counters.
func (s Stream[K, V]) Peek(f func(key K, value V)) Stream[K, V] {
	s.n = connect(s.n, topology.Node{Op: "peek"}, func(o opening, out push[K, V]) push[K, V] {
		return func(k K, v V) error {
			if ok, err := o.op.Guard(func() error { f(k, v); return nil }); !ok {
				return err
			}
			return out(k, v)
		}
	})
	s.n.require(f != nil)
	return s
}

// ForEach calls f for each record, at the end of a stream. It is called again for records that are processed again after a
// crash; what it does outside of the job is covered by no guarantee.
func (s Stream[K, V]) ForEach(f func(key K, value V)) {
	n := connect(s.n, topology.Node{Op: "for-each"}, func(o opening, _ push[K, V]) push[K, V] {
		return func(k K, v V) error {
			_, err := o.op.Guard(func() error { f(k, v); return nil })
			return err
		}
	})
	n.require(f != nil)
}

// Merge returns a stream with the records of s and all others, which must come from the same Builder. Records of one
// stream stay in order; those of different streams interleave by event time as far as they are at hand.
func (s Stream[K, V]) Merge(others ...Stream[K, V]) Stream[K, V] {
	var from []*node[K, V]
	for _, o := range others {
		if !s.n.mergeable(o.n) {
			continue
		}
		from = append(from, o.n)
		s.k, s.v = same(s.k, o.k), same(s.v, o.v)
		s.rekeyed = s.rekeyed || o.rekeyed
	}
	s.n = join(s.n, from, "merge")
	return s
}
