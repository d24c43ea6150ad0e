package task

import (
	"math"
	"time"

	"github.com/millrace/millrace/streams/window"
)

// lateIntervalMin is the time between two lines about late records of one operator. A job that reads old data can drop
// most of it, and its log must show that without drowning in it.
const lateIntervalMin = 10 * time.Second

// lateLog is what one operator has dropped as late since its last line in the log.
type lateLog struct {
	count    int64
	worst    window.Instant // the grace, in milliseconds, that would have kept them all
	grace    time.Duration
	loggedAt time.Time
}

// DropLate counts a record that came after its window was closed, and logs a warning now and then: results are missing it,
// and the job's author can do something about it. End is the window's end, grace what it waited beyond.
func (o *Op) DropLate(end window.Instant, grace time.Duration) {
	o.Drop(Late)
	l := &o.late
	l.count++
	l.grace = grace
	l.worst = max(l.worst, o.ctx.streamTime-end+1)
	now := o.ctx.task.cfg.Now()
	if l.loggedAt.IsZero() || now.Sub(l.loggedAt) >= lateIntervalMin {
		l.loggedAt = now
		o.logLate()
	}
}

// logLate logs what was dropped since the last line, if anything.
func (o *Op) logLate() {
	l := &o.late
	if l.count == 0 {
		return
	}
	o.ctx.task.cfg.Log.Warn("dropped records that came after their windows had closed: a larger grace takes them, LateTo keeps them",
		"task", o.ctx.task.cfg.ID.String(), "operator", o.label, "records", l.count, "records_total", o.dropped[Late].Load(),
		"grace", l.grace, "grace_needed", time.Duration(min(l.worst, math.MaxInt64/1_000_000))*time.Millisecond)
	l.count, l.worst = 0, 0
}
