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

	"github.com/twmb/franz-go/pkg/kadm"
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

	task *task.Task // nil until restored
	// positions are where the changelogs are in the stores, as of the last commit or restore.
	positions map[string]state.Position
	waitUntil time.Time
	counted   int64 // records that were reported as processed
	committed time.Time
}

// restoreProgress is read by status reports while the restore runs.
type restoreProgress struct{ done, total atomic.Int64 }

// input is one input partition of a task.
type input struct {
	// offset and time are what the group has committed: -1 and none if nothing.
	offset int64
	epoch  int32
	time   window.Instant
	first  int64 // offset of the first record that came, -1 before
	end    int64 // high watermark of the last fetch, -1 before
	paused bool
	early  []*kgo.Record // came before the task was restored
}

// assign begins to run the tasks of partitions.
func (t *thread) assign(ctx context.Context, partitions map[string][]int32) error {
	if len(partitions) == 0 {
		return nil
	}
	ids := t.rt.tasksOf(partitions)
	t.log.Info("tasks assigned", "tasks", ids)
	t.client.PauseFetchPartitions(partitions)
	committed, err := t.fetchCommitted(ctx, slices.Collect(maps.Keys(partitions)))
	if err != nil {
		return err
	}
	for _, id := range ids {
		if old, ok := t.tasks[id]; ok {
			// More partitions of a task that runs: it begins again, with all of them.
			if err := t.closeTask(old); err != nil {
				return err
			}
		}
		t.begin(ctx, id, committed)
	}
	return nil
}

// begin makes a task and restores it, in a goroutine that posts an event at its end.
func (t *thread) begin(ctx context.Context, id task.ID, committed kadm.OffsetResponses) {
	r := &taskRun{
		id: id, program: t.rt.program[id.Sub], inputs: map[string]*input{}, restoreDone: make(chan struct{}),
		out: &output{t: t, id: id, changelogs: map[string]string{}, next: map[string]int64{}},
	}
	for _, name := range r.program.Sub.Stores {
		if s, ok := t.rt.cfg.Topology.Store(name); ok && s.Changelog != "" {
			r.out.changelogs[name] = s.Changelog
		}
	}
	for topic := range t.rt.partitionsOf(id) {
		in := &input{offset: -1, epoch: -1, time: noTime, first: -1, end: -1}
		if o, ok := committed.Lookup(topic, id.Partition); ok && o.Err == nil && o.At >= 0 {
			in.offset, in.epoch, in.time = o.At, o.LeaderEpoch, decodeTime(o.Metadata)
		}
		r.inputs[topic] = in
	}
	t.setStarts(r)
	ctx, r.cancel = context.WithCancel(ctx)
	t.tasks[id] = r
	go func() {
		r.stores, r.restoreErr = t.rt.restore(ctx, r)
		close(r.restoreDone)
		t.post(event{kind: restored, restored: r})
	}()
}

// fetchCommitted asks the group for the offsets and stream times of topics, until it gets them. When the thread is to stop
// it returns none: the tasks will not begin.
func (t *thread) fetchCommitted(ctx context.Context, topics []string) (offsets kadm.OffsetResponses, err error) {
	err = t.rt.retry(ctx, "reading the group's committed offsets", func(ctx context.Context) error {
		offsets, err = kadm.NewClient(t.client).FetchOffsetsForTopics(ctx, t.rt.cfg.Topology.Application, topics...)
		return errors.Join(err, offsets.Error())
	})
	if ctx.Err() != nil {
		return nil, nil
	}
	return offsets, err
}

// setStarts tells kgo where the inputs of a task begin: at the committed offset, or where the source says.
func (t *thread) setStarts(r *taskRun) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for topic, in := range r.inputs {
		start := kgo.NewOffset().AtEnd()
		if in.offset >= 0 {
			start = kgo.NewOffset().At(in.offset).WithEpoch(in.epoch)
		} else if r.fromStart(topic) {
			start = kgo.NewOffset().AtStart()
		}
		if t.starts[topic] == nil {
			t.starts[topic] = map[int32]kgo.Offset{}
		}
		t.starts[topic][r.id.Partition] = start
	}
}

func (r *taskRun) fromStart(topic string) bool {
	i := slices.IndexFunc(r.program.Inputs, func(in task.InputSpec) bool { return in.Topic == topic })
	return i < 0 || r.program.Inputs[i].FromStart
}

