package streams

import (
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// SessionGrouped is a grouped stream cut into sessions. A record extends the session that it is near enough to, and joins
// several into one. The key of a session's result holds its span; so when a session grows, its old key is deleted and the
// new one set, in this order. Late records are dealt with as in windows of time.
type SessionGrouped[K, V any] struct {
	g Grouped[K, V]
	w window.Sessions
}

// Count keeps the number of records of each session. The name is the store's.
func (g SessionGrouped[K, V]) Count(name string, opts ...StoreOption) WindowedTable[K, int64] {
	merge := func(_ K, a, b int64) int64 { return a + b }
	return sessions(g, "count", name, counting[K, V], merge, serde.Int64, opts)
}

// Reduce keeps one value per session: f also merges the values of sessions that are joined, the earlier one first.
func (g SessionGrouped[K, V]) Reduce(name string, f func(key K, kept, next V) V, opts ...StoreOption) WindowedTable[K, V] {
	t := sessions(g, "reduce", name, reducing(f), f, g.g.s.v, opts)
	t.n.require(f != nil)
	return t
}

// Aggregate keeps a value of any type per session; see [Grouped.Aggregate]. Merge makes one value of those of two sessions
// that a record joins, the earlier one first.
func (g SessionGrouped[K, V]) Aggregate[A any](name string, zero func() A, add func(key K, value V, kept A) A, merge func(key K, a, b A) A, a serde.Serde[A], opts ...StoreOption) WindowedTable[K, A] {
	t := sessions(g, "aggregate", name, aggregating(zero, add), merge, reported(a), opts)
	t.n.argument("zero", zero == nil)
	t.n.argument("add", add == nil)
	t.n.argument("merge", merge == nil)
	t.n.argument("a", a == nil)
	return t
}

func sessions[K, V, A any](g SessionGrouped[K, V], op, name string, f fold[K, V, A], merge func(K, A, A) A, a serde.Serde[A], opts []StoreOption) WindowedTable[K, A] {
	s := g.g.placed(name)
	cfg := storeConfigOf(opts)
	retention, err := cfg.session(g.w)
	ref := state.NewSession(name, guarded(s.k), guarded(a), retention, cfg.state...)
	meta := topology.Node{Op: op, Name: name, Detail: g.w.String(), LateTopic: cfg.lateTo}
	n := connect(s.n, meta, func(o opening, out push[window.Windowed[K], change[A]]) push[K, V] {
		store, err := ref.In(o.Stores())
		if err != nil {
			o.a.Fail(o.op, err)
			return nil
		}
		x := &sessionizer[K, V, A]{opening: o, w: g.w, store: store, fold: f, merge: merge, out: out, late: lateSink(o, cfg.lateTo, g.w.GracePeriod(), s)}
		return x.add
	})
	n.keep(name, ref)
	n.check(err)
	needAll(n, s.k, a, cfg, s.v)
	return WindowedTable[K, A]{n: n, k: s.k, v: a, sessions: ref, isSession: true, keys: SessionKey[K]}
}

// session returns the retention of a store of sessions, and what is wrong with it or with the sessions; see window.
func (c storeConfig) session(w window.Sessions) (time.Duration, error) {
	if err := w.Err(); err != nil {
		return time.Millisecond, err
	}
	// What sessions need has a millisecond on top, which the user need not know of.
	if c.retention == w.Retention()-time.Millisecond {
		return w.Retention(), nil
	}
	return c.kept(w.Retention())
}

// sessionizer puts records into the sessions of their keys, in one task.
type sessionizer[K, V, A any] struct {
	opening
	w     window.Sessions
	store state.Session[K, A]
	fold  fold[K, V, A]
	merge func(K, A, A) A
	out   push[window.Windowed[K], change[A]]
	late  latePush[K, V]
	// found are the sessions that the record in hand joins, earlier ones first; reused.
	found []session[A]
}

type session[A any] struct {
	span  window.Span
	value A
}

func (x *sessionizer[K, V, A]) add(k K, v V) error {
	if x.NullKey() {
		x.op.Drop(task.NullKey)
		return nil
	}
	at := x.Time()
	x.found = x.found[:0]
	err := x.store.Overlapping(k, x.w.Reach(at), func(span window.Span, value A) bool {
		if x.w.Closed(span, x.StreamTime()) {
			return true // the store may keep it for longer, but that must not change results
		}
		x.found = append(x.found, session[A]{span, value})
		return true
	})
	if err != nil {
		return settleStore(x.op, err)
	}
	span := x.w.Of(at)
	for _, s := range x.found {
		span = span.Union(s.span)
	}
	if x.w.Closed(span, x.StreamTime()) {
		return x.late(k, v, x.w.Expiry(span))
	}
	var kept A
	if ok, err := x.op.Guard(func() error { kept = x.combine(k, v); return nil }); !ok {
		return err
	}
	if err := x.replace(k, span, kept); err != nil {
		return err
	}
	x.SetTime(at)
	return nil
}

// combine folds the record into the merged values of the sessions that it joins.
func (x *sessionizer[K, V, A]) combine(k K, v V) A {
	if len(x.found) == 0 {
		var none A
		return x.fold(k, v, none, false)
	}
	kept := x.found[0].value
	for _, s := range x.found[1:] {
		kept = x.merge(k, kept, s.value)
	}
	return x.fold(k, v, kept, true)
}

// replace stores the session instead of those it was made of, and emits that: deletes of the old keys, then the new one.
func (x *sessionizer[K, V, A]) replace(k K, span window.Span, kept A) error {
	// The new one first: if it cannot be encoded, the old ones stay.
	if err := x.store.Put(k, span, kept); err != nil {
		return settleStore(x.op, err)
	}
	c := change[A]{new: kept, exists: true}
	for _, s := range x.found {
		if s.span == span {
			c.old, c.had = s.value, true
			continue
		}
		if err := x.store.Delete(k, s.span); err != nil {
			return settleStore(x.op, err)
		}
		x.SetTime(s.span.Last())
		if err := x.out(window.Windowed[K]{Key: k, Span: s.span}, change[A]{old: s.value, had: true}); err != nil {
			return err
		}
	}
	x.SetTime(span.Last())
	return x.out(window.Windowed[K]{Key: k, Span: span}, c)
}
