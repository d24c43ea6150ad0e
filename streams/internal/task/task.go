// Package task executes one sub-topology on one partition: it decides which record comes next, keeps event time, calls
// the operators, and deals with what goes wrong. It does no I/O: records come in by [Task.Add], go out by [Output], and
// stores and clock are given. The runtime (streams/internal/worker) and the test driver (streams/streamstest) drive the
// same code.
//
// A task belongs to one goroutine. Nothing in it waits: [Task.Step] processes at most one record and says when to
// call again.
//
// # Event time
//
// Each input partition has a time: the highest event time of its processed records. The highest of them is the task's
// stream time, by which windows close. Both survive a restart, because the runtime stores [Task.Times] with the offsets
// it commits and gives them back in Config.Times; so what was late before a restart is late after it.
//
// With several input partitions, the record with the smallest time goes first, as far as records are at hand. A partition
// that has none is waited for during Config.MaxIdle, counted from when it ran dry; after that the others go on without it
// until it has records again.
package task

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// ID names a task.
type ID = topology.TaskID

// Program is what a sub-topology does, ready to be opened once for each of its tasks.
type Program struct {
	Topology *topology.Topology
	Sub      *topology.SubTopology
	Inputs   []InputSpec
}

// InputSpec is one source topic of a program.
type InputSpec struct {
	Topic        string
	Node         topology.NodeID
	InvalidTimes InvalidTimes
	// FromStart says where to begin when the group has no committed offset: at the topic's start (true) or its end.
	FromStart bool
	// Open makes the input of one task, and with it the operators behind it.
	Open func(*Assembly) Input
}

// Input decodes the records of one input partition and passes them to the operators. The task calls Decode and then
// either Deliver, once, for the same record, or Decode for the next one.
type Input interface {
	// Decode decodes the record, keeps the result, and returns the event time: what the record or the source's
	// extractor says. InvalidTime is for a record without a valid one, and comes with an error that says why; the source's
	// policy decides about it. Another outcome than Keep drops the record.
	Decode(rec *kgo.Record) (window.Instant, Reason, error)
	// Deliver passes on what Decode decoded.
	Deliver() error
}

// Output takes what a task writes.
type Output interface {
	// Send writes a message. The message and all its slices belong to the task again when Send returns. Failures that
	// come later, from the broker, are reported through Task.ProductionFailed. An error ends the task.
	Send(m *Message) error
	// Partitions returns how many partitions a topic has.
	Partitions(topic string) (int32, error)
}

// ByKey as a Message's partition leaves the choice to Kafka's default partitioner: murmur2 of the key, or any partition
// for a record without key.
const ByKey int32 = -1

// Message is one record to be written.
type Message struct {
	// Operator is the label of the node that writes it.
	Operator  string
	Topic     string
	Partition int32 // or ByKey
	// Key and Value are null when nil; empty is not null.
	Key, Value []byte
	Headers    []kgo.RecordHeader
	Time       window.Instant
}

// Config is what a task is made of. All fields are required but those marked optional.
type Config struct {
	ID      ID
	Program *Program
	// Stores holds the sub-topology's stores, open and restored. The task reads and writes them; to commit, drop or
	// close them is its owner's business.
	Stores   *state.Stores
	Output   Output
	Handlers Handlers // optional: a nil handler fails the task
	// MaxIdle is how long an input partition without records holds up the others. Zero: not at all.
	MaxIdle time.Duration
	Now     func() time.Time
	Log     *slog.Logger
	// Times are the partition times to begin with, by topic: what Task.Times returned when the starting offsets were
	// committed. Optional.
	Times map[string]window.Instant
}

// Task is a running task.
type Task struct {
	cfg     Config
	ctx     *Context
	queues  []*queue
	closers []func() error
	// processed counts records taken from queues, dropped ones included.
	processed int64
}

// Position is how far a task has come in one of its input partitions.
type Position struct {
	Topic string
	// Next is the offset to continue from, -1 when nothing was processed yet.
	Next int64
	// Epoch is the leader epoch of the last processed record, -1 if unknown.
	Epoch int32
	// Time is the partition's time, -1 when unknown.
	Time window.Instant
}

// New opens the task: its operators, and its processors' Init.
func New(cfg Config) (*Task, error) {
	t := &Task{cfg: cfg}
	t.ctx = newContext(t)
	a := &Assembly{ctx: t.ctx, made: map[topology.NodeID]any{}}
	now := cfg.Now()
	for _, spec := range cfg.Program.Inputs {
		q := &queue{spec: spec, next: -1, epoch: -1, time: -1, dryAt: now}
		q.op = a.Op(spec.Node)
		// What user code is called while operators open is guarded by them; this catches the rest, a serde's For say.
		a.Try(q.op, func() error { q.in = spec.Open(a); return nil })
		if restored, ok := cfg.Times[spec.Topic]; ok {
			q.time = restored
			t.ctx.advance(restored)
		}
		t.queues = append(t.queues, q)
	}
	t.closers = a.closers
	if err := errors.Join(a.errs...); err != nil {
		return nil, errors.Join(fmt.Errorf("opening task %v: %w", cfg.ID, err), t.Close())
	}
	return t, nil
}

// ID returns the task's name.
func (t *Task) ID() ID { return t.cfg.ID }

// Add appends records of the task's partition of a source topic, in order of their offsets. The task keeps them until they
// are processed.
func (t *Task) Add(topic string, recs []*kgo.Record) {
	q := t.queue(topic)
	q.recs = append(q.recs, recs...)
}

