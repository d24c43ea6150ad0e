package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/millrace/millrace/sdk/connector"
	"github.com/millrace/millrace/sdk/connector/protocol"
)

// Sink is a sink's task. Its methods but Status and Close are called by one
// goroutine at a time.
type Sink struct {
	*task
	flushes  atomic.Bool
	accepted *session // the one that has accepted records that are not flushed
}

// OpenSink checks the settings and begins a sink's task. It returns without
// waiting for the process. The task must be closed.
func (h *Host) OpenSink(cfg TaskConfig) (*Sink, error) {
	t, err := h.open(cfg, KindSink)
	if err != nil {
		return nil, fmt.Errorf("opening sink %q: %w", cfg.Connector, err)
	}
	t.begin()
	return &Sink{task: t}, nil
}

// Write writes a batch, cutting it if it is large, and waits as long as that
// takes, restarts of the process and retries included. The batch remains the
// caller's, which must not change it meanwhile.
//
// nil means that all records are written: durable, or only accepted if
// NeedsFlush. connector.RecordErrors names the bad ones by their index, and
// all others are written. ErrRewind asks for going back. Otherwise the error
// is the cause if the task failed, ErrClosed after Close, or ctx.Err(); then
// the records count as not written.
func (s *Sink) Write(ctx context.Context, batch *connector.Batch) error {
	bad := make(connector.RecordErrors)
	for begin := 0; begin < batch.Len(); {
		var end int
		err := s.call(ctx, "writing", func(ctx context.Context, session *session) (*protocol.Outcome, error) {
			frame, next, err := session.encoder.Encode(batch, begin, s.host.cfg.BatchBytes)
			if err != nil {
				return &protocol.Outcome{Code: protocol.Outcome_FAILED, Message: err.Error()}, nil
			}
			end = next
			res, err := session.process.client.Write(ctx, &protocol.WriteRequest{Batch: frame})
			if err == nil && session.flushes {
				s.accepted = session
			}
			return res.GetOutcome(), err
		})
		if part, ok := errors.AsType[connector.RecordErrors](err); ok {
			for i, cause := range part {
				bad[begin+i] = cause
			}
		} else if err != nil {
			return err
		}
		begin = end
	}
	if len(bad) > 0 {
		return bad
	}
	return nil
}

// Flush makes durable what was accepted, and waits as Write does. If the sink
// does not need it, it does nothing.
func (s *Sink) Flush(ctx context.Context) error {
	if s.accepted == nil {
		return nil
	}
	err := s.call(ctx, "flushing", func(ctx context.Context, session *session) (*protocol.Outcome, error) {
		res, err := session.process.client.Flush(ctx, &protocol.FlushRequest{})
		return res.GetOutcome(), err
	})
	if err == nil {
		s.accepted = nil
	}
	return err
}

// NeedsFlush reports whether only Flush makes records durable. It is false
// until the first Write has returned.
func (s *Sink) NeedsFlush() bool { return s.flushes.Load() }

// call makes one call to the connector until it has an answer that is not a
// retry, from whichever process.
func (s *Sink) call(ctx context.Context, doing string, do func(context.Context, *session) (*protocol.Outcome, error)) error {
	var pause retryPause
	for {
		session, err := s.super.session(ctx)
		if err != nil {
			return err
		}
		if session.isSpent {
			s.super.lost(session, errors.New("a call was cancelled, so its process is replaced"))
			continue
		}
		s.flushes.Store(session.flushes)
		if s.accepted != nil && s.accepted != session {
			s.accepted = nil
			return ErrRewind
		}
		outcome, err := s.callOnce(ctx, session, do)
		if err != nil {
			if ctx.Err() != nil {
				session.isSpent = true
				return ctx.Err()
			}
			s.super.lost(session, session.process.transportError(doing, err))
			continue
		}
		err = errorOf(s.hide.hideIn(outcome))
		retry, isRetry := errors.AsType[*connector.RetryError](err)
		_, isRecords := errors.AsType[connector.RecordErrors](err)
		switch {
		case err == nil, isRecords:
			s.super.step(event{kind: passed, generation: session.generation}, nil)
			return err
		case isRetry:
			s.super.step(event{kind: retrying, generation: session.generation, err: retry.Cause}, nil)
			if err := pause.wait(ctx, retry.After); err != nil {
				return err
			}
		case ctx.Err() != nil:
			session.isSpent = true
			return ctx.Err()
		case session.ctx.Err() != nil: // closed meanwhile
		default:
			s.super.step(event{kind: failed, err: err}, nil)
			return err
		}
	}
}

// callOnce makes the call with a context that also ends with the session.
func (s *Sink) callOnce(ctx context.Context, session *session, do func(context.Context, *session) (*protocol.Outcome, error)) (*protocol.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(session.ctx, cancel)
	defer stop()
	return do(ctx, session)
}
