package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/assign"
	"github.com/millrace/millrace/streams/internal/task"
)

const (
	// pollRecordsMax bounds what one poll hands over.
	pollRecordsMax = 2000
	// bufferedMax and bufferedBytesMax are how many records of an input partition may wait in its task. While a task with
	// more makes headway nothing is polled, and what was fetched waits in the client. If it waits for another partition,
	// its own is paused.
	bufferedMax      = 10_000
	bufferedBytesMax = 4 << 20
	// recordOverhead is about what a record takes besides its key and value.
	recordOverhead = 200
	// stepsMax is how many records of one sub-topology are processed before the next has its turn.
	stepsMax = 100
	// turnMax is how long a thread processes before it looks at its client again.
	turnMax = 20 * time.Millisecond
	// pollMax is how long an idle thread waits at most.
	pollMax = time.Second
	// requestTimeout bounds single requests of the runtime, retries included.
	requestTimeout = 30 * time.Second
	// stopMax bounds a clean stop: flushing and committing.
	stopMax = 30 * time.Second
	// mendInterval is how long a folder that was restored because it was corrupt must stay right.
	mendInterval = 10 * time.Minute
	// readCommitted is the isolation level of the protocol that hides records of open and aborted transactions.
	readCommitted = 1
	// eventsMax bounds the queue of events; kgo has one callback at a time, restores as many as there are tasks.
	eventsMax = 64
)

// thread is one member of the group. Its fields belong to its goroutine, except where said.
type thread struct {
	rt     *Runtime
	index  int
	log    *slog.Logger
	client *kgo.Client
	tasks  map[task.ID]*taskRun
	// fenced is set when the group refused a commit because the thread is no member any more: it stands still until
	// kgo has noticed too.
	fenced     bool
	mended     map[task.ID]time.Time // when corrupt folders were removed
	committed  time.Time
	committing bool
	heldUntil  time.Time // when a lane that waits for input is to go on without it
	// flights are what was sent to repartition topics, tickets how far lanes may go that read them: see upstream.go.
	flights map[string]*flight
	tickets map[string]*ticket
	// failing are the input topics that cannot be read.
	failing map[string]*failing
	// readCommitted says that the user's client options hide what is not committed.
	readCommitted bool
	reported      time.Time
	purged        time.Time

	// produceCtx ends when the thread does, or must.
	produceCtx context.Context
	events     chan event
	ended      chan struct{}

	mu       sync.Mutex
	wakePoll context.CancelFunc
	// starts are the offsets to begin with, for kgo; it asks from a goroutine of its own.
	starts map[string]map[int32]kgo.Offset
}

// event is something that happened outside of the thread. Done, if set, is closed when it has been dealt with.
type event struct {
	kind       eventKind
	partitions map[string][]int32
	restored   *taskRun
	done       chan struct{}
}

type eventKind int8

const (
	assigned eventKind = iota
	revoked
	lost
	restored
)

func newThread(rt *Runtime, index int) (*thread, error) {
	t := &thread{
		rt: rt, index: index, log: rt.cfg.Log.With("thread", index), tasks: map[task.ID]*taskRun{}, mended: map[task.ID]time.Time{},
		events: make(chan event, eventsMax), ended: make(chan struct{}), starts: map[string]map[int32]kgo.Offset{},
		failing: map[string]*failing{}, flights: newFlights(rt.cfg.Topology.Topics), tickets: map[string]*ticket{},
		committed: rt.cfg.Now(), purged: rt.cfg.Now(),
	}
	opts := append(rt.clientOptions("thread-"+strconv.Itoa(index)),
		kgo.ConsumerGroup(rt.cfg.Topology.Application),
		kgo.ConsumeTopics(rt.sourceTopics()...),
		kgo.Balancers(balancer{t}),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(t.callback(assigned)),
		kgo.OnPartitionsRevoked(t.callback(revoked)),
		kgo.OnPartitionsLost(t.callback(lost)),
		kgo.AdjustFetchOffsetsFn(t.adjustOffsets),
		// A partition that lost its committed offset to retention goes on with what there is.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords(),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(newPartitioner()),
	)
	if rt.cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(rt.cfg.InstanceID+"-"+strconv.Itoa(index)))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	t.client = client
	t.readCommitted = readsCommitted(client)
	return t, nil
}

