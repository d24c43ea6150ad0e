package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// CommitStep is a point of a commit, for tests that crash there.
type CommitStep int8

// The points, in order.
const (
	BeforeFlush CommitStep = iota
	BeforeState
	BeforeOffsets
	AfterOffsets
)

// touchInterval is how often an idle task is committed, so that its folder never looks older than the tombstones of its
// changelogs.
const touchInterval = time.Hour

// commit makes what the thread's tasks did durable. It is the only place that commits, and its order is what at-least-once
// rests on:
//
//  1. Flush: everything that the tasks wrote, changes of their stores included, is acknowledged by the brokers.
//  2. State: the pending writes go into the stores, with the changelog offsets that the acknowledgements gave.
//  3. Offsets: the group continues behind the processed records.
//
// A crash before 2 leaves the stores as of the last commit: restoring brings in what the flush had written, and the
// records since the last commit are processed again. A crash between 2 and 3 is the same but for the restoring. So
// what was processed counts once or, for records since the last commit, twice, and never not at all. In another order
// it could: offsets before the flush lose records whose results were not written, and state before the flush lets
// the folder hold what no changelog has, which the next owner elsewhere misses.
//
// A failure of one task does not keep the others from committing: it is returned when they have.
func (t *thread) commit(ctx context.Context) error {
	if t.fenced {
		return nil
	}
	failed := t.flush(ctx)
	if failed != nil && !isTaskError(failed) {
		return failed
	}
	running := t.running()
	now := t.rt.cfg.Now()
	if err := t.interrupt(BeforeState); err != nil {
		return err
	}
	for _, r := range running {
		c := r.checkpoint(now)
		if err := r.stores.Commit(c); err != nil {
			return &taskError{r, fmt.Errorf("task %v: %w", r.id, err)}
		}
		r.positions, r.committed = c.Changelogs, now
		t.rt.dir.setProgress(r.id, c)
	}
	if err := t.interrupt(BeforeOffsets); err != nil {
		return err
	}
	if err := t.commitOffsets(ctx, running); err != nil {
		return errors.Join(failed, err)
	}
	t.committed = now
	t.report(true)
	return errors.Join(failed, t.interrupt(AfterOffsets))
}

func (t *thread) interrupt(step CommitStep) error {
	if t.rt.cfg.Interrupt == nil {
		return nil
	}
	return t.rt.cfg.Interrupt(step)
}

// commitIfDue commits when the interval is over, when uncommitted writes take too much memory, or when nothing was
// committed for long.
func (t *thread) commitIfDue(ctx context.Context) error {
	since := t.rt.cfg.Now().Sub(t.committed)
	if t.committing && since >= t.rt.cfg.CommitInterval || since >= touchInterval || t.uncommitted() > t.uncommittedMax() {
		err := t.commit(ctx)
		if err != nil && ctx.Err() != nil && !isTaskError(err) {
			return nil // the thread stops, and commits then
		}
		if err == nil {
			t.purge()
		}
		return err
	}
	return nil
}

// running are the tasks that are restored, in order.
func (t *thread) running() []*taskRun {
	return slices.DeleteFunc(t.sorted(), func(r *taskRun) bool { return r.task == nil })
}

// flush waits until everything written was answered. Messages that were refused go to their task's production handler,
// which may write others, so it goes round until there is nothing left. A task that fails over it is closed, its writes
// dropped.
func (t *thread) flush(ctx context.Context) error {
	if err := t.interrupt(BeforeFlush); err != nil {
		return err
	}
	var failed error
	for again := true; again; {
		if err := t.client.Flush(ctx); err != nil {
			return fmt.Errorf("waiting for writes to be acknowledged: %w", err)
		}
		again = false
		for _, r := range t.running() {
			handled, err := r.settle()
			again = again || handled
			switch {
			case err == nil:
			case aborted(err):
				return err
			default:
				failed = errors.Join(failed, &taskError{r, err}, t.closeTask(r))
			}
		}
	}
	return failed
}

// settle passes refused messages to the production handler. Handled says that there were some.
func (r *taskRun) settle() (handled bool, err error) {
	failures, changelogErr := r.out.takeFailures()
	if changelogErr != nil {
		return false, fmt.Errorf("task %v: %w", r.id, changelogErr)
	}
	for _, f := range failures {
		if aborted(f.err) {
			return handled, f.err
		}
		if err := r.task.ProductionFailed(f.message, f.err); err != nil {
			return handled, err
		}
		handled = true
	}
	return handled, nil
}

