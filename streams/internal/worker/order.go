package worker

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/window"
)

// Order in time between tasks. The tasks of one sub-topology write to the same topics. If one ran ahead of the others, as
// all do that catch up on a backlog, whoever reads these topics would see time jump forth and back, and would drop most of
// a perfectly ordered input as late. So a thread takes the records of a sub-topology's tasks in order of their event
// times, and waits for input that it lacks and the broker has, as KIP-695 has it for the inputs of a single task.
//
// Order holds for one thread. What other threads and processes do meanwhile it does not know.

const (
	// behindWaitMax bounds the wait for records that are known to be on the broker. A partition that cannot be read for
	// longer holds up the others no more.
	behindWaitMax = 30 * time.Second
	// unknownWaitMax bounds the wait for a partition of which it is not known whether it has records.
	unknownWaitMax = time.Second
	// restoringWaitMax bounds the wait for a task that is restored: those that start together begin together, but a long
	// restore does not stand in the way.
	restoringWaitMax = 2 * time.Second
)

// lane is the tasks of one sub-topology in a thread, in order of their partitions.
type lane []*taskRun

// lanes groups the thread's tasks.
func (t *thread) lanes() []lane {
	var out []lane
	for _, r := range t.sorted() {
		if last := len(out) - 1; last >= 0 && out[last][0].id.Sub == r.id.Sub {
			out[last] = append(out[last], r)
		} else {
			out = append(out, lane{r})
		}
	}
	return out
}

// process gives each sub-topology its turns, and tells whether none has anything to do.
func (t *thread) process(ctx context.Context) (idle bool, err error) {
	if t.fenced {
		return true, nil
	}
	began := t.rt.cfg.Now()
	lanes := t.lanes()
	for {
		worked := false
		t.heldUntil = time.Time{}
		for _, l := range lanes {
			if r, err := t.turn(l); err != nil {
				return false, t.taskFailed(ctx, r, err)
			}
			for _, r := range l {
				did, err := r.tend(t)
				if err != nil {
					return false, t.taskFailed(ctx, r, err)
				}
				worked = worked || did
			}
		}
		if !worked || ctx.Err() != nil {
			return true, nil
		}
		if len(t.events) > 0 || t.uncommitted() > t.uncommittedMax() || t.rt.cfg.Now().Sub(began) > turnMax {
			return false, nil
		}
	}
}

// turn processes some records of a lane, in order of time. An error is that of the task it comes with.
func (t *thread) turn(l lane) (*taskRun, error) {
	for steps := 0; steps < stepsMax; {
		first, second, failed, err := l.heads()
		if err != nil {
			return failed, err
		}
		held := first != nil && t.hold(l)
		limit := second
		if first != nil && !held {
			limit, held = t.upTo(l, first)
			limit = min(limit, second)
		}
		for _, r := range l {
			r.held = held
		}
		if first == nil || held {
			return nil, nil
		}
		for first.head.Ready && len(first.lacking) == 0 && first.head.Time <= limit && steps < stepsMax {
			if _, err := first.task.Step(); err != nil {
				return first, err
			}
			first.looked = false
			if err := first.look(); err != nil {
				return first, err
			}
			steps++
		}
	}
	return nil, nil
}

// heads returns the task whose next record is the earliest, nil if there is none, and the time of the next record of the
// others.
func (l lane) heads() (first *taskRun, second window.Instant, failed *taskRun, err error) {
	second = window.Instant(1<<63 - 1)
	for _, r := range l {
		if r.task == nil {
			continue
		}
		if err := r.look(); err != nil {
			return nil, 0, r, err
		}
		switch {
		case !r.head.Ready:
		case first == nil:
			first = r
		case r.head.Time < first.head.Time:
			first, second = r, first.head.Time
		default:
			second = min(second, r.head.Time)
		}
	}
	return first, second, nil, nil
}

// look finds out what the task would take next, and which of its inputs it lacks.
func (r *taskRun) look() (err error) {
	if r.looked && r.head.Ready {
		return nil
	}
	if r.head, err = r.task.Head(); err != nil {
		return err
	}
	r.looked = true
	r.lacking = r.lacking[:0]
	for _, in := range r.inputs {
		if in.lacking(r.task) {
			r.lacking = append(r.lacking, in)
		}
	}
	return nil
}

// lacking tells whether the input has run dry although the broker has, or may have, more of it.
func (in *input) lacking(t *task.Task) bool {
	return !in.passed && (in.end < 0 || in.next < in.end) && t.Buffered(in.topic) == 0
}

// hold tells whether the lane must wait for what it lacks. What was waited for long enough is passed by until there is
// something of it.
func (t *thread) hold(l lane) (held bool) {
	for _, r := range l {
		if r.task != nil && len(r.lacking) == 0 {
			continue
		}
		now := t.rt.cfg.Now()
		wait := func(until time.Time) bool {
			if !now.Before(until) {
				return false
			}
			held, t.heldUntil = true, earlier(until, t.heldUntil)
			return true
		}
		if r.task == nil {
			wait(r.began.Add(restoringWaitMax))
			continue
		}
		r.lacking = slices.DeleteFunc(r.lacking, func(in *input) bool {
			if in.lackingSince.IsZero() {
				in.lackingSince = now
			}
			bound := behindWaitMax
			if in.end < 0 {
				bound = unknownWaitMax
			}
			in.passed = !wait(in.lackingSince.Add(bound))
			if in.passed && in.end >= 0 {
				t.log.Warn("an input partition has records, but none arrive; going on without it, so that its records may come late",
					"topic", in.topic, "partition", r.id.Partition, "from", in.next, "to", in.end, "waited", bound)
			}
			return in.passed
		})
	}
	return held
}

// tend runs the punctuators of a task that are due and adjusts what is fetched. It reports whether
// there was something to do since the last call.
func (r *taskRun) tend(t *thread) (worked bool, err error) {
	if r.task == nil {
		return false, nil
	}
	if due, ok := r.task.NextPunctuation(); ok && !t.rt.cfg.Now().Before(due) {
		if err := r.task.Punctuate(); err != nil {
			return false, err
		}
		t.committing = true
	}
	r.throttle(t)
	worked = r.task.Processed() > r.tended
	r.tended = r.task.Processed()
	t.committing = t.committing || worked
	return worked, nil
}
