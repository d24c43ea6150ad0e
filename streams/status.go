package streams

import (
	"time"

	"github.com/millrace/millrace/streams/internal/worker"
)

// Phase is what an [App] is at.
type Phase int8

// The phases, in order. Failed and Stopped are the ends.
const (
	Created  = Phase(worker.Created)
	Starting = Phase(worker.Starting) // makes internal topics, joins the group
	Running  = Phase(worker.Running)
	Stopped  = Phase(worker.Stopped)
	Failed   = Phase(worker.Failed)
)

// String returns the phase in lower case.
func (p Phase) String() string { return worker.Phase(p).String() }

// Status is an [App] at one moment.
type Status struct {
	Phase Phase
	// The counts are of this process, since it started.
	Processed    int64 // records taken, dropped ones included
	Commits      int64
	CommitErrors int64 // commits that were refused for now, and made up for by the next
	Restored     int64 // changelog records read to restore stores
	FullRestores int64 // stores restored from the start of their changelogs
	Rebalances   int64
	// Tasks are those that this process has, by name.
	Tasks []TaskStatus
	// StateBytes is the memory that stores take; StateInMemoryBytes is the part of stores that are kept in memory only.
	StateBytes, StateInMemoryBytes int64
}

// TaskStatus is one task: a part of the topology, and a partition.
type TaskStatus struct {
	ID     string // "<sub-topology>_<partition>"
	Thread int
	// Running is false while the task's stores are restored.
	Running bool
	// RestoreDone of RestoreTotal changelog records are in, about: compaction leaves gaps.
	RestoreDone, RestoreTotal int64
	Inputs                    []InputStatus
	Processed                 int64
	Drops                     []Drop
	// ExpiredWrites are writes to windows and sessions that their stores had forgotten already.
	ExpiredWrites    int64
	UncommittedBytes int64
	Committed        time.Time // zero before the first commit of this process
}

// InputStatus is how far a task is in one input partition. Offsets are -1 while unknown.
type InputStatus struct {
	Topic     string
	Partition int32
	Next      int64 // the first offset that is not processed
	Committed int64 // where the job would go on after a crash
	End       int64 // end of the partition as of the last fetch
	Lag       int64 // records between Next and End
	// Time is the partition's stream time, the highest event time seen; zero before the first record.
	Time time.Time
}

// Drop counts the records that one operator dropped for one reason: late, null key, skipped by a handler and so on.
type Drop struct {
	Operator string
	Reason   string
	Count    int64
}

// Status tells how the job is doing in this process. Tasks are as of some tenths of a second ago. It may be called from
// any goroutine, at any time.
func (a *App) Status() Status {
	s := a.runtime.Status()
	out := Status{
		Phase: Phase(s.Phase), Processed: s.Totals.Processed, Commits: s.Totals.Commits, CommitErrors: s.Totals.CommitErrors,
		Restored: s.Totals.Restored, FullRestores: s.Totals.Restores, Rebalances: s.Totals.Rebalances,
		StateBytes: s.StateBytes, StateInMemoryBytes: s.StateInMemoryBytes,
	}
	for _, t := range s.Tasks {
		out.Tasks = append(out.Tasks, taskStatus(t))
	}
	return out
}

func taskStatus(t worker.TaskStatus) TaskStatus {
	out := TaskStatus{
		ID: t.ID.String(), Thread: t.Thread, Running: t.Running, RestoreDone: t.RestoreDone, RestoreTotal: t.RestoreTotal,
		Processed: t.Processed, ExpiredWrites: t.ExpiredWrites, UncommittedBytes: t.UncommittedBytes, Committed: t.Committed,
	}
	for _, i := range t.Inputs {
		in := InputStatus{Topic: i.Topic, Partition: i.Partition, Next: i.Next, Committed: i.Committed, End: i.End, Lag: i.Lag()}
		if i.Time >= 0 {
			in.Time = time.UnixMilli(i.Time).UTC()
		}
		out.Inputs = append(out.Inputs, in)
	}
	for _, d := range t.Drops {
		out.Drops = append(out.Drops, Drop{Operator: d.Operator, Reason: d.Reason.String(), Count: d.Count})
	}
	return out
}