// readsCommitted tells whether a client hides what is not committed.
func readsCommitted(client *kgo.Client) bool {
	level, _ := client.OptValue(kgo.FetchIsolationLevel).(int8)
	return level == readCommitted
}

// callback makes a kgo callback that waits until the thread has dealt with the event.
func (t *thread) callback(kind eventKind) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		if len(partitions) == 0 && kind == revoked {
			return // kgo reports the end of every session
		}
		done := make(chan struct{})
		if t.post(event{kind: kind, partitions: partitions, done: done}) {
			select {
			case <-done:
			case <-t.ended:
			}
		}
	}
}

// post hands an event to the thread and wakes it. It reports false when the thread has ended.
func (t *thread) post(e event) bool {
	select {
	case t.events <- e:
	case <-t.ended:
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wakePoll != nil {
		t.wakePoll()
	}
	return true
}

// run is the thread's goroutine.
func (t *thread) run(ctx context.Context) (err error) {
	var endProducing context.CancelFunc
	t.produceCtx, endProducing = context.WithCancel(context.WithoutCancel(ctx))
	defer endProducing()
	// A task that writes may wait for room in a client that reaches no broker. A thread that is to stop waits with it,
	// but not for ever; what was not written is not committed then.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopMax, endProducing) })()
	defer func() { err = t.stop(ctx, err) }()
	for ctx.Err() == nil {
		if err := t.handleEvents(ctx); err != nil {
			return err
		}
		idle, err := t.process(ctx)
		if err != nil {
			return err
		}
		if err := t.commitIfDue(ctx); err != nil {
			return err
		}
		t.report(false)
		if err := t.poll(ctx, idle); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the thread: after a clean end or another's failure it commits first, after its own it does not. The client
// leaves the group, unless it is a static member.
func (t *thread) stop(ctx context.Context, cause error) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMax)
	defer cancel()
	errs := []error{cause}
	if cause == nil {
		if err := t.commit(closing); err != nil {
			errs = append(errs, fmt.Errorf("committing at the end: %w", err))
		}
	}
	for _, r := range t.sorted() {
		errs = append(errs, t.closeTask(r))
	}
	close(t.ended)
	t.client.CloseAllowingRebalance()
	return errors.Join(errs...)
}

func (t *thread) sorted() []*taskRun { return sortedRuns(t.tasks) }

func sortedRuns(tasks map[task.ID]*taskRun) []*taskRun {
	return slices.SortedFunc(maps.Values(tasks), func(a, b *taskRun) int { return assign.Task(a.id).Compare(assign.Task(b.id)) })
}

func (t *thread) handleEvents(ctx context.Context) error {
	for {
		select {
		case e := <-t.events:
			err := t.handle(ctx, e)
			if e.done != nil {
				close(e.done)
			}
			if err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (t *thread) handle(ctx context.Context, e event) error {
	if e.kind != restored {
		t.rt.dir.moved(t.rt.cfg.Now())
	}
	switch e.kind {
	case assigned:
		t.fenced = false
		t.rt.count(func(n *Totals) { n.Rebalances++ })
		return t.assign(ctx, e.partitions)
	case revoked:
		t.log.Info("tasks revoked", "tasks", t.rt.tasksOf(e.partitions))
		err := t.commit(ctx)
		if err != nil && ctx.Err() == nil && !isTaskError(err) {
			// Whoever gets the tasks starts from the commit before.
			t.log.Warn("cannot commit tasks that are revoked; their next owner repeats what was not committed", "err", err)
			err = nil
		}
		gone := map[task.ID]*taskRun{}
		for _, id := range t.rt.tasksOf(e.partitions) {
			if r, ok := t.tasks[id]; ok {
				gone[id] = r
			}
		}
		return errors.Join(err, t.giveUp(gone))
	case lost:
		t.fenced = false
		if len(t.tasks) > 0 {
			t.log.Warn("the group lost this member; dropping what was not committed", "tasks", len(t.tasks))
		}
		t.flushLost(ctx)
		return t.giveUp(t.tasks)
	case restored:
		r := e.restored
		if t.tasks[r.id] != r || ctx.Err() != nil {
			return nil // it was taken away meanwhile, or everything ends
		}
		if err := t.start(r); err != nil {
			return t.taskFailed(ctx, r, err)
		}
		return nil
	}
	panic(fmt.Sprintf("event of unknown kind %d", e.kind))
}

// flushLost waits for the answers to what lost tasks wrote, so that a task that comes right back finds the end of its
// changelogs.
func (t *thread) flushLost(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := t.client.Flush(ctx); err != nil {
		t.log.Warn("writes of lost tasks are still on their way", "err", err)
	}
}

// giveUp closes tasks without committing.
func (t *thread) giveUp(tasks map[task.ID]*taskRun) error {
	var errs []error
	for _, r := range sortedRuns(tasks) {
		errs = append(errs, t.closeTask(r))
	}
	return errors.Join(errs...)
}

// poll takes what was fetched; an idle thread waits for it, until an event or the next thing that is due.
func (t *thread) poll(ctx context.Context, idle bool) error {
	var fetches kgo.Fetches
	if idle {
		wait, cancel := context.WithTimeout(ctx, t.untilDue())
		t.mu.Lock()
		t.wakePoll = cancel
		t.mu.Unlock()
		if len(t.events) == 0 { // an event posted from here on wakes the poll
			fetches = t.client.PollRecords(wait, pollRecordsMax)
		}
		t.mu.Lock()
		t.wakePoll = nil
		t.mu.Unlock()
		cancel()
	} else if !t.sated() {
		//lint:ignore SA1012 a nil context takes what was fetched and does not wait
		fetches = t.client.PollRecords(nil, pollRecordsMax)
	}
	if err := t.readErrors(ctx, fetches); err != nil {
		return err
	}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if r := t.taskOf(p.Topic, p.Partition); r != nil {
			r.add(t, p)
		}
	})
	return nil
}

// sated tells whether a task has all the records that it may have waiting.
func (t *thread) sated() bool {
	for _, r := range t.tasks {
		if r.sated() {
			return true
		}
	}
	return false
}

// untilDue is how long an idle thread may wait.
func (t *thread) untilDue() time.Duration {
	now := t.rt.cfg.Now()
	due := now.Add(pollMax)
	if t.committing {
		due = earlier(due, t.committed.Add(t.rt.cfg.CommitInterval))
	}
	due = earlier(due, t.heldUntil)
	for _, r := range t.tasks {
		due = earlier(due, r.head.WaitUntil)
		if r.task != nil {
			if next, ok := r.task.NextPunctuation(); ok {
				due = earlier(due, next)
			}
		}
	}
	return max(due.Sub(now), time.Millisecond)
}

// earlier returns the earlier of two times; a zero b is none.
func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (t *thread) taskOf(topic string, partition int32) *taskRun {
	p, ok := t.rt.subOf[topic]
	if !ok {
		return nil
	}
	return t.tasks[task.ID{Sub: p.Sub.Name, Partition: partition}]
}

func (t *thread) uncommitted() int64 {
	var n int64
	for _, r := range t.tasks {
		if r.task != nil {
			n += r.stores.UncommittedBytes()
		}
	}
	return n
}

func (t *thread) uncommittedMax() int64 {
	return t.rt.cfg.StateBytes / uncommittedShare / int64(t.rt.cfg.Threads)
}