// checkpoint is what the stores' pending writes correspond to, now that everything was acknowledged.
func (r *taskRun) checkpoint(now time.Time) state.Checkpoint {
	c := state.Checkpoint{Committed: now, StreamTimes: map[string]window.Instant{}, Changelogs: maps.Clone(r.positions)}
	for store, next := range r.out.acknowledged() {
		if p, ok := c.Changelogs[store]; ok {
			p.Next = max(p.Next, next)
			c.Changelogs[store] = p
		}
	}
	if at := r.task.StreamTime(); at >= 0 {
		c.StreamTimes[""] = at
	}
	for _, p := range r.task.Positions() {
		if p.Time >= 0 {
			c.StreamTimes[p.Topic] = p.Time
		}
	}
	return c
}

// commitOffsets commits the input offsets that moved, with the stream times in their metadata.
func (t *thread) commitOffsets(ctx context.Context, running []*taskRun) error {
	offsets, metadata := map[string]map[int32]kgo.EpochOffset{}, map[string]map[int32]string{}
	for _, r := range running {
		for _, p := range r.reached() {
			in, ok := r.inputs[p.Topic]
			if !ok || p.Next < 0 || p.Next == in.offset {
				continue
			}
			if offsets[p.Topic] == nil {
				offsets[p.Topic], metadata[p.Topic] = map[int32]kgo.EpochOffset{}, map[int32]string{}
			}
			offsets[p.Topic][r.id.Partition] = kgo.EpochOffset{Epoch: p.Epoch, Offset: p.Next}
			metadata[p.Topic][r.id.Partition] = encodeTime(p.Time)
		}
	}
	if len(offsets) == 0 {
		t.committing = false
		return nil
	}
	withTimes := kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				p := &req.Topics[i].Partitions[j]
				if m := metadata[req.Topics[i].Topic][p.Partition]; m != "" {
					p.Metadata = &m
				}
			}
		}
		return nil
	})
	var err error
	t.client.CommitOffsetsSync(withTimes, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, rerr error) {
		err = commitError(resp, rerr)
	})
	return t.committedOffsets(err, running, offsets)
}

// commitError returns the first error of a commit.
func commitError(resp *kmsg.OffsetCommitResponse, err error) error {
	if err != nil || resp == nil {
		return err
	}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("%s[%d]: %w", topic.Topic, p.Partition, err)
			}
		}
	}
	return nil
}

// committedOffsets notes what a commit of offsets came to. What failed for now is made up for by the next commit: the
// stores are ahead meanwhile, as after a crash between the steps.
func (t *thread) committedOffsets(err error, running []*taskRun, offsets map[string]map[int32]kgo.EpochOffset) error {
	switch {
	case err == nil:
		for _, r := range running {
			for _, p := range r.reached() {
				if at, ok := offsets[p.Topic][r.id.Partition]; ok {
					in := r.inputs[p.Topic]
					in.offset, in.epoch, in.time = at.Offset, at.Epoch, p.Time
				}
			}
		}
		t.committing = false
		t.rt.count(func(n *Totals) { n.Commits++ })
		return nil
	case isFatal(err) || errors.Is(err, kerr.OffsetMetadataTooLarge) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("committing offsets: %w", err)
	}
	t.rt.count(func(n *Totals) { n.CommitErrors++ })
	if errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.UnknownMemberID) {
		// Others may run the tasks by now. kgo learns it too when it joins again, and reports them lost.
		t.log.Warn("the group does not know this member any more; standing still until it joined again", "err", err)
		t.fenced = true
		t.client.ForceRebalance()
		return nil
	}
	t.log.Warn("offsets could not be committed; trying again with the next commit", "err", err)
	return nil
}

const (
	noTime     window.Instant = -1
	timePrefix                = "millrace/1 time="
)

// encodeTime is the metadata of a committed offset (docs/format/streams-group.md).
func encodeTime(at window.Instant) string {
	if at < 0 {
		return ""
	}
	return timePrefix + strconv.FormatInt(int64(at), 10)
}

// decodeTime is the inverse of encodeTime; what it does not know is no time.
func decodeTime(metadata string) window.Instant {
	text, ok := strings.CutPrefix(metadata, timePrefix)
	if !ok {
		return noTime
	}
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil || at < 0 || strconv.FormatInt(at, 10) != text {
		return noTime
	}
	return window.Instant(at)
}
