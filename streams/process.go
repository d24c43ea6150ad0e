package streams

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// Processor is an operator of your own, for what the others do not do: with state, timers, or several outputs a record.
// [Stream.Process] adds one. Each task makes its own, and calls it from one goroutine.
//
// A processor that also is an [io.Closer] is closed when its task ends.
type Processor[K, V, K2, V2 any] interface {
	// Init is called once, before the first record. It keeps the context, opens stores, and sets timers. An error, or a
	// panic, ends the job.
	Init(ctx *Context[K2, V2]) error
	// Process is called for each record. An error goes to the processing handler, as one of that record; what was emitted
	// and stored before stays.
	Process(key K, value V) error
}

// Process passes the stream through a processor of your own, one that newP makes for each task. The name identifies the
// operator; stores are those that the processor opens with its context, such as those it made with state.NewKeyValue, or
// that Table.Store gave. Processors that list the same store share it, and then run in the same task.
//
// A task sees the records of one partition. Where the key was changed before (by Map or SelectKey), records of one key may
// be in several partitions, and so in the stores of several tasks: put a Repartition in between if the processor works by
// key. Process does not do it by itself.
//
//	var seen = state.NewKeyValue("seen", serde.String, serde.Bool)
//
//	type dedup struct {
//		ctx  *streams.Context[string, Order]
//		seen state.KeyValue[string, bool]
//	}
//
//	func (d *dedup) Init(ctx *streams.Context[string, Order]) error {
//		d.ctx, d.seen = ctx, ctx.Store(seen)
//		return nil
//	}
//
//	func (d *dedup) Process(id string, o Order) error {
//		if _, found, err := d.seen.Get(id); err != nil || found {
//			return err
//		}
//		d.ctx.Emit(id, o)
//		return d.seen.Put(id, true, window.At(d.ctx.Time()))
//	}
//	...
//	orders.Process("dedup", func() *dedup { return &dedup{} }, seen)
func (s Stream[K, V]) Process[K2, V2 any, P Processor[K, V, K2, V2]](name string, newP func() P, stores ...state.Ref) Stream[K2, V2] {
	n := connect(s.n, topology.Node{Op: "process", Name: name}, func(o opening, out push[K2, V2]) push[K, V] {
		c := &Context[K2, V2]{o: o, out: out, stores: stores}
		var p P
		if !o.a.Try(o.op, func() (err error) { p, err = initialized(o.a, newP, c); return err }) {
			return nil
		}
		c.ready = true
		return func(k K, v V) error {
			_, err := o.op.Guard(func() error { return c.blame(p.Process(k, v)) })
			if c.fatal != nil {
				return c.fatal
			}
			return err
		}
	})
	n.require(newP != nil)
	n.claim(name)
	for i, ref := range stores {
		if ref == nil {
			n.b.graph.Fail(n.name, fmt.Errorf("store %d of its list is nil", i+1))
			continue
		}
		n.b.graph.AddStore(n.id, ref.Spec())
	}
	return rekeyed[K, V](s, n)
}

// initialized makes a task's processor and lets it begin.
func initialized[K, V, K2, V2 any, P Processor[K, V, K2, V2]](a *task.Assembly, newP func() P, c *Context[K2, V2]) (P, error) {
	p := newP()
	if v := reflect.ValueOf(p); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return p, errors.New("its function that makes a processor returned nil")
	}
	if closer, ok := any(p).(io.Closer); ok {
		a.OnClose(closer.Close)
	}
	return p, errors.Join(p.Init(c), c.fatal)
}

// Context is a processor's way to the task it runs in. It is used by the processor's methods and timers only, on the
// goroutine that calls them.
type Context[K2, V2 any] struct {
	o      opening
	out    push[K2, V2]
	stores []state.Ref
	// fatal is what ends the task: not the record's fault, so not for a handler.
	fatal error
	// ready says that Init is over.
	ready bool
}

// misused deals with a call that can never work. In Init it fails the start; later it is a bug that shows only for some
// records, so it panics, which makes it a failure of the record in hand.
func (c *Context[K2, V2]) misused(err error) {
	if c.ready {
		panic(err)
	}
	c.fatal = errors.Join(c.fatal, err)
}

// blame returns the error of user code, unless something fatal is behind it.
func (c *Context[K2, V2]) blame(err error) error {
	if c.fatal != nil {
		return nil
	}
	return err
}

// Emit passes a record on, with the event time of the record in hand; in a timer, with the time it is called for. What
// goes wrong further on is dealt with there.
func (c *Context[K2, V2]) Emit(key K2, value V2) {
	if c.fatal != nil {
		return
	}
	was := c.o.SetNullKey(false)
	c.fatal = c.out(key, value)
	c.o.SetNullKey(was)
}

