package connector

import "context"

// Plugin is all that a connector's executable offers: a name, the settings it
// understands, and how to make its sources and sinks. Pass it to [Serve].
type Plugin struct {
	// Name is what users write to choose the connector: lower-case letters,
	// digits and dashes, such as "file". An executable that is to be found by
	// its name is called millrace-plugin-<Name>.
	Name string

	// Version is shown to users, such as "1.2.0".
	Version string

	// Spec describes the connector and its settings.
	Spec Spec

	// NewSource makes a source that has not been opened. It is nil in a
	// plugin that only has a sink. It must not do any work: the source may be
	// made only to validate or to split, and then dropped.
	NewSource func() Source

	// NewSink makes a sink that has not been opened. It is nil in a plugin
	// that only has a source. It must not do any work either.
	NewSink func() Sink
}

// Spec is what a connector publishes about itself, as data: the host checks a
// configuration against it before anything starts, and prints the reference
// documentation and the command line's help from it.
type Spec struct {
	// Doc says in a sentence or two what the connector does.
	Doc string `json:"doc"`
	// Source lists the settings of the source. A plugin without a source
	// leaves it empty.
	Source []Field `json:"source,omitempty"`
	// Sink lists the settings of the sink. A plugin without a sink leaves it
	// empty.
	Sink []Field `json:"sink,omitempty"`
}

// Source reads records from somewhere, for topics.
//
// The host makes one Source for each task and calls it in this order:
//
//	Open  once
//	Read  again and again, until it returns io.EOF or an error, or is cancelled
//	Close once, if Open returned nil
//
// No two of these calls ever run at the same time, so a source needs no locks
// for its own fields. (Ack of an [Acker] is the exception; it says so.)
type Source interface {
	// Open prepares the task: it decodes the settings, connects, and goes to
	// where task.Resume says. It is called once, before the first Read.
	//
	// ctx ends when the task is stopped while it opens: give up then and
	// return ctx.Err(). After Open has returned ctx means nothing; do not
	// keep it. If Open returns an error, it must have released what it took,
	// as Close is not called. An error for which a setting is to blame should
	// be a [Problem]. After [Retry] the task is opened anew, in another
	// process, after a pause; any other error fails the task.
	Open(ctx context.Context, task Task) error

	// Read appends records to out and returns. It is called again and again,
	// never twice at a time. It blocks until there is at least one record, and
	// returns as soon as there is nothing more to be had without waiting or
	// out.Full reports true. Returning nil with nothing appended is allowed,
	// and the host then calls again without delay.
	//
	// out is empty at the call. What is appended, slices included, must
	// remain as it is until the next call of Read or Close; after that the
	// source may use its buffers again. Each record needs its own: a buffer
	// that is filled anew for the next record of the batch changes this one.
	//
	// Each record must have an Origin with a position.
	//
	// Errors: io.EOF itself, not wrapped, ends the task for good, and
	// successfully; records appended by the same call still count. [Retry] has
	// Read called again after a pause; records appended still count. Any other
	// error fails the task, and records appended by that call are dropped.
	//
	// ctx ends when the task is to stop. Return soon then (the host kills the
	// process after some seconds), with ctx.Err(), or with nil if records were
	// appended. Dropped or unsent records do no harm: the task later resumes
	// behind the last record that the host took.
	Read(ctx context.Context, out *Batch) error

	// Close releases what Open and Read took. It is called once, after the
	// last Read returned. ctx ends when the host's patience does; return even
	// if not everything could be tidied up.
	Close(ctx context.Context) error
}

