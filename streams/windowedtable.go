package streams

import (
	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// WindowedTable is the result of a windowed aggregation: a value per key and window. Callbacks get the key as a
// [window.Windowed], which has the key and the window's span.
type WindowedTable[K, V any] struct {
	n *node[window.Windowed[K], change[V]]
	k serde.Serde[K]
	v serde.Serde[V]
	// keys makes the serde of windowed keys from k.
	keys func(serde.Serde[K]) serde.Serde[window.Windowed[K]]

	windows   state.WindowRef[K, V]
	isWindow  bool
	sessions  state.SessionRef[K, V]
	isSession bool
}

// With sets the serdes of key and value, for what is written further on. It does not change those of the store.
func (t WindowedTable[K, V]) With(k serde.Serde[K], v serde.Serde[V]) WindowedTable[K, V] {
	t.k, t.v = k, v
	return t
}

// WindowStore returns the reference of the store that holds the table, for queries and processors. It reports false for
// sessions, and for views of a table.
func (t WindowedTable[K, V]) WindowStore() (ref state.WindowRef[K, V], ok bool) {
	return t.windows, t.isWindow
}

// SessionStore returns the reference of the store that holds a table of sessions; see WindowStore.
func (t WindowedTable[K, V]) SessionStore() (ref state.SessionRef[K, V], ok bool) {
	return t.sessions, t.isSession
}

// Filter returns the table of the rows that keep returns true for. A row that ceases to fit is deleted from it.
func (t WindowedTable[K, V]) Filter(keep func(key window.Windowed[K], value V) bool) WindowedTable[K, V] {
	return WindowedTable[K, V]{n: filtered(t.n, "filter", keep, true), k: t.k, v: t.v, keys: t.keys}
}

// FilterNot returns the table of the rows that drop returns false for.
func (t WindowedTable[K, V]) FilterNot(drop func(key window.Windowed[K], value V) bool) WindowedTable[K, V] {
	return WindowedTable[K, V]{n: filtered(t.n, "filter-not", drop, false), k: t.k, v: t.v, keys: t.keys}
}

// MapValues returns the table of the values that f makes; see [Table.MapValues].
func (t WindowedTable[K, V]) MapValues[V2 any](f func(key window.Windowed[K], value V) V2) WindowedTable[K, V2] {
	return WindowedTable[K, V2]{n: remapped(t.n, f), k: t.k, v: carry[V, V2](t.v), keys: t.keys}
}

// ToStream returns the table's changes: one for each update of a window's value, and a delete for each key of a session
// that has grown.
func (t WindowedTable[K, V]) ToStream() WindowedChanges[K, V] {
	return WindowedChanges[K, V]{n: emitted(t.n), k: t.k, v: t.v, keys: t.keys}
}

// WindowedChanges is what a windowed table emits. It is [Changes] whose callbacks get a [window.Windowed] key; Map leads to
// Changes with a key of your own.
type WindowedChanges[K, V any] struct {
	n    *node[window.Windowed[K], opt[V]]
	k    serde.Serde[K]
	v    serde.Serde[V]
	keys func(serde.Serde[K]) serde.Serde[window.Windowed[K]]
}

// With sets the serdes of key and value.
func (c WindowedChanges[K, V]) With(k serde.Serde[K], v serde.Serde[V]) WindowedChanges[K, V] {
	c.k, c.v = k, v
	return c
}

// Filter passes on the changes that keep returns true for; see [Changes.Filter].
func (c WindowedChanges[K, V]) Filter(keep func(key window.Windowed[K], value V, present bool) bool) WindowedChanges[K, V] {
	c.n = filterChanges(c.n, "filter", keep, true)
	return c
}

// FilterNot passes on the changes that drop returns false for.
func (c WindowedChanges[K, V]) FilterNot(drop func(key window.Windowed[K], value V, present bool) bool) WindowedChanges[K, V] {
	c.n = filterChanges(c.n, "filter-not", drop, false)
	return c
}

// Map replaces key, value and presence; see [Changes.Map].
func (c WindowedChanges[K, V]) Map[K2, V2 any](f func(key window.Windowed[K], value V, present bool) (K2, V2, bool)) Changes[K2, V2] {
	k2, _ := serde.Default[K2]()
	return Changes[K2, V2]{n: mapChanges(c.n, f), k: k2, v: carry[V, V2](c.v), rekeyed: true}
}

// MapValues replaces the values; deletes stay deletes, and f is not called for them.
func (c WindowedChanges[K, V]) MapValues[V2 any](f func(key window.Windowed[K], value V) V2) WindowedChanges[K, V2] {
	return WindowedChanges[K, V2]{n: mapChangedValues(c.n, f), k: c.k, v: carry[V, V2](c.v), keys: c.keys}
}

// Peek calls f for each change and passes it on unchanged.
func (c WindowedChanges[K, V]) Peek(f func(key window.Windowed[K], value V, present bool)) WindowedChanges[K, V] {
	c.n = peekChanges(c.n, "peek", f)
	return c
}

// ForEach calls f for each change, at the end of a stream; see [Stream.ForEach].
func (c WindowedChanges[K, V]) ForEach(f func(key window.Windowed[K], value V, present bool)) {
	peekChanges(c.n, "for-each", f)
}

// To writes the changes to a topic, deletes as null values; see [Stream.To]. Keys are written as [WindowedKey] and
// [SessionKey] do. For a key that other tools read, use Map first.
func (c WindowedChanges[K, V]) To(topic string, opts ...SinkOption) {
	var keys serde.Serde[window.Windowed[K]]
	if c.k != nil {
		keys = c.keys(c.k)
	}
	sinkOf(c.n, target[window.Windowed[K], V]{topic: topic}, keys, c.v, opts, changesSink)
}
