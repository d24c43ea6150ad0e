package task

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// Context is what the operators of a task share: the record in hand, event time, stores, output.
type Context struct {
	task       *Task
	ops        []*Op
	streamTime window.Instant
	timers     []*Timer

	// rec is the input record in hand, nil in a punctuation.
	rec *kgo.Record
	// now is the event time of what is passed on; operators may change it for what they emit, and set it back.
	now window.Instant
	// headers go along to sinks.
	headers []kgo.RecordHeader
	// nullKey says that the key passed on stands for none.
	nullKey bool
	message Message
	// deadTopics are where dead letters went.
	deadTopics map[string]bool
}

func newContext(t *Task) *Context {
	return &Context{task: t, streamTime: noTime, deadTopics: map[string]bool{}}
}

func (c *Context) begin(rec *kgo.Record, at window.Instant) {
	c.rec, c.now, c.headers, c.nullKey = rec, at, rec.Headers, rec.Key == nil
}

func (c *Context) end() { c.rec, c.headers = nil, nil }

func (c *Context) advance(at window.Instant) { c.streamTime = max(c.streamTime, at) }

// Record returns the input record in hand, nil in a punctuation. Its slices are valid until it is processed.
func (c *Context) Record() *kgo.Record { return c.rec }

// Time returns the event time of the value in hand.
func (c *Context) Time() window.Instant { return c.now }

// SetTime changes the event time for what is emitted until it is set back.
func (c *Context) SetTime(at window.Instant) { c.now = min(max(at, 0), maxTime) }

// StreamTime returns the highest event time the task has seen, -1 before the first.
func (c *Context) StreamTime() window.Instant { return c.streamTime }

// NullKey tells whether the key in hand stands for no key.
func (c *Context) NullKey() bool { return c.nullKey }

// SetNullKey changes that, for what is emitted until it is set back; it returns what it was.
func (c *Context) SetNullKey(null bool) (was bool) {
	was, c.nullKey = c.nullKey, null
	return was
}

// Headers returns the headers that go along to sinks.
func (c *Context) Headers() []kgo.RecordHeader { return c.headers }

// Stores returns the task's stores.
func (c *Context) Stores() *state.Stores { return c.task.cfg.Stores }

// ID returns the task's name.
func (c *Context) ID() ID { return c.task.cfg.ID }

// Log returns the task's logger.
func (c *Context) Log() *slog.Logger { return c.task.cfg.Log }

// Clock returns the time on the wall, or on the test's clock.
func (c *Context) Clock() time.Time { return c.task.cfg.Now() }

// Partitions returns how many partitions a topic has.
func (c *Context) Partitions(topic string) (int32, error) { return c.task.cfg.Output.Partitions(topic) }

// Send writes to a topic, with the time and, unless bare, the headers in hand. Key and value may be reused afterwards.
func (c *Context) Send(op *Op, topic string, partition int32, key, value []byte, bare bool) error {
	c.message = Message{Operator: op.label, Topic: topic, Partition: partition, Key: key, Value: value, Time: c.now}
	if !bare {
		c.message.Headers = c.headers
	}
	if err := c.task.cfg.Output.Send(&c.message); err != nil {
		return fmt.Errorf("%s: writing to topic %q: %w", op.label, topic, err)
	}
	return nil
}

func (c *Context) opByLabel(label string) *Op {
	for _, op := range c.ops {
		if op.label == label {
			return op
		}
	}
	return &Op{ctx: c, label: label}
}

func (c *Context) drops() []Drop {
	var out []Drop
	for _, op := range c.ops {
		for r := Keep + 1; r < reasons; r++ {
			if n := op.dropped[r].Load(); n > 0 {
				out = append(out, Drop{Operator: op.label, Reason: r, Count: n})
			}
		}
	}
	return out
}

// Drop counts what one operator dropped for one reason.
type Drop struct {
	Operator string
	Reason   Reason
	Count    int64
}

// Op is one operator in one task.
type Op struct {
	ctx     *Context
	label   string
	dropped [reasons]atomic.Int64

	loggedAt time.Time
	unlogged int
	late     lateLog
}

// Label names the operator in errors.
func (o *Op) Label() string { return o.label }

// Drop counts a dropped record.
func (o *Op) Drop(r Reason) { o.dropped[r].Add(1) }

// Guard runs a piece of user code for the record in hand. An error or a panic goes to the processing handler. It
// returns true when f succeeded; otherwise the record is to be dropped here, and a non-nil error ends the task.
// The closure does not escape, so a call allocates nothing.
func (o *Op) Guard(f func() error) (bool, error) { return o.guard(Processing, f) }

// GuardEncoding is Guard for code that encodes what is to be written: its errors go to the production handler.
func (o *Op) GuardEncoding(f func() error) (bool, error) { return o.guard(Production, f) }

func (o *Op) guard(stage Stage, f func() error) (bool, error) {
	err := catch(f)
	if err == nil {
		return true, nil
	}
	return false, o.ctx.settle(o, o.ctx.failure(o, stage, err))
}

func catch(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	return f()
}

// Assembly opens the operators of one task. Its methods are for the DSL, while Input.Open runs.
type Assembly struct {
	ctx     *Context
	made    map[topology.NodeID]any
	ops     map[topology.NodeID]*Op
	closers []func() error
	errs    []error
}

// Context returns the task's context.
func (a *Assembly) Context() *Context { return a.ctx }

// Op returns the operator of a node.
func (a *Assembly) Op(id topology.NodeID) *Op {
	if op, ok := a.ops[id]; ok {
		return op
	}
	if a.ops == nil {
		a.ops = map[topology.NodeID]*Op{}
	}
	op := &Op{ctx: a.ctx, label: a.ctx.task.cfg.Program.Topology.Nodes[id].Label}
	a.ops[id] = op
	a.ctx.ops = append(a.ctx.ops, op)
	return op
}

// Once returns what open made for the node, which it calls the first time only: a node with several inputs is one
// operator.
func (a *Assembly) Once(id topology.NodeID, open func() any) any {
	if made, ok := a.made[id]; ok {
		return made
	}
	made := open()
	a.made[id] = made
	return made
}

// Fail records an error of opening; New returns it.
func (a *Assembly) Fail(op *Op, err error) {
	a.errs = append(a.errs, fmt.Errorf("%s: %w", op.label, err))
}

// Try runs user code that belongs to opening. Its error, or panic, is one of opening; then it returns false.
func (a *Assembly) Try(op *Op, f func() error) bool {
	err := catch(f)
	if err == nil {
		return true
	}
	a.ctx.logPanic(op.label, err)
	a.Fail(op, err)
	return false
}

// OnClose registers what Task.Close calls, last registered first.
func (a *Assembly) OnClose(f func() error) { a.closers = append(a.closers, f) }

func clampTime(t time.Time) window.Instant { return min(max(window.At(t), 0), maxTime) }
