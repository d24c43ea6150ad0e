package worker

import (
	"slices"
	"time"

	"github.com/millrace/millrace/streams/internal/assign"
	"github.com/millrace/millrace/streams/internal/task"
)

// Phase is what a runtime is at.
type Phase int8

// The phases, in order; Failed and Stopped are both ends.
const (
	Created Phase = iota
	Starting
	Running
	Stopped
	Failed
)

// String returns the phase in lower case.
func (p Phase) String() string {
	return [...]string{"created", "starting", "running", "stopped", "failed"}[p]
}

// Totals count what a runtime did since it started.
type Totals struct {
	Processed    int64 // records, dropped ones included
	Commits      int64
	CommitErrors int64 // commits that were refused or failed, and are made up for later
	Restored     int64 // changelog records
	Restores     int64 // stores restored from the start of their changelogs
	Rebalances   int64 // assignments received
}

// TaskStatus is one task of this process.
type TaskStatus struct {
	ID      task.ID
	Thread  int
	Running bool // false while it is restored
	// RestoreDone of RestoreTotal changelog records are in, about: compaction leaves gaps.
	RestoreDone, RestoreTotal int64
	Inputs                    []InputStatus
	Processed                 int64
	Drops                     []task.Drop
	// ExpiredWrites are writes that stores dropped because their window or session had expired.
	ExpiredWrites    int64
	UncommittedBytes int64
	Committed        time.Time // zero before the first commit
}

// InputStatus is how far a task is in one input partition. Offsets are -1 while unknown.
type InputStatus struct {
	Topic     string
	Partition int32
	Next      int64 // first offset not processed
	Committed int64 // offset the group would continue from
	End       int64 // high watermark, as of the last fetch
	Time      int64 // stream time of the partition in milliseconds, -1 before the first record
}

// Lag is how many offsets are between what is processed and the end, -1 while unknown.
func (i InputStatus) Lag() int64 {
	at := max(i.Next, i.Committed)
	if at < 0 || i.End < 0 {
		return -1
	}
	return max(i.End-at, 0)
}

// Status is a runtime at one moment.
type Status struct {
	Phase  Phase
	Totals Totals
	Tasks  []TaskStatus
	// StateBytes is the memory of all stores, of which StateInMemoryBytes are stores that are in memory only.
	StateBytes, StateInMemoryBytes int64
}

// Status returns how the runtime is doing; any goroutine may call it. Tasks are as of their thread's last look, which is
// made several times a second.
func (rt *Runtime) Status() Status {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	s := Status{Phase: rt.phase, Totals: rt.totals}
	for _, r := range rt.reports {
		s.Tasks = append(s.Tasks, r)
	}
	slices.SortFunc(s.Tasks, func(a, b TaskStatus) int { return assign.Task(a.ID).Compare(assign.Task(b.ID)) })
	if rt.memory != nil {
		s.StateBytes, s.StateInMemoryBytes = rt.memory.Used()
	}
	return s
}

func (rt *Runtime) setPhase(p Phase) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.phase = p
}

func (rt *Runtime) count(add func(*Totals)) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	add(&rt.totals)
}

// reportInterval is how often a thread publishes its tasks' status.
const reportInterval = 100 * time.Millisecond

// report publishes the status of the thread's tasks, not more often than it makes sense unless now is set.
func (t *thread) report(now bool) {
	at := t.rt.cfg.Now()
	if !now && at.Sub(t.reported) < reportInterval {
		return
	}
	t.reported = at
	var processed int64
	for _, r := range t.tasks {
		processed += r.newlyProcessed()
	}
	t.rt.mu.Lock()
	defer t.rt.mu.Unlock()
	t.rt.totals.Processed += processed
	for _, r := range t.tasks {
		t.rt.reports[r.id] = r.status(t.index)
	}
}
