package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/millrace/millrace/sdk/connector"
	"github.com/millrace/millrace/sdk/connector/protocol"
)

// Source is a source's task. Read and Ack may be called at the same time, but
// neither twice at a time.
type Source struct {
	*task
	ended atomic.Bool
}

// OpenSource checks the settings and begins a source's task. It returns
// without waiting for the process. The task must be closed.
func (h *Host) OpenSource(cfg TaskConfig) (*Source, error) {
	t, err := h.open(cfg, KindSource)
	if err != nil {
		return nil, fmt.Errorf("opening source %q: %w", cfg.Connector, err)
	}
	t.begin()
	return &Source{task: t}, nil
}

// Read returns the next records, waiting for them. The batch belongs to the
// caller. Once Read has returned a record, the task never returns it again.
//
// The error is io.EOF when the source has come to its end for good, the cause
// if the task failed, ErrClosed after Close, or ctx.Err(). When ctx ends,
// nothing is lost: the next Read returns what this one would have.
func (s *Source) Read(ctx context.Context) (*connector.Batch, error) {
	for {
		if s.ended.Load() {
			return nil, io.EOF
		}
		session, err := s.super.session(ctx)
		if err != nil {
			return nil, err
		}
		select {
		case r := <-session.results:
			if !s.takeOver(session, r.batch) {
				continue
			}
			if r.err == io.EOF {
				s.ended.Store(true)
			}
			return r.batch, r.err
		case <-session.ctx.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// takeOver notes the records of batch, which may be nil, as taken over. It
// returns false if the session was replaced already: its successor reads them
// again.
func (s *Source) takeOver(session *session, batch *connector.Batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session.generation != s.reading {
		return false
	}
	if batch == nil {
		return true
	}
	for _, r := range batch.Rows() {
		s.taken[r.Origin.Partition] = r.Origin.Position
	}
	s.super.step(event{kind: passed, generation: session.generation}, nil)
	return true
}

// pump reads ahead by one batch, so that the source works while the worker
// does. It ends with the session.
func (t *task) pump(s *session) {
	decoder := connector.NewDecoder()
	var pause retryPause
	for s.ctx.Err() == nil {
		res, err := s.process.client.Read(s.ctx, &protocol.ReadRequest{})
		if err != nil {
			if s.ctx.Err() == nil {
				t.super.lost(s, s.process.transportError("reading", err))
			}
			return
		}
		if p := res.GetProgress(); p != nil {
			t.super.setProgress(connector.Progress{Done: p.GetDone(), Total: p.GetTotal(), Unit: p.GetUnit()})
		}
		if len(res.GetBatch()) > 0 {
			batch := new(connector.Batch)
			if err := decodeRead(decoder, res.GetBatch(), batch); err != nil {
				t.super.step(event{kind: failed, err: fmt.Errorf("the plugin broke the protocol: %w", err)}, nil)
				return
			}
			pause = retryPause{}
			if !s.deliver(readResult{batch: batch}) {
				return
			}
		}
		err = errorOf(t.hide.hideIn(res.GetOutcome()))
		switch retry, isRetry := errors.AsType[*connector.RetryError](err); {
		case err == nil:
		case isRetry:
			t.super.step(event{kind: retrying, generation: s.generation, err: retry.Cause}, nil)
			if pause.wait(s.ctx, retry.After) != nil {
				return
			}
		case err == io.EOF:
			s.deliver(readResult{err: io.EOF})
			return
		case s.ctx.Err() == nil:
			t.super.step(event{kind: failed, err: err}, nil)
			return
		}
	}
}

// decodeRead decodes records of a source. Serve has checked their positions;
// plugins in other languages may not have.
func decodeRead(decoder *connector.Decoder, frame []byte, into *connector.Batch) error {
	if err := decoder.Decode(frame, into); err != nil {
		return err
	}
	for i, r := range into.Rows() {
		if r.Origin.Position == "" {
			return fmt.Errorf("record %d of a batch has no position, so the task could not resume behind it", i)
		}
	}
	return nil
}

// deliver hands a result to Read; false means that the session ended first.
func (s *session) deliver(r readResult) bool {
	select {
	case s.results <- r:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// Ack tells the source which positions are stored: for each source partition
// of positions, that record and all before it. It does nothing if the source
// is no Acker or is not running at the moment: a later Ack, or resuming,
// says the same.
func (s *Source) Ack(ctx context.Context, positions map[string]string) error {
	session := s.super.running()
	if session == nil || !session.acks || len(positions) == 0 {
		return nil
	}
	res, err := session.process.client.Ack(ctx, &protocol.AckRequest{Positions: positions})
	if err != nil {
		return ctx.Err() // a broken connection is noticed by Read
	}
	err = errorOf(s.hide.hideIn(res.GetOutcome()))
	if retry, isRetry := errors.AsType[*connector.RetryError](err); isRetry {
		s.super.step(event{kind: retrying, generation: session.generation, err: retry.Cause}, nil)
		return nil
	}
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("acknowledging: %w", err)
		s.super.step(event{kind: failed, err: err}, nil)
	}
	return err
}

// WantsAcks reports whether the source cares for Ack. It is false while the
// source is not open.
func (s *Source) WantsAcks() bool {
	session := s.super.running()
	return session != nil && session.acks
}