// EmitAt is Emit with another event time. Times before 1970 become 1970. Stream time does not move with it.
func (c *Context[K2, V2]) EmitAt(at time.Time, key K2, value V2) {
	was := c.o.Time()
	c.o.SetTime(window.At(at))
	c.Emit(key, value)
	c.o.SetTime(was)
}

// Store opens a key-value store that was listed at Process. Call it in Init; a store that was not listed fails Init. Later
// it panics, as any misuse of a Context: then the record in hand goes to the processing handler.
func (c *Context[K2, V2]) Store[SK, SV any](r state.KeyValueRef[SK, SV]) state.KeyValue[SK, SV] {
	return openStore(c, r, r.In)
}

// WindowStore opens a window store; see Store.
func (c *Context[K2, V2]) WindowStore[SK, SV any](r state.WindowRef[SK, SV]) state.Window[SK, SV] {
	return openStore(c, r, r.In)
}

// SessionStore opens a session store; see Store.
func (c *Context[K2, V2]) SessionStore[SK, SV any](r state.SessionRef[SK, SV]) state.Session[SK, SV] {
	return openStore(c, r, r.In)
}

func openStore[S, K2, V2 any](c *Context[K2, V2], r state.Ref, in func(*state.Stores) (S, error)) S {
	var none S
	name := r.Spec().Name
	if !slices.ContainsFunc(c.stores, func(listed state.Ref) bool { return listed.Spec().Name == name }) {
		c.misused(fmt.Errorf("store %q was not listed at Process", name))
		return none
	}
	s, err := in(c.o.Stores())
	if err != nil {
		c.misused(err)
	}
	return s
}

// Time returns the event time of the record in hand; in a timer, the time it is called for.
func (c *Context[K2, V2]) Time() time.Time { return c.o.Time().Time() }

// StreamTime returns the highest event time that the task has seen, by which windows close; false before the first.
func (c *Context[K2, V2]) StreamTime() (time.Time, bool) {
	at := c.o.StreamTime()
	return at.Time(), at >= 0
}

// Now returns the time on the wall; in a test, on the test's clock.
func (c *Context[K2, V2]) Now() time.Time { return c.o.Clock() }

// HasKey tells whether the record in hand has a key. Without one, Process gets a zero key.
func (c *Context[K2, V2]) HasKey() bool { return !c.o.NullKey() }

// Origin says where the record in hand was read from: the topic that the task reads, which may be an internal one. It is
// false in a timer.
func (c *Context[K2, V2]) Origin() (topic string, partition int32, offset int64, ok bool) {
	r := c.o.Record()
	if r == nil {
		return "", -1, -1, false
	}
	return r.Topic, r.Partition, r.Offset, true
}

// Headers returns the headers of the record in hand, which go along to sinks. They must not be changed, and are valid until
// Process returns.
func (c *Context[K2, V2]) Headers() []kgo.RecordHeader { return c.o.Headers() }

// TaskID names the task, "<sub-topology>_<partition>".
func (c *Context[K2, V2]) TaskID() string { return c.o.ID().String() }

// Log returns a logger for the processor.
func (c *Context[K2, V2]) Log() *slog.Logger {
	return c.o.Log().With("task", c.TaskID(), "operator", c.o.op.Label())
}

// EveryStreamTime calls f whenever stream time has moved on by d since it was due last, counted from the first record. It is
// called between records, once for a jump of many intervals, with the stream time. It stays silent while no records
// come. D is at least a millisecond. Stop ends it.
func (c *Context[K2, V2]) EveryStreamTime(d time.Duration, f func(at time.Time) error) (stop func()) {
	return c.every(d, false, f)
}

// EveryWallClock calls f every d by the wall clock, between records and when there are none, with the time. An error
// goes to the processing handler. D is at least a millisecond. Stop ends it.
func (c *Context[K2, V2]) EveryWallClock(d time.Duration, f func(at time.Time) error) (stop func()) {
	return c.every(d, true, f)
}

func (c *Context[K2, V2]) every(d time.Duration, wall bool, f func(time.Time) error) (stop func()) {
	if d < time.Millisecond {
		c.misused(fmt.Errorf("a timer is set to %v: want a millisecond or more", d))
		return func() {}
	}
	timer := c.o.Punctuate(d, wall, func(at time.Time) error {
		_, err := c.o.op.Guard(func() error { return c.blame(f(at)) })
		if c.fatal != nil {
			return c.fatal
		}
		return err
	})
	return timer.Stop
}
