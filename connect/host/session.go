package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millrace/millrace/sdk/connector"
	"github.com/millrace/millrace/sdk/connector/protocol"
)

// session is a process in which the connector is open.
type session struct {
	generation  int
	process     *process
	flushes     bool // the sink is a Flusher
	acks        bool // the source is an Acker
	stopTimeout time.Duration

	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	pump   sync.WaitGroup // of a source

	results chan readResult    // of a source
	encoder *connector.Encoder // of a sink
	isSpent bool               // of a sink: a cancelled call left the stream of batches in doubt
}

// readResult is records or an error.
type readResult struct {
	batch *connector.Batch
	err   error
}

func newSession(generation int, p *process, stopTimeout time.Duration) *session {
	ctx, cancel := context.WithCancel(context.Background())
	return &session{
		generation: generation, process: p, stopTimeout: stopTimeout, ctx: ctx, cancel: cancel,
		results: make(chan readResult), encoder: connector.NewEncoder(),
	}
}

// kill ends the process at once.
func (s *session) kill() {
	s.cancel()
	s.process.kill()
	s.pump.Wait()
}

// end has the connector close and the process end, and kills it when ctx or
// the stop timeout ends first.
func (s *session) end(ctx context.Context) error {
	s.cancel() // the pump's Read, if any
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.stopTimeout)
	defer cancel()
	res, err := s.process.client.Close(ctx, &protocol.CloseRequest{})
	outcome := s.process.runner.output.hide.hideIn(res.GetOutcome())
	switch {
	// The plugin knows the deadline too, and may break the call off a moment
	// before our own clock says so.
	case err != nil && (ctx.Err() != nil || status.Code(err) == codes.DeadlineExceeded):
		err = fmt.Errorf("closing the connector: Close did not return within %v, and its process was killed", time.Since(begun).Round(10*time.Millisecond))
		s.process.kill()
	case outcome.GetCode() == protocol.Outcome_CANCELLED:
		err = fmt.Errorf("closing the connector: %s, and its process was killed", outcome.GetMessage())
		s.process.kill()
	case err != nil:
		err = fmt.Errorf("closing the connector: %w", err)
		s.process.kill()
	default:
		if err = errorOf(outcome); err != nil {
			err = fmt.Errorf("closing the connector: %w", err)
		}
		s.process.shutdown()
	}
	s.pump.Wait()
	return err
}

// openRefused is an error of the connector's Open.
type openRefused struct{ cause error }

func (e *openRefused) Error() string { return e.cause.Error() }
func (e *openRefused) Unwrap() error { return e.cause }

// endFailed ends the session of a task that has failed already, whose status
// says why. What goes wrong here as well is for the log only.
func (s *session) endFailed() {
	if err := s.end(context.Background()); err != nil {
		s.process.runner.output.log.Warn("the failed connector did not close well", "cause", err)
	}
}

// errorOf turns an outcome into the error that the connector returned.
func errorOf(o *protocol.Outcome) error {
	switch o.GetCode() {
	case protocol.Outcome_OK:
		return nil
	case protocol.Outcome_END:
		return io.EOF
	case protocol.Outcome_RETRY:
		return connector.Retry(errors.New(o.GetMessage()), time.Duration(o.GetRetryAfterMs())*time.Millisecond)
	case protocol.Outcome_INVALID:
		var errs []error
		for _, p := range o.GetProblems() {
			errs = append(errs, connector.Problem{Setting: p.GetSetting(), Message: p.GetMessage()})
		}
		return errors.Join(errs...)
	case protocol.Outcome_RECORDS:
		bad := make(connector.RecordErrors, len(o.GetRecordErrors()))
		for _, r := range o.GetRecordErrors() {
			bad[int(r.GetIndex())] = errors.New(r.GetMessage())
		}
		return bad
	case protocol.Outcome_CANCELLED:
		return context.Canceled
	}
	return errors.New(o.GetMessage())
}

// hideIn hides secrets in an outcome.
func (r *redactor) hideIn(o *protocol.Outcome) *protocol.Outcome {
	if o == nil {
		return nil
	}
	o.Message = r.text(o.GetMessage())
	for _, p := range o.GetProblems() {
		p.Message = r.text(p.GetMessage())
	}
	for _, e := range o.GetRecordErrors() {
		e.Message = r.text(e.GetMessage())
	}
	return o
}
