package partition

import (
	"errors"
	"fmt"
	"io/fs"
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
// begun, one at the end, and in between one whenever many bytes came since the
// last, which then replaces the last of its kind. They are a short cut: any of
// them may be missing or torn, and then an older one and more of the log are
// read instead. Two things must never happen:
//
//   - A snapshot is used that knows batches that the log has lost. So those
//     beyond the end are removed, durably, before anything is appended.
//   - Batches are deleted that no durable snapshot knows: a crash would forget
//     what their producers wrote, or go back to what they wrote long before. So
//     one is secured before the start of the log moves.

// snapshotEveryBytes bounds how much of the log a start has to read for the
// sake of the producers.
const snapshotEveryBytes = 64 << 20

const (
	snapshotSuffix = ".snapshot"
	segmentSuffix  = ".log"
)

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

// snapshotDue takes the snapshot of a segment that was begun before or by an
// append, or one in between. The state does not know the append's batches yet.
// A batch with a producer is always appended alone, so that also when the
// append rolled between two batches, the state is that of the roll. The lock is
// held.
func (p *Partition) snapshotDue(a storage.Appended) {
	at := ident.Offset(p.rolledAt.Swap(int64(ident.NoOffset)))
	rolled := at >= a.Base && at < a.End
	p.snapshotBytes += a.Bytes
	switch {
	case rolled:
	case p.snapshotBytes > p.snapshotEvery:
		at = a.Base
	default:
		return
	}
	interim := p.interimAt
	err := p.takeSnapshot(at, false)
	if err == nil && !rolled {
		p.interimAt = at
	}
	if err == nil && interim != ident.NoOffset && interim != at && interim != p.securedAt {
		if rolled {
			p.interimAt = ident.NoOffset
		}
		err = p.removeSnapshots([]ident.Offset{interim}, false)
	}
	if err != nil {
		p.cfg.Logger.Warn("producer snapshots are out of date", "partition", p.Name().String(), "offset", at, "cause", err)
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
	p.snapshotAt, p.snapshotBytes = at, 0
	return nil
}

// secure makes a snapshot durable that knows every batch that log has now, and
// the batches too, so that no crash leaves a log that ends before it. After
// that, batches may be deleted.
func (p *Partition) secure(log *storage.Log) error {
	p.securing.Lock()
	defer p.securing.Unlock()
	p.mu.Lock()
	at, state := p.replica.End(), p.producers.Encode()
	was := p.securedAt
	p.mu.Unlock()
	if at == was {
		return nil
	}
	path := p.snapshotPath(at)
	if err := p.writeFile(path, state, true); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if _, err := log.Flush(); err != nil {
		return err
	}
	p.mu.Lock()
	p.securedAt = at
	if p.interimAt == at {
		p.interimAt = ident.NoOffset
	}
	p.mu.Unlock()
	if was == ident.NoOffset {
		return nil
	}
	return p.removeSnapshots([]ident.Offset{was}, false)
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

// snapshots lists where snapshots were taken and where segments begin, both in
// order.
func (p *Partition) snapshots() (taken, segments []ident.Offset, err error) {
	infos, err := p.cfg.FS.ReadDir(p.cfg.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("listing %s: %w", p.cfg.Dir, err)
	}
	for _, info := range infos {
		if at, ok := offsetOf(info.Name(), snapshotSuffix); ok {
			taken = append(taken, at)
		}
		if at, ok := offsetOf(info.Name(), segmentSuffix); ok {
			segments = append(segments, at)
		}
	}
	slices.Sort(taken)
	slices.Sort(segments)
	return taken, segments, nil
}

// offsetOf reads a file name of 20 digits and suffix.
func offsetOf(name, suffix string) (ident.Offset, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	at, err := strconv.ParseInt(digits, 10, 64)
	return ident.Offset(at), err == nil && at >= 0
}

// loadProducers rebuilds the state from the newest snapshot that can be read
// and the batches of log since then.
func (p *Partition) loadProducers(log *storage.Log) (*producer.State, error) {
	taken, segments, err := p.snapshots()
	if err != nil {
		return nil, err
	}
	beyond, _ := slices.BinarySearch(taken, log.End()+1)
	if err := p.removeSnapshots(taken[beyond:], true); err != nil {
		return nil, err
	}
	state, at := p.newestSnapshot(taken[:beyond])
	p.snapshotAt, p.snapshotBytes, p.interimAt, p.securedAt = at, 0, ident.NoOffset, ident.NoOffset
	if _, ofSegment := slices.BinarySearch(segments, at); !ofSegment {
		p.interimAt = at
	}
	if err := p.removeStray(taken[:beyond], segments, at); err != nil {
		return nil, err
	}
	from := max(log.Start(), at)
	now := p.cfg.Now().UnixMilli()
	err = log.Replay(from, func(v batch.View) error {
		if v.BaseOffset() < from {
			return nil
		}
		return replayProducer(state, v, p.cfg.Codecs, now)
	})
	return state, err
}

// newestSnapshot returns the newest of the snapshots that can be read, and
// where it was taken; an empty state and NoOffset when none can.
func (p *Partition) newestSnapshot(taken []ident.Offset) (*producer.State, ident.Offset) {
	for _, at := range slices.Backward(taken) {
		s, err := p.readSnapshot(at)
		if err == nil {
			return s, at
		}
		p.cfg.Logger.Warn("producer snapshot is of no use", "partition", p.Name().String(), "offset", at, "cause", err)
	}
	return &producer.State{}, ident.NoOffset
}

// removeStray removes the snapshots that were passed over, and those that
// belong to no segment, but for the one that is used and the one before: that
// may be the last durable one.
func (p *Partition) removeStray(taken, segments []ident.Offset, used ident.Offset) error {
	var unreadable, stray []ident.Offset
	for _, at := range taken {
		_, ofSegment := slices.BinarySearch(segments, at)
		switch {
		case at > used:
			unreadable = append(unreadable, at)
		case at < used && !ofSegment:
			stray = append(stray, at)
		}
	}
	return p.removeSnapshots(append(unreadable, stray[:max(0, len(stray)-1)]...), false)
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
		if err := p.cfg.FS.Remove(p.snapshotPath(o)); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
	taken, _, err := p.snapshots()
	if err == nil {
		below, _ := slices.BinarySearch(taken, start)
		err = p.removeSnapshots(taken[:max(0, below-1)], false)
	}
	if err != nil {
		p.cfg.Logger.Warn("old producer snapshots remain", "partition", p.Name().String(), "cause", err)
	}
}
