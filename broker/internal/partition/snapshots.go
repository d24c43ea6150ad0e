package partition

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/producer"
	"github.com/millrace/millrace/broker/internal/storage"
)

// Snapshots of the producers' state lie in the log's folder, named after the
// offset before which they know every batch. One is taken when a segment is
// begun and one at the end. They are a short cut: any of them may be missing or
// torn, and then an older one and more of the log are read instead. What must
// never be used is one that knows batches that the log has lost, so those
// beyond the end are removed, durably, before anything is appended.

const snapshotSuffix = ".snapshot"

func (p *Partition) snapshotPath(at ident.Offset) string {
	return fmt.Sprintf("%s/%020d%s", p.cfg.Dir, at, snapshotSuffix)
}

// rolled is called by the log when a segment was begun: by an append, with the
// lock held, or by retention, without. So it only notes where.
func (p *Partition) rolled(base ident.Offset) {
	p.rolledAt.Store(int64(base))
	if p.cfg.Hooks.Rolled != nil {
		p.cfg.Hooks.Rolled()
	}
}

// snapshotRolled takes the snapshot of a segment that was begun before or by an
// append, whose batches the state does not know yet. A batch with a producer is
// always appended alone, so that also when the append rolled between two
// batches, the state is that of the roll. The lock is held.
func (p *Partition) snapshotRolled(a storage.Appended) {
	at := ident.Offset(p.rolledAt.Swap(int64(ident.NoOffset)))
	if at < a.Base || at >= a.End {
		return
	}
	if err := p.takeSnapshot(at, false); err != nil {
		p.cfg.Logger.Warn("no producer snapshot", "partition", p.Name().String(), "offset", at, "cause", err)
	}
}

// takeSnapshot writes the state, which knows every batch below at.
func (p *Partition) takeSnapshot(at ident.Offset, durable bool) error {
	if p.snapshotAt == at {
		return nil
	}
	path := p.snapshotPath(at)
	if err := p.writeFile(path, p.producers.Encode(), durable); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	p.snapshotAt = at
	return nil
}

func (p *Partition) writeFile(path string, b []byte, durable bool) (err error) {
	f, err := p.cfg.FS.OpenWrite(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(b))); err != nil {
		return err
	}
	if !durable {
		return nil
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return p.cfg.FS.SyncDir(p.cfg.Dir)
}

// snapshots lists where snapshots were taken, the oldest first.
func (p *Partition) snapshots() ([]ident.Offset, error) {
	infos, err := p.cfg.FS.ReadDir(p.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", p.cfg.Dir, err)
	}
	var out []ident.Offset
	for _, info := range infos {
		digits, ok := strings.CutSuffix(info.Name(), snapshotSuffix)
		if !ok {
			continue
		}
		if at, err := strconv.ParseInt(digits, 10, 64); err == nil && at >= 0 {
			out = append(out, ident.Offset(at))
		}
	}
	slices.Sort(out)
	return out, nil
}

// loadProducers rebuilds the state from the newest snapshot that can be read
// and the batches of log since then.
func (p *Partition) loadProducers(log *storage.Log) (*producer.State, error) {
	all, err := p.snapshots()
	if err != nil {
		return nil, err
	}
	beyond, _ := slices.BinarySearch(all, log.End()+1)
	if err := p.removeSnapshots(all[beyond:], true); err != nil {
		return nil, err
	}
	state, from := &producer.State{}, log.Start()
	p.snapshotAt = ident.NoOffset
	for _, at := range slices.Backward(all[:beyond]) {
		s, err := p.readSnapshot(at)
		if err == nil {
			state, from = s, max(from, at)
			p.snapshotAt = at
			break
		}
		p.cfg.Logger.Warn("producer snapshot is of no use", "partition", p.Name().String(), "offset", at, "cause", err)
		if err := p.removeSnapshots([]ident.Offset{at}, false); err != nil {
			return nil, err
		}
	}
	now := p.cfg.Now().UnixMilli()
	err = log.Replay(from, func(v batch.View) error {
		if v.BaseOffset() < from {
			return nil
		}
		return replayProducer(state, v, p.cfg.Codecs, now)
	})
	return state, err
}

// replayProducer takes note of a batch found in the log. Those without a
// snapshot count as written now, so that they are remembered long enough.
func replayProducer(s *producer.State, v batch.View, codecs *batch.Codecs, nowMs int64) error {
	if !v.IsControl() {
		s.Apply(v, nowMs)
		return nil
	}
	marker, ok, err := producer.ReadMarker(v, codecs)
	if err != nil || !ok {
		return err
	}
	s.ApplyMarker(v.ProducerID(), v.ProducerEpoch(), marker.CoordinatorEpoch, nowMs)
	return nil
}

func (p *Partition) readSnapshot(at ident.Offset) (s *producer.State, err error) {
	f, err := p.cfg.FS.Open(p.snapshotPath(at))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return producer.Decode(b)
}

func (p *Partition) removeSnapshots(at []ident.Offset, durable bool) error {
	if len(at) == 0 {
		return nil
	}
	for _, o := range at {
		if err := p.cfg.FS.Remove(p.snapshotPath(o)); err != nil {
			return fmt.Errorf("removing a producer snapshot: %w", err)
		}
	}
	if !durable {
		return nil
	}
	return p.cfg.FS.SyncDir(p.cfg.Dir)
}

// dropSnapshotsBelow removes the snapshots that no rebuild can need: all below
// start but the newest of them, which may be the only one.
func (p *Partition) dropSnapshotsBelow(start ident.Offset) {
	all, err := p.snapshots()
	if err == nil {
		below, _ := slices.BinarySearch(all, start)
		err = p.removeSnapshots(all[:max(0, below-1)], false)
	}
	if err != nil {
		p.cfg.Logger.Warn("old producer snapshots remain", "partition", p.Name().String(), "cause", err)
	}
}
