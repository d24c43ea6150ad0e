package task

import (
	"slices"
	"time"

	"github.com/millrace/millrace/streams/window"
)

// Timer is a punctuator's schedule.
type Timer struct {
	every time.Duration
	wall  bool
	run   func(at time.Time) error
	// due is zero until the first stream time is known.
	due     time.Time
	stopped bool
}

// Stop ends the schedule. It may be called from the punctuator itself.
func (t *Timer) Stop() { t.stopped = true }

// Punctuate schedules run, whose error ends the task, every so often: on the wall clock, or by stream time. The first wall-clock call is one
// interval from now; by stream time, intervals are counted from the time of the first record. Calls missed because time
// jumped are made up for by one call, not one each.
func (c *Context) Punctuate(every time.Duration, wall bool, run func(at time.Time) error) *Timer {
	t := &Timer{every: every, wall: wall, run: run}
	switch {
	case wall:
		t.due = c.task.cfg.Now().Add(every)
	case c.streamTime >= 0:
		t.due = c.streamTime.Time().Add(every)
	}
	c.timers = append(c.timers, t)
	return t
}

func (c *Context) punctuateWall(now time.Time) error {
	return c.fire(now, true)
}

func (c *Context) punctuateStream() error {
	if len(c.timers) == 0 || c.streamTime < 0 {
		return nil
	}
	return c.fire(c.streamTime.Time(), false)
}

// fire runs what is due. A punctuator emits records of the time that it is called for, without headers or input record.
func (c *Context) fire(now time.Time, wall bool) error {
	for _, t := range c.timers { // timers added meanwhile are due later
		if t.stopped || t.wall != wall {
			continue
		}
		if t.due.IsZero() {
			t.due = now.Add(t.every)
			continue
		}
		if now.Before(t.due) {
			continue
		}
		t.due = nextDue(t.due, now, t.every)
		c.rec, c.headers, c.nullKey = nil, nil, false
		c.SetTime(window.At(now))
		if !wall {
			c.now = c.streamTime
		}
		if err := t.run(now); err != nil {
			return err
		}
	}
	c.timers = slices.DeleteFunc(c.timers, func(t *Timer) bool { return t.stopped })
	return nil
}

// nextDue returns the first time after now that is a whole number of intervals after due.
func nextDue(due, now time.Time, every time.Duration) time.Time {
	behind := now.Sub(due) // saturates, and then the interval is counted from now
	next := due.Add(behind - behind%every + every)
	if !next.After(now) {
		return now.Add(every)
	}
	return next
}

func (c *Context) nextWall() (time.Time, bool) {
	var first time.Time
	for _, t := range c.timers {
		if t.wall && !t.stopped && (first.IsZero() || t.due.Before(first)) {
			first = t.due
		}
	}
	return first, !first.IsZero()
}
