package connect

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/connect/host"
)

// reportProcess returns a function for the host to call with each new state of
// the task's process, and one that ends the reports.
//
// The host must not be held up by the writing of a status, so a goroutine of
// its own does that. It may pass over states that lasted too short a time to
// be written; the last one is always reported.
func (t *task) reportProcess(ctx context.Context) (onStatus func(host.Status), stop func()) {
	latest := make(chan host.Status, 1)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-latest:
				t.reportState(ctx, s)
			case <-quit:
				return
			}
		}
	}()
	onStatus = func(s host.Status) { // never runs twice at a time
		select {
		case <-latest: // replaced before it was written
		default:
		}
		latest <- s
	}
	return onStatus, func() {
		close(quit)
		<-done
	}
}

// reportState translates a process's state. What becomes of a task that has
// failed or stopped is reported by the task itself, which knows more about why.
func (t *task) reportState(ctx context.Context, s host.Status) {
	switch s.State {
	case host.Running:
		if s.Err != nil {
			t.log.Warn("the connector is trying again", "err", s.Err)
		}
		t.report(ctx, t.activeState(), s.Err)
	case host.BackingOff:
		t.log.Warn("the connector's process is being restarted", "err", s.Err, "restarts", s.Restarts)
		t.report(ctx, Failed, fmt.Errorf("%w (%w)", s.Err, errRetrying))
	}
}
