package task

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// InvalidTimes is what to do with a record whose event time is negative or that the extractor found none in.
type InvalidTimes int8

// The policies. The first is the default: the record goes to the deserialization handler.
const (
	FailInvalidTimes InvalidTimes = iota
	DropInvalidTimes
	UsePartitionTime
	UseWallClock
)

// Reason is why an operator dropped a record.
type Reason int8

// Keep is no drop; the others are counted.
const (
	Keep         Reason = iota
	Late                // its window was closed
	NullKey             // an operator that works by key got a record without one
	NullValue           // a stream's record has no value
	InvalidTime         // it has no valid event time
	Skipped             // a handler said Skip
	DeadLettered        // a handler said DeadLetter
	reasons
)

// String returns the reason in words.
func (r Reason) String() string {
	return [...]string{"kept", "late", "null key", "null value", "invalid time", "skipped", "dead-lettered"}[r]
}

// Stage is where a failure happened.
type Stage int8

// The stages, one handler each.
const (
	Deserialization Stage = iota
	Processing
	Production
)

// String returns the stage in lower case.
func (s Stage) String() string {
	return [...]string{"deserialization", "processing", "production"}[s]
}

// Failure is one record that failed. Package streams mirrors it, field by field, in its public API.
type Failure struct {
	Stage     Stage
	Operator  string
	Task      string
	Topic     string
	Partition int32
	Offset    int64
	Time      time.Time
	Key       []byte
	Value     []byte
	Headers   []kgo.RecordHeader
	Err       error
	Stack     []byte
}

// Action is what a handler decided.
type Action int8

// The actions.
const (
	Fail Action = iota
	Skip
	DeadLetter
)

// Outcome is a handler's decision; Topic is where dead letters go.
type Outcome struct {
	Action Action
	Topic  string
}

// Handler decides about a failure.
type Handler func(Failure) Outcome

// Handlers has a handler for each stage; nil ones fail the task.
type Handlers struct {
	Deserialization, Processing, Production Handler
}

func (h Handlers) of(s Stage) Handler {
	return [...]Handler{h.Deserialization, h.Processing, h.Production}[s]
}

// Error is how a failure that ends a task reads.
type Error struct{ Failure Failure }

func (e *Error) Error() string {
	f := e.Failure
	return fmt.Sprintf("%s failed at %s, %s: %v", f.Stage, f.Operator, f.where(), f.Err)
}

// where says which record failed: where it was read, or where it was to be written.
func (f Failure) where() string {
	switch {
	case f.Topic == "":
		return "in a timer"
	case f.Offset >= 0:
		return fmt.Sprintf("record %s[%d]@%d", f.Topic, f.Partition, f.Offset)
	case f.Partition >= 0:
		return fmt.Sprintf("writing to partition %d of topic %q", f.Partition, f.Topic)
	}
	return fmt.Sprintf("writing to topic %q", f.Topic)
}

func (e *Error) Unwrap() error { return e.Failure.Err }

// panicked is the error that a recovered panic becomes.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func (p *panicked) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

func panicError(p any) error { return &panicked{value: p, stack: debug.Stack()} }

// failure describes err of the record in hand.
func (c *Context) failure(op *Op, stage Stage, err error) Failure {
	f := Failure{Stage: stage, Operator: op.label, Task: c.task.cfg.ID.String(), Partition: -1, Offset: -1, Err: err}
	var p *panicked
	if errors.As(err, &p) {
		f.Stack = p.stack
	}
	if r := c.rec; r != nil {
		f.Topic, f.Partition, f.Offset = r.Topic, r.Partition, r.Offset
		f.Time, f.Key, f.Value, f.Headers = r.Timestamp, r.Key, r.Value, r.Headers
	}
	return f
}

