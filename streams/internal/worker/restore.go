package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/millrace/millrace/streams/state"
)

const (
	// restoreBatchBytes is how much is restored between two commits.
	restoreBatchBytes = 8 << 20
	// restoresMax is how many tasks of a process read changelogs at the same time.
	restoresMax = 8
)

// restore opens the stores of a task and brings them up to the ends of their changelogs. It runs in a goroutine of its
// own. It takes the task's folder, and keeps it unless it fails.
func (rt *Runtime) restore(ctx context.Context, r *taskRun) (_ *state.Stores, err error) {
	if err := rt.dir.hold(ctx, r.id); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			rt.dir.release(r.id)
		}
	}()
	stores, err := rt.openStores(r)
	if err != nil {
		return nil, err
	}
	if len(r.out.changelogs) == 0 {
		return stores, nil
	}
	if err := rt.inTurn(ctx, func() error { return rt.restoreStores(ctx, r, stores) }); err != nil {
		return nil, errors.Join(err, stores.Close())
	}
	return stores, nil
}

// inTurn runs one of at most restoresMax restores.
func (rt *Runtime) inTurn(ctx context.Context, restore func() error) error {
	select {
	case rt.restores <- struct{}{}:
		defer func() { <-rt.restores }()
		return restore()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openStores opens a task's folder. A corrupt one is removed, which is the one reason for a full restore that concerns
// all of its stores.
func (rt *Runtime) openStores(r *taskRun) (*state.Stores, error) {
	rt.mu.Lock()
	memory := rt.memory
	rt.mu.Unlock()
	cfg := state.Config{
		Dir: rt.dir.taskDir(r.id), Memory: memory, Capture: r.out.capture, Log: rt.cfg.Log,
		ChangelogTopic: func(store string) string { return r.out.changelogs[store] },
	}
	for _, name := range r.program.Sub.Stores {
		if s, ok := rt.cfg.Topology.Store(name); ok {
			cfg.Specs = append(cfg.Specs, s.Spec)
		}
	}
	stores, err := state.Open(cfg)
	if !errors.Is(err, state.ErrCorrupt) {
		return stores, err
	}
	rt.cfg.Log.Error("restoring from the start", "task", r.id, "reason", "the state folder is corrupt", "err", err)
	if err := os.RemoveAll(cfg.Dir); err != nil {
		return nil, fmt.Errorf("removing the corrupt state of task %v: %w", r.id, err)
	}
	return state.Open(cfg)
}

// changelog is what one store has to be restored from.
type changelog struct {
	store, topic string
	id           [16]byte
	start, end   int64 // of the partition, when the restore began
	from         int64 // where to begin
}

func (rt *Runtime) restoreStores(ctx context.Context, r *taskRun, stores *state.Stores) error {
	logs, err := rt.findChangelogs(ctx, r)
	if err != nil {
		return err
	}
	checkpoint := stores.Checkpoint()
	checkpoint.Changelogs = maps.Clone(checkpoint.Changelogs)
	if checkpoint.Changelogs == nil {
		checkpoint.Changelogs = map[string]state.Position{}
	}
	if len(checkpoint.Changelogs) == 0 {
		checkpoint.Committed = rt.cfg.Now() // a new folder has no old tombstones to miss
	}
	for i := range logs {
		l := &logs[i]
		var reason string
		l.from, reason = rt.whereToBegin(l, checkpoint)
		if reason != "" {
			rt.cfg.Log.Info("restoring from the start", "task", r.id, "store", l.store, "changelog", l.topic, "reason", reason, "from", l.from, "to", l.end)
			rt.count(func(n *Totals) { n.Restores++ })
			if err := stores.Reset(l.store); err != nil {
				return err
			}
		}
		checkpoint.Changelogs[l.store] = state.Position{TopicID: l.id, Next: l.from}
		r.restoring.total.Add(max(l.end-l.from, 0))
	}
	for _, l := range logs {
		if err := rt.restoreStore(ctx, r, stores, l, checkpoint); err != nil {
			return fmt.Errorf("store %q from changelog %s[%d]: %w", l.store, l.topic, r.id.Partition, err)
		}
	}
	checkpoint.Committed = rt.cfg.Now()
	return stores.Commit(checkpoint)
}

// whereToBegin returns the first offset that a store lacks. A reason says that what it has is of no use, so that it is
// to be restored from the start.
func (rt *Runtime) whereToBegin(l *changelog, c state.Checkpoint) (from int64, reason string) {
	at, ok := c.Changelogs[l.store]
	switch {
	case !ok && l.end == l.start:
		return l.end, ""
	case !ok:
		return l.start, "there is no state here"
	case at.TopicID != l.id:
		return l.start, "the changelog topic was deleted and made again"
	case at.Next < l.start:
		return l.start, fmt.Sprintf("the changelog begins at offset %d, after the stored offset %d", l.start, at.Next)
	case at.Next > l.end:
		return l.start, fmt.Sprintf("the changelog ends at offset %d, before the stored offset %d", l.end, at.Next)
	}
	if age, keeps := rt.cfg.Now().Sub(c.Committed), rt.topics.tombstones[l.topic]; age > keeps && at.Next < l.end {
		return l.start, fmt.Sprintf("the state is %v old, and the changelog forgets deletes after %v", age.Round(time.Second), keeps)
	}
	return at.Next, ""
}

// restoreStore applies a changelog from l.from to l.end. The end was taken after this process lost or gave up everything
// that it might have had on its way, and the task's owner before us writes no more.
func (rt *Runtime) restoreStore(ctx context.Context, r *taskRun, stores *state.Stores, l changelog, c state.Checkpoint) error {
	reader := rt.changelogReader(l.topic, r.id.Partition)
	for at := l.from; at < l.end; {
		records, next, err := reader.read(ctx, at)
		if err != nil {
			return err
		}
		for _, rec := range records {
			if rec.Attrs.IsControl() || rec.Offset >= l.end {
				continue
			}
			if err := stores.Restore(l.store, rec.Key, rec.Value, rec.Offset); err != nil {
				return err
			}
		}
		r.restoring.done.Add(min(next, l.end) - at)
		rt.count(func(n *Totals) { n.Restored += int64(len(records)) })
		at = min(next, l.end)
		c.Changelogs[l.store] = state.Position{TopicID: l.id, Next: at}
		if stores.UncommittedBytes() > restoreBatchBytes {
			partly := c
			partly.Changelogs = maps.Clone(c.Changelogs)
			if err := stores.Commit(partly); err != nil {
				return err
			}
		}
	}
	return nil
}

// findChangelogs looks up the changelogs of a task and their ends, until it gets them.
func (rt *Runtime) findChangelogs(ctx context.Context, r *taskRun) ([]changelog, error) {
	var logs []changelog
	for _, store := range slices.Sorted(maps.Keys(r.out.changelogs)) {
		topic := r.out.changelogs[store]
		logs = append(logs, changelog{store: store, topic: topic, id: rt.topics.ids[topic]})
	}
	topics := slices.Collect(maps.Values(r.out.changelogs))
	err := rt.retry(ctx, "finding the ends of changelogs", func(ctx context.Context) error {
		starts, err := rt.admin.ListStartOffsets(ctx, topics...)
		if err != nil {
			return err
		}
		ends, err := rt.admin.ListEndOffsets(ctx, topics...)
		if err != nil {
			return err
		}
		for i := range logs {
			start, ok1 := starts.Lookup(logs[i].topic, r.id.Partition)
			end, ok2 := ends.Lookup(logs[i].topic, r.id.Partition)
			if !ok1 || !ok2 {
				return fmt.Errorf("changelog %s has no partition %d", logs[i].topic, r.id.Partition)
			}
			if err := errors.Join(start.Err, end.Err); err != nil {
				return err
			}
			logs[i].start, logs[i].end = start.Offset, end.Offset
		}
		return nil
	})
	return logs, err
}