// adjustOffsets is kgo's AdjustFetchOffsetsFn: it runs after the assignment was dealt with.
func (t *thread) adjustOffsets(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for topic, partitions := range offsets {
		for p := range partitions {
			if start, ok := t.starts[topic][p]; ok {
				partitions[p] = start
			}
		}
	}
	return offsets, nil
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
	t.rt.opened(r.id, r.stores)
	for topic, in := range r.inputs {
		r.task.Add(topic, in.early)
		in.early = nil
	}
	t.client.ResumeFetchPartitions(t.rt.partitionsOf(r.id))
	t.report(true)
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

// add takes what was fetched of one of the task's partitions.
func (r *taskRun) add(client *kgo.Client, p kgo.FetchTopicPartition) {
	in, ok := r.inputs[p.Topic]
	if !ok {
		return
	}
	in.end = max(in.end, p.HighWatermark)
	if len(p.Records) == 0 {
		return
	}
	if in.first < 0 {
		in.first = p.Records[0].Offset
	}
	if r.task == nil {
		in.early = append(in.early, p.Records...)
		return
	}
	r.task.Add(p.Topic, p.Records)
	// A task that waits for another partition, to take records in order of time, cannot drain this one.
	if !in.paused && !r.waitUntil.IsZero() && r.task.Buffered(p.Topic) > bufferedMax {
		in.paused = true
		client.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
	}
}

// sated tells whether an input has all the records that may wait, and the task makes headway with them.
func (r *taskRun) sated() bool {
	if r.task == nil || !r.waitUntil.IsZero() {
		return false
	}
	for topic := range r.inputs {
		if r.task.Buffered(topic) > bufferedMax {
			return true
		}
	}
	return false
}

// turn processes some records, and the punctuators that are due. It reports whether there was something to do.
func (r *taskRun) turn(t *thread) (worked bool, err error) {
	if r.task == nil {
		return false, nil
	}
	before := r.task.Processed()
	r.waitUntil = time.Time{}
	for range stepsMax {
		p, err := r.task.Step()
		if err != nil {
			return false, err
		}
		if !p.Processed {
			r.waitUntil = p.WaitUntil
			break
		}
	}
	worked = r.task.Processed() > before
	if due, ok := r.task.NextPunctuation(); ok && !t.rt.cfg.Now().Before(due) {
		if err := r.task.Punctuate(); err != nil {
			return false, err
		}
		t.committing = true
	}
	for topic, in := range r.inputs {
		if in.paused && r.task.Buffered(topic) <= bufferedMax/2 {
			in.paused = false
			t.client.ResumeFetchPartitions(map[string][]int32{topic: {r.id.Partition}})
		}
	}
	t.committing = t.committing || worked
	return worked, nil
}

// closeTask ends a task, without committing.
func (t *thread) closeTask(r *taskRun) error {
	r.cancel()
	<-r.restoreDone
	delete(t.tasks, r.id)
	if r.task != nil {
		t.rt.count(func(n *Totals) { n.Processed += r.newlyProcessed() })
	}
	t.rt.closed(r.id)
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
	committed, err := t.fetchCommitted(ctx, slices.Collect(maps.Keys(partitions)))
	if err != nil {
		return err
	}
	t.rewind(r, committed)
	t.flushLost(ctx)
	t.begin(ctx, r.id, committed)
	return nil
}

// rewind lets kgo fetch a task's inputs again from the committed offsets, or from where the task began.
func (t *thread) rewind(r *taskRun, committed kadm.OffsetResponses) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for topic, in := range r.inputs {
		at := kgo.EpochOffset{Epoch: -1, Offset: in.first}
		if o, ok := committed.Lookup(topic, r.id.Partition); ok && o.Err == nil && o.At >= 0 {
			at = kgo.EpochOffset{Epoch: o.LeaderEpoch, Offset: o.At}
		}
		offsets[topic] = map[int32]kgo.EpochOffset{r.id.Partition: at}
	}
	t.client.SetOffsets(offsets) // skips those that are negative: nothing came of them
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
		for _, p := range r.task.Positions() {
			next[p.Topic] = p
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(r.inputs)) {
		in := r.inputs[topic]
		i := InputStatus{Topic: topic, Partition: r.id.Partition, Next: -1, Committed: in.offset, End: in.end, Time: int64(in.time)}
		if p, ok := next[topic]; ok {
			i.Next, i.Time = p.Next, int64(p.Time)
		}
		s.Inputs = append(s.Inputs, i)
	}
	return s
}
