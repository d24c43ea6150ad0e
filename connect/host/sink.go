package host

import (
	"context"

	"github.com/millrace/millrace/sdk/connector"
)

// Sink is a sink's task. Its methods but Status and Close are called by one
// goroutine at a time.
type Sink struct {
	*task
}

// OpenSink checks the settings and begins a sink's task. It returns without
// waiting for the process. The task must be closed.
func (h *Host) OpenSink(cfg TaskConfig) (*Sink, error) { panic("soon") }

// Write writes a batch, cutting it if it is large, and waits as long as that
// takes, restarts of the process and retries included. The batch remains the
// caller's, which must not change it meanwhile.
//
// nil means that all records are written: durable, or only accepted if
// NeedsFlush. connector.RecordErrors names the bad ones by their index, and
// all others are written. ErrRewind asks for going back. Otherwise the error
// is the cause if the task failed, ErrClosed after Close, or ctx.Err(); then
// the records count as not written.
func (s *Sink) Write(ctx context.Context, batch *connector.Batch) error { panic("soon") }

// Flush makes durable what was accepted, and waits as Write does. If the sink
// does not need it, it does nothing.
func (s *Sink) Flush(ctx context.Context) error { panic("soon") }

// NeedsFlush reports whether only Flush makes records durable. It is false
// until the first Write has returned.
func (s *Sink) NeedsFlush() bool { panic("soon") }

// Close ends the task and its process as that of [Source] does. It does not
// flush.
func (s *Sink) Close(ctx context.Context) error { panic("soon") }
