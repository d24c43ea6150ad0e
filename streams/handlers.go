package streams

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/task"
)

// Handlers decide what happens to a record that fails. A nil handler fails the job with the error, which names operator,
// topic, partition and offset; nothing is committed beyond the last record before, so that the job continues there
// when it is started again.
//
//	cfg.Handlers = streams.Handlers{
//		Deserialization: streams.Always(streams.DeadLetter("views.dead")),
//		Processing: func(f streams.Failure) streams.Outcome {
//			if errors.Is(f.Err, errTooOld) {
//				return streams.Skip()
//			}
//			return streams.Fail()
//		},
//	}
//
// Handlers are called by the task's goroutine, several at once when a process runs several tasks.
type Handlers struct {
	// Deserialization gets records whose key or value a serde cannot decode, and those without a valid event time
	// (unless InvalidTimes says otherwise).
	Deserialization Handler
	// Processing gets records for which a Try operator or a Processor returned an error, or any function of the job
	// panicked. The record is dropped at that operator only: what other branches do with it goes on.
	Processing Handler
	// Production gets records that a serde cannot encode for a topic, or that the broker refuses for good (too large,
	// say). Failures that go away are retried by the client and do not come here.
	Production Handler
}

// Handler decides about a failure.
type Handler func(f Failure) Outcome

// Always returns a handler with the same outcome for every failure.
func Always(o Outcome) Handler { return func(Failure) Outcome { return o } }

// Outcome is what happens to a record that failed: [Fail], [Skip] or [DeadLetter]. The zero value is Fail.
type Outcome struct{ outcome task.Outcome }

// Fail ends the job with the error.
func Fail() Outcome { return Outcome{task.Outcome{Action: task.Fail}} }

// Skip drops the record. It is logged, at most one line a second for each operator, and counted: the numbers are in the Drops
// of [App.Status], and in a test in the driver's Dropped.
func Skip() Outcome { return Outcome{task.Outcome{Action: task.Skip}} }

// DeadLetter drops the record, as Skip does, and writes it to a topic, which must exist: key, value and headers as they were
// read (for production failures: as they were to be written), and more headers with the cause. A failure in a timer has no
// record, so it is only logged and counted, as skipped. A dead letter that cannot be written goes to the Production handler,
// and fails the job if there is none. The headers are named as Kafka
// Streams names them: __streams.errors.exception, .message, .stacktrace (of panics), .topic, .partition, .offset; and
// .stage and .operator. In a job of several parts, what was read may be the record of an internal topic.
func DeadLetter(topic string) Outcome {
	return Outcome{task.Outcome{Action: task.DeadLetter, Topic: topic}}
}

// Stage is where a failure happened.
type Stage int8

// The stages. They are numbered as in package task.
const (
	Deserialization Stage = iota
	Processing
	Production
)

// String returns the stage in lower case.
func (s Stage) String() string { return task.Stage(s).String() }

// Failure is one record that failed. Its slices are valid until the handler returns.
type Failure struct {
	Stage Stage
	// Operator is the operator's name in the topology's drawing: "try-map parse".
	Operator string
	// Task is the task's name, "<sub-topology>_<partition>".
	Task string
	// Topic, Partition and Offset say where the record was read. Of a production failure that the broker reported, topic
	// and partition are where it was to be written, and the offset is -1. In a timer there is no record: the topic is
	// empty.
	Topic     string
	Partition int32
	Offset    int64
	// Time, Key, Value and Headers are the record's, as it was read.
	Time    time.Time
	Key     []byte
	Value   []byte
	Headers []kgo.RecordHeader
	// Err is the cause.
	Err error
	// Stack is the goroutine's stack when the cause is a panic, and nil otherwise.
	Stack []byte
}

// ForTasks returns the handlers as tasks call them, for the drivers of this module.
func (h Handlers) ForTasks() task.Handlers {
	return task.Handlers{Deserialization: h.Deserialization.forTasks(), Processing: h.Processing.forTasks(), Production: h.Production.forTasks()}
}

func (h Handler) forTasks() task.Handler {
	if h == nil {
		return nil
	}
	return func(f task.Failure) task.Outcome {
		return h(Failure{Stage: Stage(f.Stage), Operator: f.Operator, Task: f.Task, Topic: f.Topic, Partition: f.Partition, Offset: f.Offset,
			Time: f.Time, Key: f.Key, Value: f.Value, Headers: f.Headers, Err: f.Err, Stack: f.Stack}).outcome
	}
}