// settle asks the handler of the failure's stage and does what it says. Nil means that the record is dropped at op, counted
// and logged, and the task goes on.
func (c *Context) settle(op *Op, f Failure) error {
	out := Outcome{Action: Fail}
	if h := c.task.cfg.Handlers.of(f.Stage); h != nil {
		out = h(f)
	}
	if f.Stage == Production && out.Action == DeadLetter && out.Topic == f.Topic {
		return &Error{Failure: f} // it would come back here for ever
	}
	switch out.Action {
	case Skip:
		op.Drop(Skipped)
		if f.Topic == "" {
			c.logDrop(op, f, "failed in a timer: skipped")
		} else {
			c.logDrop(op, f, "record skipped")
		}
		return nil
	case DeadLetter:
		if f.Topic == "" {
			op.Drop(Skipped)
			c.logDrop(op, f, "failed in a timer: there is no record for the dead letters")
			return nil
		}
		c.deadTopics[out.Topic] = true
		if err := c.task.cfg.Output.Send(deadLetter(out.Topic, f)); err != nil {
			return fmt.Errorf("writing a dead letter to %q: %w", out.Topic, err)
		}
		op.Drop(DeadLettered)
		c.logDrop(op, f, "record goes to dead letters")
		return nil
	}
	c.logPanic(op.label, f.Err)
	return &Error{Failure: f}
}

// refusal says what it means that a message was refused. Of a dead letter it keeps what that was about, which is all that
// tells why the job ends.
func (c *Context) refusal(m *Message, cause error) error {
	if errors.Is(cause, kerr.UnknownTopicOrPartition) {
		cause = fmt.Errorf("the topic does not exist: create it: %w", cause)
	}
	if !c.deadTopics[m.Topic] {
		return cause
	}
	for _, h := range slices.Backward(m.Headers) {
		if h.Key == headerPrefix+"message" {
			return fmt.Errorf("a dead letter cannot be written to its topic %q: %w; it was about: %s", m.Topic, cause, h.Value)
		}
	}
	return cause
}

// logPanic logs the stack of an error that is a panic, for an error's text has no room for it.
func (c *Context) logPanic(operator string, err error) {
	var p *panicked
	if errors.As(err, &p) {
		c.task.cfg.Log.Error("panic in user code", "task", c.task.cfg.ID.String(), "operator", operator, "panic", p.value, "stack", string(p.stack))
	}
}

// logIntervalMin keeps an operator that fails for every record from filling the disk with log lines. Counts tell the
// rest.
const logIntervalMin = time.Second

func (c *Context) logDrop(op *Op, f Failure, msg string) {
	now := c.task.cfg.Now()
	if !op.loggedAt.IsZero() && now.Sub(op.loggedAt) < logIntervalMin {
		op.unlogged++
		return
	}
	attrs := logAttrs(f)
	if op.unlogged > 0 {
		attrs = append(attrs, slog.Int("unlogged_before", op.unlogged))
	}
	op.loggedAt, op.unlogged = now, 0
	c.task.cfg.Log.Warn(msg, attrs...)
}

func logAttrs(f Failure) []any {
	attrs := []any{"task", f.Task, "stage", f.Stage.String(), "operator", f.Operator}
	if f.Topic != "" {
		attrs = append(attrs, "topic", f.Topic, "partition", f.Partition, "offset", f.Offset)
	}
	attrs = append(attrs, "err", f.Err)
	if f.Stack != nil {
		attrs = append(attrs, "stack", string(f.Stack))
	}
	return attrs
}

const headerPrefix = "__streams.errors."

// deadLetter makes the record for a dead-letter topic: the bytes and headers that came in, and the cause in headers with
// the names that Kafka Streams gives them (KIP-1034), so that tools for its dead letters read ours.
func deadLetter(topic string, f Failure) *Message {
	h := append([]kgo.RecordHeader{}, f.Headers...)
	add := func(key, value string) {
		h = append(h, kgo.RecordHeader{Key: headerPrefix + key, Value: []byte(value)})
	}
	add("exception", fmt.Sprintf("%T", f.Err))
	add("message", f.Err.Error())
	if f.Stack != nil {
		add("stacktrace", string(f.Stack))
	}
	add("topic", f.Topic)
	add("partition", strconv.Itoa(int(f.Partition)))
	add("offset", strconv.FormatInt(f.Offset, 10))
	add("stage", f.Stage.String())
	add("operator", f.Operator)
	return &Message{Operator: f.Operator, Topic: topic, Partition: ByKey, Key: f.Key, Value: f.Value, Headers: h, Time: clampTime(f.Time)}
}
