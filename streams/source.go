package streams

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// SourceOption changes how [Builder.Stream] reads its topic.
type SourceOption struct{ apply func(*sourceConfig) }

type sourceConfig struct {
	invalid task.InvalidTimes
	fromEnd bool
	times   *extractor
}

// extractor is an EventTime option. Its types are compared with the source's when that is added, never in the hot path.
type extractor struct {
	f     any // func(K, V) (time.Time, error)
	k, v  reflect.Type
	isNil bool
}

func extractorOf[K, V any](f func(K, V) (time.Time, error), isNil bool) SourceOption {
	e := &extractor{f: f, k: reflect.TypeFor[K](), v: reflect.TypeFor[V](), isNil: isNil}
	return SourceOption{func(c *sourceConfig) { c.times = e }}
}

// EventTime takes the event time of a source's records from f instead of their timestamps. Windows, stream time and the
// timestamps of what the job writes follow it. F gets what the source's serdes decoded, and returns false when there is no
// usable time in it; then the policy of [InvalidTimes] decides. Its types must be the source's, or Build fails.
func EventTime[K, V any](f func(key K, value V) (at time.Time, ok bool)) SourceOption {
	return extractorOf(func(k K, v V) (time.Time, error) {
		at, ok := f(k, v)
		if !ok {
			return at, errNoEventTime
		}
		return at, nil
	}, f == nil)
}

// TryEventTime is [EventTime] for a function that says why there is no usable time: handlers, logs and dead letters get its
// error.
func TryEventTime[K, V any](f func(key K, value V) (time.Time, error)) SourceOption {
	return extractorOf(f, f == nil)
}

var (
	errNoEventTime = errors.New("EventTime found no valid time in the record")
	errNoTimestamp = errors.New("the record's timestamp is before 1970, which stands for none: set a policy with InvalidTimes, or an extractor with EventTime, at the source")
)

// InvalidTimePolicy says what happens to a record without a valid event time: one before 1970, or none found by [EventTime].
type InvalidTimePolicy int8

// The policies for invalid times. With each, offsets advance and the task goes on, if the handler lets it. They are numbered
// as in package task.
const (
	// HandleInvalidTimes, the default, gives the record to [Handlers].Deserialization.
	HandleInvalidTimes InvalidTimePolicy = iota
	// DropInvalidTimes drops and counts the record.
	DropInvalidTimes
	// UsePartitionTime gives the record the highest time seen in its partition so far; before the first, 1970.
	UsePartitionTime
	// UseWallClock gives the record the time of processing, which moves stream time there too.
	UseWallClock
)

// InvalidTimes sets the policy for records without a valid event time.
func InvalidTimes(p InvalidTimePolicy) SourceOption {
	return SourceOption{func(c *sourceConfig) { c.invalid = task.InvalidTimes(p) }}
}

// FromEnd makes a job that has no committed offset for the topic begin with records that arrive from now on. Without it, it
// begins at the topic's start.
func FromEnd() SourceOption {
	return SourceOption{func(c *sourceConfig) { c.fromEnd = true }}
}

// Stream reads a topic as a stream of events. K and v decode its records; [serde.Default] knows the plain types', so
// pass serde.String and the like.
//
// A record without a key has the zero value of K; operators that work by key drop and count it. A record with a null
// value (a tombstone) is dropped and counted: to see deletes, read the topic with [Builder.Table] and use ToStream.
func (b *Builder) Stream[K, V any](topic string, k serde.Serde[K], v serde.Serde[V], opts ...SourceOption) Stream[K, V] {
	var cfg sourceConfig
	for _, o := range opts {
		o.apply(&cfg)
	}
	meta := topology.Node{Kind: topology.Source, Op: "stream", Name: topic, Topic: topic}
	return Stream[K, V]{n: addSource(b, meta, k, v, cfg, streamValues[V]), k: reported(k), v: reported(v)}
}

// TableOption changes how [Builder.Table] keeps its table.
type TableOption struct{ apply func(*tableConfig) }

type tableConfig struct {
	name  string
	store []StoreOption
}

// StoredAs names the table's store, and thereby its changelog. Without it, both are named after the topic.
func StoredAs(name string, opts ...StoreOption) TableOption {
	return TableOption{func(c *tableConfig) { c.name, c.store = name, append(c.store, opts...) }}
}

// Table reads a topic as a table: each record sets the row of its key, and a null value deletes it. The rows are kept in
// a store. Records without a key are dropped and counted.
func (b *Builder) Table[K, V any](topic string, k serde.Serde[K], v serde.Serde[V], opts ...TableOption) Table[K, V] {
	cfg := tableConfig{name: topic}
	for _, o := range opts {
		o.apply(&cfg)
	}
	meta := topology.Node{Kind: topology.Source, Op: "changes", Name: topic, Topic: topic}
	n := addSource(b, meta, k, v, sourceConfig{}, optionalValues[V])
	return materialize(n, "table", cfg.name, reported(k), reported(v), cfg.store)
}

