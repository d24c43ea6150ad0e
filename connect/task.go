package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/millrace/millrace/connect/config"
)

// task is one share of a connector's work, with what sources and sinks have in
// common: its status, its counters, and what happens when it fails.
type task struct {
	worker    *Worker
	connector string
	number    int
	class     class
	settings  map[string]string // the connector's, with the task's own laid over
	gate      *gate
	log       *slog.Logger

	records  atomic.Int64 // done with, the skipped ones included
	skipped  atomic.Int64
	progress atomic.Pointer[Progress]
	// restart asks for the process to be started anew; it holds one request.
	restart chan struct{}
}

// errRestart ends a run because a user asked for a restart.
var errRestart = errors.New("restart requested")

// loop runs the task until ctx ends. A task that failed or came to its end
// stays so until it is restarted.
func (t *task) loop(ctx context.Context) {
	for {
		t.records.Store(0)
		t.skipped.Store(0)
		t.reportActive(nil)
		err := t.runUntilRestart(ctx)
		switch {
		case ctx.Err() != nil:
			t.report(Unassigned, nil)
			return
		case errors.Is(err, errRestart):
			t.report(Restarting, nil)
			continue
		case err != nil:
			t.log.Error("task failed", "err", err)
			t.report(Failed, err)
		default:
			t.log.Info("task completed: the source has been read to its end")
			t.report(Completed, nil)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.restart:
			t.report(Restarting, nil)
		}
	}
}

func (t *task) runUntilRestart(ctx context.Context) error {
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-t.restart:
			cancel(errRestart)
		case <-ended:
		}
	}()
	err := t.runOnce(run)
	close(ended)
	<-watched // or a request that it takes now would be forgotten
	if errors.Is(context.Cause(run), errRestart) {
		return errRestart
	}
	return err
}

// runOnce opens the plugin and moves records until it ends.
func (t *task) runOnce(ctx context.Context) error {
	if t.class.kind == config.Source {
		return t.runSource(ctx)
	}
	return t.runSink(ctx)
}

// tolerate returns nil if one bad record is to be passed over, and the error
// that fails the task otherwise.
func (t *task) tolerate(err error) error {
	if t.settings[config.Tolerance] != "all" {
		return fmt.Errorf("%w; errors.tolerance=all would go on without it", err)
	}
	t.skipped.Add(1)
	t.log.Warn("bad record", "err", err)
	return nil
}

func (t *task) activeState() State {
	if t.gate.isPaused() {
		return Paused
	}
	return Running
}

func (t *task) report(state State, cause error) {
	t.worker.statuses.set(taskKey(t.connector, t.number), state, cause)
}

// reportActive reports running or paused, whichever it is. cause is that of
// something that is being tried again, if any.
func (t *task) reportActive(cause error) {
	t.worker.statuses.update(taskKey(t.connector, t.number), func(Status) Status { return newStatus(t.activeState(), cause) })
}

// reportGate reports that the gate was opened or shut. A task that has failed
// or completed stays so.
func (t *task) reportGate() {
	t.worker.statuses.update(taskKey(t.connector, t.number), func(s Status) Status {
		if s.State == Running || s.State == Paused {
			s.State = t.activeState()
		}
		return s
	})
}

// requestRestart does not wait; a request that is pending already is enough.
func (t *task) requestRestart() {
	select {
	case t.restart <- struct{}{}:
	default:
	}
}

func (t *task) status() TaskStatus {
	return TaskStatus{
		ID:       t.number,
		Status:   t.worker.statuses.get(taskKey(t.connector, t.number)),
		Records:  max(0, t.records.Load()-t.skipped.Load()),
		Skipped:  t.skipped.Load(),
		Progress: t.progress.Load(),
	}
}
