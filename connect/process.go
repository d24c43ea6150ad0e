package connect

import (
	"fmt"

	"github.com/millrace/millrace/connect/host"
)

// reportProcess translates a new state of the task's process into a status; the
// host calls it. What becomes of a task that has failed or stopped is reported
// by the task itself, which knows more about why.
func (t *task) reportProcess(s host.Status) {
	switch s.State {
	case host.Running:
		if s.Err != nil {
			t.log.Warn("the connector is trying again", "err", s.Err)
		}
		t.reportActive(s.Err)
	case host.BackingOff:
		t.log.Warn("the connector's process is being restarted", "err", s.Err, "restarts", s.Restarts)
		t.report(Failed, fmt.Errorf("%w (%w)", s.Err, errRetrying))
	}
}