// addSource adds a source whose values are made by wrap from what was decoded.
func addSource[K, V, W any](b *Builder, meta topology.Node, k serde.Serde[K], v serde.Serde[V], cfg sourceConfig, wrap wrapper[V, W]) *node[K, W] {
	b.begin()
	n := newNode[K, W](b, meta)
	if !meta.Internal {
		n.argument("k", k == nil)
		n.argument("v", v == nil)
	}
	var eventTime func(K, V) (time.Time, error)
	if e := cfg.times; e != nil {
		f, ok := e.f.(func(K, V) (time.Time, error))
		switch {
		case !ok:
			b.graph.Fail(n.name, fmt.Errorf("its EventTime takes (%v, %v), but the source's types are (%v, %v)", e.k, e.v, reflect.TypeFor[K](), reflect.TypeFor[V]()))
		case e.isNil:
			b.graph.Fail(n.name, errors.New("its EventTime is given a nil function"))
		}
		eventTime = f
	}
	spec := task.InputSpec{Topic: meta.Topic, Node: n.id, InvalidTimes: cfg.invalid, FromStart: !cfg.fromEnd}
	spec.Open = func(a *task.Assembly) task.Input {
		return &source[K, V, W]{
			Context: a.Context(), k: serde.Bind(k, meta.Topic, serde.Key), v: serde.Bind(v, meta.Topic, serde.Value),
			eventTime: eventTime, wrap: wrap, out: n.fan(a),
		}
	}
	b.inputs[n.id] = spec
	return n
}

// wrapper makes what a source emits from a decoded value, or from null; false drops the record.
type wrapper[V, W any] func(v V, present bool) (W, bool)

func streamValues[V any](v V, present bool) (V, bool)        { return v, present }
func optionalValues[V any](v V, present bool) (opt[V], bool) { return opt[V]{v, present}, true }

// source decodes one input partition. It implements task.Input.
type source[K, V, W any] struct {
	*task.Context
	k         serde.Serde[K]
	v         serde.Serde[V]
	eventTime func(K, V) (time.Time, error)
	wrap      wrapper[V, W]
	out       push[K, W]

	key   K
	value W
}

func (s *source[K, V, W]) Decode(rec *kgo.Record) (window.Instant, task.Reason, error) {
	var k K
	var v V
	var err error
	if rec.Key != nil {
		if k, err = s.k.Decode(rec.Key); err != nil {
			return 0, task.Keep, fmt.Errorf("decoding the key: %w", err)
		}
	}
	if rec.Value != nil {
		if v, err = s.v.Decode(rec.Value); err != nil {
			return 0, task.Keep, fmt.Errorf("decoding the value: %w", err)
		}
	}
	w, ok := s.wrap(v, rec.Value != nil)
	if !ok {
		return 0, task.NullValue, nil
	}
	s.key, s.value = k, w
	if s.eventTime == nil || rec.Value == nil {
		if at := window.At(rec.Timestamp); at >= 0 {
			return at, task.Keep, nil
		}
		return 0, task.InvalidTime, errNoTimestamp
	}
	at, err := s.eventTime(k, v)
	if err != nil {
		return 0, task.InvalidTime, fmt.Errorf("finding the event time: %w", err)
	}
	if window.At(at) < 0 {
		return 0, task.InvalidTime, fmt.Errorf("EventTime found %v, which is before 1970", at)
	}
	return window.At(at), task.Keep, nil
}

func (s *source[K, V, W]) Deliver() error { return s.out(s.key, s.value) }

// StoreOption changes how an operator keeps its state.
type StoreOption struct{ apply func(*storeConfig) }

type storeConfig struct {
	state     []state.Option
	lateTo    string
	retention time.Duration
}

func storeConfigOf(opts []StoreOption) storeConfig {
	var c storeConfig
	for _, o := range opts {
		o.apply(&c)
	}
	return c
}

// InMemory keeps the store in memory and not in the state folder: faster, and restored from its changelog at each start.
func InMemory() StoreOption { return storeOption(state.InMemory()) }

// Unlogged gives the store no changelog: its content does not survive its folder, nor a move to another instance.
func Unlogged() StoreOption { return storeOption(state.Unlogged()) }

// ChangelogSetting overrides a setting of the store's changelog topic, by Kafka's name.
func ChangelogSetting(name, value string) StoreOption {
	return storeOption(state.ChangelogSetting(name, value))
}

func storeOption(o state.Option) StoreOption {
	return StoreOption{func(c *storeConfig) { c.state = append(c.state, o) }}
}

// Retention keeps windows and sessions in their store for d of stream time, so that queries and processors find them after
// they have closed. It is counted from a window's start, or a session's end, is whole milliseconds, and at least what
// the operator needs itself: a window's size and grace, a session's gap and grace. These are what is kept without
// Retention, or with zero. It changes neither results nor what is late. Build fails where there are no windows.
func Retention(d time.Duration) StoreOption {
	return StoreOption{func(c *storeConfig) { c.retention = d }}
}

// kept returns the retention of a windowed operator's store; least is what the operator needs.
func (c storeConfig) kept(least time.Duration) (time.Duration, error) {
	switch {
	case c.retention == 0:
		return least, nil
	case c.retention < least:
		return least, fmt.Errorf("its Retention is %v: it is at least %v, for the operator itself needs that", c.retention, least)
	case c.retention%time.Millisecond != 0:
		return least, fmt.Errorf("its Retention is %v: record times have milliseconds, so it must be a whole number of them", c.retention)
	}
	return c.retention, nil
}

// LateTo sends records that come after their window was closed to a topic of their own, with key, value and event time as
// they reached the operator, instead of only dropping them. They are counted as late in any case. It is for windowed
// operators; Build fails where there are no windows. The topic must exist. Empty is as without.
func LateTo(topic string) StoreOption {
	return StoreOption{func(c *storeConfig) { c.lateTo = topic }}
}