// Sink writes records of topics to somewhere.
//
// The host makes one Sink for each task and calls it in this order:
//
//	Open  once
//	Write again and again, and Flush between Writes if it is a Flusher
//	Close once, if Open returned nil
//
// No two of these calls ever run at the same time, so a sink needs no locks
// for its own fields.
//
// Delivery is at least once: after a crash of the sink or of the host, records
// that were written already may come again, in order and with the same topic,
// partition and offset. A sink that can recognise them should.
type Sink interface {
	// Open prepares the task: it decodes the settings, connects, and repairs
	// what an earlier run may have left half done. It is called once, before
	// the first Write. ctx and errors are as for [Source].
	Open(ctx context.Context, task Task) error

	// Write writes the records of in, in their order. It is never called
	// twice at a time; in is never empty, and belongs to the host again when Write
	// returns: copy what has to be kept.
	//
	// nil means that all the records are durable where they went (unless the
	// sink is a [Flusher]). Only then does the host commit their offsets.
	//
	// Errors: [RecordErrors] names the records that cannot be written because
	// of what they hold, by their index; all the others must have been
	// written then, as with nil. The named ones go to the dead-letter topic
	// or stop the task, as the user chose by the settings errors.tolerance and
	// errors.deadletterqueue.topic.name. [Retry] has the same batch written
	// again after a pause. Any other error fails the task.
	//
	// ctx ends when the task is to stop at once. Return soon then, with
	// ctx.Err(); the batch counts as not written and will come again.
	Write(ctx context.Context, in *Batch) error

	// Close releases what Open and Write took. It is called once, after the
	// last Write returned. It need not flush: the host has called Flush if it
	// wanted to. ctx ends when the host's patience does.
	Close(ctx context.Context) error
}

// Acker is implemented by a [Source] that has to tell its origin what has been
// taken over for good: a replication slot to advance, a queue's message to
// acknowledge.
type Acker interface {
	// Ack reports, for each source partition for which there is news, the
	// position of the newest record such that it and all before it in that
	// source partition have been stored by the broker (or were given up
	// as the user chose, which is final as well).
	//
	// It is called now and then (usually once a commit interval), and may run
	// at the same time as Read, but never at the same time as Open, Close or
	// another Ack. ctx ends when the task stops. An
	// error other than ctx.Err() or a [Retry] fails the task; a lost Ack does
	// no harm beyond delay, as later ones include it.
	Ack(ctx context.Context, positions map[string]string) error
}

// Splitter is implemented by a [Source] or [Sink] whose work can be divided
// among tasks in ways of its own. Without it a source has one task, and a sink
// has as many as the user allows, with topic partitions shared out among them.
type Splitter interface {
	// Split returns the settings for each task: at most max of them, at least
	// one. The host lays each map over the connector's settings; what comes of
	// that must fit the spec, so a setting that only Split gives is in it too.
	// Without anything else to say, a map may be nil. It is called
	// on a value that is made for this and never opened, whenever the
	// connector is started or reconfigured.
	Split(ctx context.Context, settings Settings, max int) ([]map[string]string, error)
}

// Validator is implemented by a [Source] or [Sink] that can check more of a
// configuration than its spec says: that the server answers, that the table
// exists.
type Validator interface {
	// Validate returns nil or what is wrong: a [Problem], or several of them
	// joined by errors.Join. It is called on a value that is made for this
	// and never opened, after the settings have passed the check against the
	// spec. It must change nothing outside. Any other error, a [Retry] as well,
	// is shown to the user as a problem of no single setting.
	//
	// Tasks are opened without it, sometimes much later: what Open relies on,
	// it has to check again.
	Validate(ctx context.Context, settings Settings) error
}

// Flusher is implemented by a [Sink] that is better written to in larger
// pieces than one Write: then nil from Write only means that the records were
// accepted.
type Flusher interface {
	// Flush makes durable all that was accepted by Write since Open, and
	// returns nil when it is. It is called between Writes, never at the same
	// time as one: once a commit interval, and before a clean Close. It may
	// return [Retry]. ctx is as for Write. When the process dies before a
	// Flush, the host delivers all records again that came since the last.
	Flush(ctx context.Context) error
}

// Progresser is implemented by a [Source] that knows how much there is to do,
// so that users see a progress bar.
type Progresser interface {
	// Progress is called after each Read, never at the same time as one. It
	// must be quick.
	Progress() Progress
}

// Progress says how far a source has come.
type Progress struct {
	// Done and Total count units, from the beginning of what there is to read,
	// not from where the task resumed. A Total of 0 means that it is not known.
	// Total may grow, as when a file does.
	Done, Total int64
	// Unit names what is counted: "bytes", "rows". Users see it.
	Unit string
}
