package connectortest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/sdk/connector"
)

// A connector that asks for a retry again and again gets nowhere: the suite
// then stops, and says why it asked.
const (
	retriesHere    = 10 // with pauses of 200 ms at most
	retriesProcess = 3  // with the host's pauses
)

// retries paces a connector in this process, and counts.
type retries struct{ count int }

// again returns nil when the call is to be made again.
func (r *retries) again(ctx context.Context, retry *connector.RetryError, gotSome bool) error {
	if gotSome {
		r.count = 0
		return nil
	}
	if r.count++; r.count >= retriesHere {
		return fmt.Errorf("it asked for a retry %d times in a row, at last because of: %w", r.count, retry.Cause)
	}
	select {
	case <-time.After(min(max(retry.After, 10*time.Millisecond), 200*time.Millisecond)):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w; it asked for a retry because of: %w", ctx.Err(), retry.Cause)
	}
}

// statusWatch follows the status of a task, to end a call that gets nowhere.
type statusWatch struct {
	log *slog.Logger

	mu     sync.Mutex
	last   host.Status
	count  int                     // of retries in a row
	cancel context.CancelCauseFunc // of the call that is being made, or nil
}

// changed is the task's OnStatus.
func (w *statusWatch) changed(s host.Status) {
	w.log.Debug("the task's status changed", "state", s.State.String(), "cause", s.Err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = s
	switch {
	case s.State == host.Running && s.Err != nil:
		w.count++
	case s.State == host.Running:
		w.count = 0
	}
	w.stopIfStuck()
}

func (w *statusWatch) stopIfStuck() {
	if w.cancel != nil && w.count >= retriesProcess {
		w.cancel(fmt.Errorf("it asked for a retry %d times in a row, at last because of: %w", w.count, w.last.Err))
	}
}

// context returns a context for a call, which ends as well when the connector
// is found to get nowhere.
func (w *statusWatch) context(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel = cancel
	w.stopIfStuck()
	return ctx, func() {
		cancel(nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cancel = nil
	}
}

// explain returns why the context of a call has ended, with what the task says
// of itself.
func (w *statusWatch) explain(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	cause := context.Cause(ctx)
	if cause != ctx.Err() || w.last.Err == nil {
		return cause
	}
	return fmt.Errorf("%w; the task is %s because of: %w", cause, w.last.State, w.last.Err)
}
