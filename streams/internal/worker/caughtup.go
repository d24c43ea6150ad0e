package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/assign"
	"github.com/millrace/millrace/streams/internal/task"
)

// caughtUpInterval is the time between two looks at the group's offsets.
const caughtUpInterval = 50 * time.Millisecond

// ErrEnded says that a job ended before what was waited for.
var ErrEnded = errors.New("the job has ended")

// WaitCaughtUp waits until the job, in all its processes, has processed and committed what its input topics hold now, and
// what comes of it in its repartition topics, and until this process runs all tasks that the group gave it.
//
// What it cannot see in one look it sees in several: when everything is committed that the topics held, what it caused one
// sub-topology further is written, because a commit follows the flush. So as many looks as there are sub-topologies
// follow every record to its end.
//
// The tasks come last: their stores are restored to what their changelogs held then, which a commit wrote before the offsets.
func (rt *Runtime) WaitCaughtUp(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-rt.ended:
			cancel(ErrEnded)
		case <-ctx.Done():
		}
	}()
	for rt.Status().Phase < Running { // the topics may not be there yet
		select {
		case <-time.After(caughtUpInterval):
		case <-ctx.Done():
			return fmt.Errorf("waiting for the job to start: %w", context.Cause(ctx))
		}
	}
	client, err := kgo.NewClient(rt.clientOptions("wait")...)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends := admin.ListEndOffsets
	if readsCommitted(client) {
		ends = admin.ListCommittedOffsets
	}
	for range rt.cfg.Programs {
		var until kadm.ListedOffsets
		err := rt.retry(ctx, "asking where the input topics end", func(ctx context.Context) (err error) {
			until, err = ends(ctx, rt.sourceTopics()...)
			return errors.Join(err, until.Error())
		})
		if err == nil {
			err = rt.waitCommitted(ctx, admin, until)
		}
		if err != nil {
			return fmt.Errorf("waiting for the job to catch up: %w", errors.Join(context.Cause(ctx), err))
		}
	}
	if err := rt.waitSettled(ctx, admin); err != nil {
		return fmt.Errorf("waiting for the tasks of this process: %w", errors.Join(context.Cause(ctx), err))
	}
	return nil
}

// waitCommitted waits until the group has committed the ends of partitions.
func (rt *Runtime) waitCommitted(ctx context.Context, admin *kadm.Client, ends kadm.ListedOffsets) error {
	return rt.waitUntil(ctx, "reading the group's committed offsets", func(ctx context.Context) (behind, err error) {
		committed, err := admin.FetchOffsetsForTopics(ctx, rt.cfg.Topology.Application, rt.sourceTopics()...)
		if err = errors.Join(err, committed.Error()); err != nil {
			return nil, err
		}
		ends.Each(func(end kadm.ListedOffset) {
			if at, _ := committed.Lookup(end.Topic, end.Partition); max(at.At, 0) < end.Offset {
				behind = fmt.Errorf("%s[%d] is at %d of %d", end.Topic, end.Partition, at.At, end.Offset)
			}
		})
		return behind, nil
	})
}

// waitSettled waits until all tasks are given out, and those that the group gave to this process run.
func (rt *Runtime) waitSettled(ctx context.Context, admin *kadm.Client) error {
	return rt.waitUntil(ctx, "asking who has which tasks", func(ctx context.Context) (unsettled, err error) {
		group, err := admin.DescribeGroups(ctx, rt.cfg.Topology.Application)
		if err = errors.Join(err, group.Error()); err != nil {
			return nil, err
		}
		return rt.unsettled(group[rt.cfg.Topology.Application]), nil
	})
}

// unsettled says what is not as it is to be when no tasks move, or nil. That the group is stable is not enough: between the
// two rebalances in which a task moves it is, and the task is nobody's.
func (rt *Runtime) unsettled(group kadm.DescribedGroup) error {
	if !strings.EqualFold(group.State, "stable") {
		return fmt.Errorf("the group is in state %s", group.State)
	}
	given := map[string][]task.ID{}
	free := map[task.ID]bool{}
	for _, id := range rt.topics.plan.Tasks {
		free[id] = true
	}
	for _, m := range group.Members {
		a, ok := m.Assigned.AsConsumer()
		if !ok {
			return fmt.Errorf("member %s has no assignment yet", m.MemberID)
		}
		partitions := map[string][]int32{}
		for _, t := range a.Topics {
			partitions[t.Topic] = append(partitions[t.Topic], t.Partitions...)
		}
		given[m.MemberID] = rt.tasksOf(partitions)
		for _, id := range given[m.MemberID] {
			delete(free, id)
		}
	}
	if len(free) > 0 {
		return fmt.Errorf("%d tasks are given to no process", len(free))
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for i, client := range rt.members {
		id, _ := client.GroupMetadata()
		want, joined := given[id]
		if !joined {
			return fmt.Errorf("thread %d has not joined the group", i)
		}
		if have := rt.runningIn(i); !slices.Equal(have, want) {
			return fmt.Errorf("thread %d was given tasks %v and runs %v", i, want, have)
		}
	}
	return nil
}

// runningIn returns the tasks that run in a thread, sorted. The caller holds rt.mu.
func (rt *Runtime) runningIn(thread int) []task.ID {
	var ids []task.ID
	for id, p := range rt.places {
		if p.thread == thread && p.stores != nil {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b task.ID) int { return assign.Task(a).Compare(assign.Task(b)) })
	return ids
}

// waitUntil looks until nothing is missing any more. It fails when ctx ends, with what was missing last.
func (rt *Runtime) waitUntil(ctx context.Context, doing string, look func(context.Context) (missing, err error)) error {
	for {
		var missing error
		err := rt.retry(ctx, doing, func(ctx context.Context) (err error) {
			missing, err = look(ctx)
			return err
		})
		if err != nil || missing == nil {
			return errors.Join(missing, err)
		}
		select {
		case <-time.After(caughtUpInterval):
		case <-ctx.Done():
			return missing
		}
	}
}
