package host

import (
	"context"

	"github.com/millrace/millrace/sdk/connector"
)

// Source is a source's task. Read and Ack may be called at the same time, but
// neither twice at a time.
type Source struct {
	*task
}

// OpenSource checks the settings and begins a source's task. It returns
// without waiting for the process. The task must be closed.
func (h *Host) OpenSource(cfg TaskConfig) (*Source, error) { panic("soon") }

// Read returns the next records, waiting for them. The batch belongs to the
// caller. Once Read has returned a record, the task never returns it again.
//
// The error is io.EOF when the source has come to its end for good, the cause
// if the task failed, ErrClosed after Close, or ctx.Err(). When ctx ends,
// nothing is lost: the next Read returns what this one would have.
func (s *Source) Read(ctx context.Context) (*connector.Batch, error) { panic("soon") }

// Ack tells the source which positions are stored: for each source partition
// of positions, that record and all before it. It does nothing if the source
// does not care or is not running at the moment: a later Ack, or resuming,
// says the same.
func (s *Source) Ack(ctx context.Context, positions map[string]string) error { panic("soon") }

// WantsAcks reports whether the source cares for Ack. It is false until the
// source has been opened.
func (s *Source) WantsAcks() bool { panic("soon") }

// Close ends the task and its process, and waits for that: it interrupts Read,
// has the connector close, and kills the process if that takes longer than
// StopTimeout or ctx allows. It works in every state, also while the process
// starts. The error is what the connector said; the task is closed in any
// case.
func (s *Source) Close(ctx context.Context) error { panic("soon") }
