package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// taskRun is one task of a thread, from when it is assigned to when it is closed. While it is restored, its stores belong
// to the restoring goroutine; afterwards everything belongs to the thread.
type taskRun struct {
	id      task.ID
	program *task.Program
	out     *output
	inputs  map[string]*input // by topic

	cancel      context.CancelFunc
	restoreDone chan struct{} // closed when stores and restoreErr are set
	stores      *state.Stores
	restoreErr  error
	restoring   restoreProgress

	began time.Time

	task *task.Task // nil until restored
	// positions are where the changelogs are in the stores, as of the last commit or restore.
	positions map[string]state.Position
	counted   int64 // records that were reported as processed
	tended    int64 // records that were processed before the last call of tend
	committed time.Time

	// looked says that head and lacking are right; see order.go.
	looked  bool
	head    task.Head
	lacking []*input
	held    bool // waits for another task's input
}

// restoreProgress is read by status reports while the restore runs.
type restoreProgress struct{ done, total atomic.Int64 }

// input is one input partition of a task.
type input struct {
	topic string
	// offset and time are what the group has committed: -1 and none if nothing.
	offset int64
	epoch  int32
	time   window.Instant
	begin  int64 // where the task began to read, -1 while unknown
	next   int64 // end of what was fetched, -1 while unknown
	end    int64 // end of what can be fetched, as of the assignment or the last fetch, -1 while unknown
	paused bool
	// recordBytes is about what one record takes, by those that came last.
	recordBytes int
	early       []*kgo.Record // came before the task was restored
	// lackingSince is when other tasks began to wait for the input; passed, that they do not wait for it any more.
	lackingSince time.Time
	passed       bool
}

// assign begins to run the tasks of partitions.
func (t *thread) assign(ctx context.Context, partitions map[string][]int32) error {
	if len(partitions) == 0 {
		return nil
	}
	ids := t.rt.tasksOf(partitions)
	t.log.Info("tasks assigned", "tasks", ids)
	t.rt.taken(t.index, ids...)
	t.client.PauseFetchPartitions(partitions)
	at, err := t.locate(ctx, slices.Collect(maps.Keys(partitions)))
	if err != nil {
		return err
	}
	for _, id := range ids {
		old, ok := t.tasks[id]
		if ok {
			// More partitions of a task that runs: it begins again, with all of them.
			if err := t.closeTask(old); err != nil {
				return err
			}
		}
		r := t.begin(ctx, id, at, old)
		if ok {
			t.rewind(r)
		}
	}
	return nil
}

// begin makes a task and restores it, in a goroutine that posts an event at its end. Old is the task's former run in this
// thread, if any: where nothing is committed it begins where that began.
func (t *thread) begin(ctx context.Context, id task.ID, at located, old *taskRun) *taskRun {
	r := &taskRun{
		id: id, program: t.rt.program[id.Sub], inputs: map[string]*input{}, restoreDone: make(chan struct{}),
		began: t.rt.cfg.Now(),
		out:   &output{t: t, id: id, changelogs: map[string]string{}, next: map[string]int64{}},
	}
	for _, name := range r.program.Sub.Stores {
		if s, ok := t.rt.cfg.Topology.Store(name); ok && s.Changelog != "" {
			r.out.changelogs[name] = s.Changelog
		}
	}
	for topic := range t.rt.partitionsOf(id) {
		r.inputs[topic] = t.input(r, topic, at, old)
	}
	t.setStarts(r)
	ctx, r.cancel = context.WithCancel(ctx)
	t.tasks[id] = r
	t.rt.taken(t.index, id)
	go func() {
		r.stores, r.restoreErr = t.rt.restore(ctx, r)
		close(r.restoreDone)
		t.post(event{kind: restored, restored: r})
	}()
	return r
}

// start begins to process a task that was restored.
func (t *thread) start(r *taskRun) error {
	if r.restoreErr != nil {
		return fmt.Errorf("restoring task %v: %w", r.id, r.restoreErr)
	}
	checkpoint := r.stores.Checkpoint()
	r.positions = maps.Clone(checkpoint.Changelogs)
	for store, p := range r.positions {
		r.out.next[store] = p.Next
	}
	made, err := task.New(task.Config{
		ID: r.id, Program: r.program, Stores: r.stores, Output: r.out, Handlers: t.rt.cfg.Handlers,
		MaxIdle: t.rt.cfg.MaxIdle, Now: t.rt.cfg.Now, Log: t.log, Times: r.times(checkpoint),
	})
	if err != nil {
		return err
	}
	r.task = made
	for topic, in := range r.inputs {
		r.task.Add(topic, in.early)
		in.early = nil
	}
	for _, p := range r.reached() {
		// Where a task begins is committed even if nothing comes, so that a source that begins at the end misses nothing
		// that comes while no process runs.
		t.committing = t.committing || p.Next >= 0 && p.Next != r.inputs[p.Topic].offset
	}
	t.client.ResumeFetchPartitions(t.rt.partitionsOf(r.id))
	t.report(true)
	t.rt.opened(t.index, r.id, r.stores)
	return nil
}

