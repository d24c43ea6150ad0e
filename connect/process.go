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
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range latest {
			t.reportState(ctx, s)
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
		close(latest)
		<-done
	}
}

// reportState translates a process's state. Failed and Stopped are reported by
// the task itself, which knows more about why.
func (t *task) reportState(ctx context.Context, s host.Status) {
	switch s.State {
	case host.Running:
		t.report(ctx, t.activeState(), nil)
	case host.BackingOff:
		t.log.Warn("the connector's process is being restarted", "err", s.Err, "restarts", s.Restarts)
		t.report(ctx, Failed, fmt.Errorf("%w (%w)", s.Err, errRetrying))
	}
}
