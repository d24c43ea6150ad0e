package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// caughtUpInterval is the time between two looks at the group's offsets.
const caughtUpInterval = 50 * time.Millisecond

// ErrEnded says that a job ended before what was waited for.
var ErrEnded = errors.New("the job has ended")

// WaitCaughtUp waits until the job, in all its processes, has processed and committed what its input topics hold now, and
// what comes of it in its repartition topics.
//
// What it cannot see in one look it sees in several: when everything is committed that the topics held, what it caused one
// sub-topology further is written, because a commit follows the flush. So as many looks as there are sub-topologies
// follow every record to its end.
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
	return nil
}

// waitCommitted waits until the group has committed the ends of partitions.
func (rt *Runtime) waitCommitted(ctx context.Context, admin *kadm.Client, ends kadm.ListedOffsets) error {
	for {
		var behind error
		err := rt.retry(ctx, "reading the group's committed offsets", func(ctx context.Context) error {
			committed, err := admin.FetchOffsetsForTopics(ctx, rt.cfg.Topology.Application, rt.sourceTopics()...)
			if err = errors.Join(err, committed.Error()); err != nil {
				return err
			}
			behind = nil
			ends.Each(func(end kadm.ListedOffset) {
				if at, _ := committed.Lookup(end.Topic, end.Partition); max(at.At, 0) < end.Offset {
					behind = fmt.Errorf("%s[%d] is at %d of %d", end.Topic, end.Partition, at.At, end.Offset)
				}
			})
			return nil
		})
		if err != nil || behind == nil {
			return errors.Join(behind, err)
		}
		select {
		case <-time.After(caughtUpInterval):
		case <-ctx.Done():
			return behind
		}
	}
}