// times are the stream times to begin with. The group's are those of the offset to continue from. The folder's may be
// ahead of them, after a crash between the two commits; its state then has the records in between, so what is late for
// it is in it. A partition whose offset was committed by a tool has no time, and begins afresh.
func (r *taskRun) times(c state.Checkpoint) map[string]window.Instant {
	times := map[string]window.Instant{}
	for topic, in := range r.inputs {
		if in.time == noTime {
			continue
		}
		times[topic] = in.time
		if at, ok := c.StreamTimes[topic]; ok {
			times[topic] = max(times[topic], at)
		}
	}
	return times
}

// closeTask ends a task, without committing.
func (t *thread) closeTask(r *taskRun) error {
	r.cancel()
	<-r.restoreDone
	delete(t.tasks, r.id)
	if r.task != nil {
		t.rt.count(func(n *Totals) { n.Processed += r.newlyProcessed() })
	}
	t.rt.closed(t.index, r.id)
	if r.stores == nil {
		return nil
	}
	var errs []error
	if r.task != nil {
		errs = append(errs, r.task.Close())
	}
	t.rt.dir.setProgress(r.id, r.stores.Checkpoint())
	errs = append(errs, r.stores.Close())
	t.rt.dir.release(r.id)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing task %v: %w", r.id, err)
	}
	return nil
}

// taskError is the failure of one task. The others are in order.
type taskError struct {
	r   *taskRun
	err error
}

func (e *taskError) Error() string { return e.err.Error() }
func (e *taskError) Unwrap() error { return e.err }

func isTaskError(err error) bool {
	var e *taskError
	return errors.As(err, &e)
}

// taskFailed deals with the failure of a task. A corrupt folder is removed and restored (Kafka's TaskCorruptedException),
// unless that was done lately: then the changelog is no better. Anything else ends the job, after the other tasks were
// committed.
func (t *thread) taskFailed(ctx context.Context, r *taskRun, cause error) error {
	now := t.rt.cfg.Now()
	if before, again := t.mended[r.id]; !errors.Is(cause, state.ErrCorrupt) || again && now.Sub(before) < mendInterval {
		return errors.Join(&taskError{r, cause}, t.closeTask(r), t.commit(ctx))
	}
	t.mended[r.id] = now
	t.log.Error("the state of a task is corrupt; removing it and restoring from the changelogs", "task", r.id, "err", cause)
	if err := t.closeTask(r); err != nil {
		t.log.Warn("closing a corrupt task", "task", r.id, "err", err)
	}
	if err := os.RemoveAll(t.rt.dir.taskDir(r.id)); err != nil {
		return fmt.Errorf("removing the corrupt state of task %v: %w", r.id, err)
	}
	partitions := t.rt.partitionsOf(r.id)
	t.client.PauseFetchPartitions(partitions)
	at, err := t.locate(ctx, slices.Collect(maps.Keys(partitions)))
	if err != nil {
		return err
	}
	t.flushLost(ctx)
	t.rewind(t.begin(ctx, r.id, at, r))
	return nil
}

// newlyProcessed returns how many records were processed since the last call.
func (r *taskRun) newlyProcessed() int64 {
	if r.task == nil {
		return 0
	}
	n := r.task.Processed() - r.counted
	r.counted += n
	return n
}

func (r *taskRun) status(thread int) TaskStatus {
	s := TaskStatus{
		ID: r.id, Thread: thread, Running: r.task != nil, Committed: r.committed,
		RestoreDone: r.restoring.done.Load(), RestoreTotal: r.restoring.total.Load(),
	}
	next := map[string]task.Position{}
	if r.task != nil {
		s.Processed, s.Drops = r.task.Processed(), r.task.Drops()
		s.ExpiredWrites, s.UncommittedBytes = r.stores.ExpiredWrites(), r.stores.UncommittedBytes()
		for _, p := range r.reached() {
			next[p.Topic] = p
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(r.inputs)) {
		in := r.inputs[topic]
		i := InputStatus{Topic: topic, Partition: r.id.Partition, Next: in.begin, Committed: in.offset, End: in.end, Time: int64(in.time)}
		if p, ok := next[topic]; ok {
			i.Next, i.Time = p.Next, int64(p.Time)
		}
		s.Inputs = append(s.Inputs, i)
	}
	return s
}
