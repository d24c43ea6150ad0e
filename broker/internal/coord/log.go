package coord

import "context"

// Record is one record of an internal topic. A nil Value is a tombstone.
type Record struct {
	Key, Value []byte
}

// Log is a partition of an internal topic that this broker leads.
type Log interface {
	// Append writes the records as one batch, so that they are kept or lost
	// together. It returns once they are written, before they are safe, and
	// must not keep the records. An error means that nothing was written.
	//
	// Otherwise done is called exactly once, from any goroutine, possibly
	// before Append returned: with nil when the batch is committed, or with
	// the reason why the wait for that has ended.
	Append(records []Record, done func(error)) error

	// Replay calls each with every record of the log, oldest first, up to
	// where the log ends now, and stops at the first error. It is called
	// once, before the first Append. Key and value belong to each, which may
	// keep them.
	Replay(ctx context.Context, each func(Record) error) error
}