// Buffered returns how many records of a topic wait to be processed. The runtime pauses fetching by it.
func (t *Task) Buffered(topic string) int { return t.queue(topic).len() }

func (t *Task) queue(topic string) *queue {
	for _, q := range t.queues {
		if q.spec.Topic == topic {
			return q
		}
	}
	panic(fmt.Sprintf("task %v does not read topic %q", t.cfg.ID, topic))
}

// Progress is what a Step came to.
type Progress struct {
	// Processed says that a record was taken; call Step again.
	Processed bool
	// WaitUntil is set when records are at hand but an idle partition is waited for: call Step again then, or when
	// it has records.
	WaitUntil time.Time
}

// Step takes the next record, if one may be taken now, and processes it to the end: what it causes is in the stores and
// the output. An error ends the task: its pending writes are to be dropped.
func (t *Task) Step() (p Progress, err error) {
	defer t.finish(&err)
	q, wait, err := t.choose()
	if err != nil || q == nil {
		return Progress{WaitUntil: wait}, err
	}
	return Progress{Processed: true}, t.process(q)
}

// finish names the task in an error, and makes one of a panic. The user's operators are guarded one by one; a panic that comes
// up to here is a handler's, a store's or our own, and must end the task, not the process.
func (t *Task) finish(err *error) {
	if p := recover(); p != nil {
		*err = panicError(p)
		t.cfg.Log.Error("panic in a task", "task", t.cfg.ID.String(), "panic", p, "stack", string((*err).(*panicked).stack))
	}
	if *err != nil {
		*err = fmt.Errorf("task %v: %w", t.cfg.ID, *err)
	}
}

// choose returns the queue whose head goes first, or nil.
func (t *Task) choose() (*queue, time.Time, error) {
	var first *queue
	var wait time.Time
	var now time.Time
	for _, q := range t.queues {
		if err := q.ready(t.ctx); err != nil {
			return nil, time.Time{}, err
		}
		if !q.decoded {
			if t.cfg.MaxIdle <= 0 || len(t.queues) == 1 {
				continue
			}
			if now.IsZero() {
				now = t.cfg.Now()
			}
			if until := q.dryAt.Add(t.cfg.MaxIdle); now.Before(until) && until.After(wait) {
				wait = until
			}
			continue
		}
		if first == nil || q.headTime < first.headTime {
			first = q
		}
	}
	if first == nil {
		return nil, time.Time{}, nil
	}
	if !wait.IsZero() {
		return nil, wait, nil
	}
	return first, time.Time{}, nil
}

func (t *Task) process(q *queue) error {
	c := t.ctx
	c.begin(q.head(), q.headTime)
	q.time = max(q.time, q.headTime)
	c.advance(q.headTime)
	if err := q.in.Deliver(); err != nil {
		return err
	}
	c.end()
	t.processed++
	q.pop(t.cfg.Now)
	return c.punctuateStream()
}

// Punctuate runs the wall-clock punctuators that are due. The runtime calls it when NextPunctuation says so, between
// steps.
func (t *Task) Punctuate() (err error) {
	defer t.finish(&err)
	return t.ctx.punctuateWall(t.cfg.Now())
}

// NextPunctuation returns when the next wall-clock punctuator is due; false when there is none.
func (t *Task) NextPunctuation() (time.Time, bool) { return t.ctx.nextWall() }

// Positions returns how far the task has come, one element per source topic.
func (t *Task) Positions() []Position {
	out := make([]Position, len(t.queues))
	for i, q := range t.queues {
		out[i] = Position{Topic: q.spec.Topic, Next: q.next, Epoch: q.epoch, Time: q.time}
	}
	return out
}

// StreamTime returns the task's stream time, -1 when it has none yet.
func (t *Task) StreamTime() window.Instant { return t.ctx.streamTime }

// Time returns the event time of the record or punctuation in hand: what the changes of stores are caused by.
func (t *Task) Time() window.Instant { return t.ctx.now }

// Processed returns how many records the task has taken, dropped ones included.
func (t *Task) Processed() int64 { return t.processed }

// Drops returns what the task's operators dropped, those with a count above zero. It may be called from any goroutine.
func (t *Task) Drops() []Drop { return t.ctx.drops() }

// ProductionFailed deals with a message that the broker refused for good: it asks the production handler. Nil means to
// go on. The message must carry what Send was given. It is called on the task's goroutine.
func (t *Task) ProductionFailed(m *Message, cause error) (err error) {
	defer t.finish(&err)
	op := t.ctx.opByLabel(m.Operator)
	f := Failure{Stage: Production, Operator: m.Operator, Task: t.cfg.ID.String(), Topic: m.Topic, Partition: m.Partition,
		Offset: -1, Time: m.Time.Time(), Key: m.Key, Value: m.Value, Headers: m.Headers, Err: t.ctx.refusal(m, cause)}
	return t.ctx.settle(op, f)
}

// Close closes the task's processors. It leaves stores and output alone.
func (t *Task) Close() error {
	var errs []error
	for i := len(t.closers) - 1; i >= 0; i-- {
		errs = append(errs, catch(t.closers[i]))
	}
	t.closers = nil
	for _, op := range t.ctx.ops {
		op.logLate()
	}
	return errors.Join(errs...)
}

// noTime is below every event time, as the stream time of a task that has seen none.
const noTime window.Instant = -1

// maxTime is the highest event time; window arithmetic keeps the one above it for exclusive ends.
const maxTime window.Instant = math.MaxInt64 - 1
