package streams

import (
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// WindowedGrouped is a grouped stream cut into windows of time. Records whose window is closed (its end and grace are behind
// stream time) are late: they are dropped and counted, and go where [LateTo] says.
type WindowedGrouped[K, V any] struct {
	g Grouped[K, V]
	w window.Time
}

// Count keeps the number of records of each key and window. The name is the store's.
func (g WindowedGrouped[K, V]) Count(name string, opts ...StoreOption) WindowedTable[K, int64] {
	return windowed(g, "count", name, counting[K, V], serde.Int64, opts)
}

// Reduce keeps one value per key and window; see [Grouped.Reduce].
func (g WindowedGrouped[K, V]) Reduce(name string, f func(key K, kept, next V) V, opts ...StoreOption) WindowedTable[K, V] {
	t := windowed(g, "reduce", name, reducing(f), g.g.s.v, opts)
	t.n.require(f != nil)
	return t
}

// Aggregate keeps a value of any type per key and window; see [Grouped.Aggregate].
func (g WindowedGrouped[K, V]) Aggregate[A any](name string, zero func() A, add func(key K, value V, kept A) A, a serde.Serde[A], opts ...StoreOption) WindowedTable[K, A] {
	t := windowed(g, "aggregate", name, aggregating(zero, add), reported(a), opts)
	t.n.argument("zero", zero == nil)
	t.n.argument("add", add == nil)
	t.n.argument("a", a == nil)
	return t
}

func windowed[K, V, A any](g WindowedGrouped[K, V], op, name string, f fold[K, V, A], a serde.Serde[A], opts []StoreOption) WindowedTable[K, A] {
	s := g.g.placed(name)
	cfg := storeConfigOf(opts)
	retention, err := cfg.window(g.w)
	ref := state.NewWindow(name, guarded(s.k), guarded(a), retention, cfg.state...)
	meta := topology.Node{Op: op, Name: name, Detail: g.w.String(), LateTopic: cfg.lateTo}
	n := connect(s.n, meta, func(o opening, out push[window.Windowed[K], change[A]]) push[K, V] {
		store, err := ref.In(o.Stores())
		if err != nil {
			o.a.Fail(o.op, err)
			return nil
		}
		late := lateSink(o, cfg.lateTo, g.w.GracePeriod(), s)
		return func(k K, v V) error {
			if o.NullKey() {
				o.op.Drop(task.NullKey)
				return nil
			}
			at := o.Time()
			span := g.w.Of(at)
			if g.w.Closed(span, o.StreamTime()) {
				return late(k, v, span.End)
			}
			old, oldAt, had, err := store.Get(k, span.Start)
			if err != nil {
				return settleStore(o.op, err)
			}
			var kept A
			if ok, err := o.op.Guard(func() error { kept = f(k, v, old, had); return nil }); !ok {
				return err
			}
			newAt := max(at, oldAt)
			if err := store.Put(k, span.Start, kept, newAt); err != nil {
				return settleStore(o.op, err)
			}
			o.SetTime(newAt)
			err = out(window.Windowed[K]{Key: k, Span: span}, change[A]{old: old, had: had, new: kept, exists: true})
			o.SetTime(at)
			return err
		}
	})
	n.keep(name, ref)
	n.check(err)
	needAll(n, s.k, a, cfg, s.v)
	return WindowedTable[K, A]{n: n, k: s.k, v: a, windows: ref, isWindow: true, keys: func(k serde.Serde[K]) serde.Serde[window.Windowed[K]] { return WindowedKey(k, g.w) }}
}

// window returns the retention of a store of windows, and what is wrong with it or with the windows. After an error, it is one
// that no other check finds fault with: one error says it best.
func (c storeConfig) window(w window.Time) (time.Duration, error) {
	if err := w.Err(); err != nil {
		return time.Millisecond, err
	}
	return c.kept(w.Retention())
}

// latePush takes a record that came after its window was closed, which ended at end.
type latePush[K, V any] func(k K, v V, end window.Instant) error

// lateSink returns what to do with late records: count them, and write them to a topic if there is one. Without, they are
// lost, which is worth a line in the log.
func lateSink[K, V any](o opening, topic string, grace time.Duration, s Stream[K, V]) latePush[K, V] {
	if topic == "" {
		return func(_ K, _ V, end window.Instant) error {
			o.op.DropLate(end, grace)
			return nil
		}
	}
	to := &sink[K, V]{opening: o, target: target[K, V]{topic: topic}, key: make([]byte, 0, 64), value: make([]byte, 0, 256),
		bound: bound[K, V]{serde.Bind(s.k, topic, serde.Key), serde.Bind(s.v, topic, serde.Value)}}
	return func(k K, v V, _ window.Instant) error {
		o.op.Drop(task.Late)
		return to.send(k, v, true)
	}
}

// needAll checks the serdes of an operator with a store, and those of late records if they are kept.
func needAll[K, V, A, K2, W any](n *node[K2, W], k serde.Serde[K], a serde.Serde[A], cfg storeConfig, v serde.Serde[V]) {
	need(n.b, n.name, k, serde.Key)
	need(n.b, n.name, a, serde.Value)
	if cfg.lateTo != "" {
		need(n.b, n.name, v, serde.Value)
	}
}
