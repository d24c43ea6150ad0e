package partition

import (
	"errors"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/replica"
	"github.com/millrace/millrace/broker/internal/storage"
)

// Isolation is how far a reader may see.
type Isolation int8

const (
	// ReadUncommitted sees up to the high watermark.
	ReadUncommitted Isolation = iota
	// ReadCommitted sees up to the last stable offset.
	ReadCommitted
	// ReadReplica sees up to the end of the log, as followers do.
	ReadReplica
)

// ReadRequest asks for records.
type ReadRequest struct {
	From      ident.Offset
	Isolation Isolation
	// BytesMax bounds the answer; with AtLeastOne a first batch that is larger
	// is returned nevertheless.
	BytesMax   int
	AtLeastOne bool
	// Epoch is the reader's idea of the leader epoch; NoLeaderEpoch means
	// any. Mind that the zero value is epoch 0.
	Epoch ident.LeaderEpoch
}

// Marks are the offsets that every answer carries.
type Marks struct {
	// Start is the first offset that may be read, End the end of the log.
	Start, End ident.Offset
	// HighWatermark is the end of what is safe on all in-sync replicas.
	HighWatermark ident.Offset
	// LastStable is the end of what lies before the first open transaction; it
	// is never above HighWatermark.
	LastStable ident.Offset
}

// visibleEnd is where the reader's view ends.
func (m Marks) visibleEnd(iso Isolation) ident.Offset {
	switch iso {
	case ReadCommitted:
		return m.LastStable
	case ReadReplica:
		return m.End
	}
	return m.HighWatermark
}

// Marks returns the offsets.
func (p *Partition) Marks() Marks {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.marks()
}

// marks is Marks with the lock held.
func (p *Partition) marks() Marks {
	m := Marks{Start: p.replica.Start(), End: p.replica.End(), HighWatermark: p.replica.HighWatermark()}
	m.LastStable = m.HighWatermark
	if first, ok := p.producers.FirstUnstable(); ok {
		m.LastStable = min(m.LastStable, first)
	}
	return m
}

// ReadResult is what a read found.
type ReadResult struct {
	Marks
	// Records are whole batches; the first may begin below From. The caller
	// closes it.
	Records storage.Chunk
}

// Read returns records that are there; it never waits. Errors are
// ErrNotLeader, EpochError, storage.OutOfRangeError (the marks are set then),
// ErrStorage, ErrClosed and ErrDeleted.
func (p *Partition) Read(r ReadRequest) (ReadResult, error) {
	p.mu.Lock()
	if err := p.checkLeader(r.Epoch); err != nil {
		p.mu.Unlock()
		return ReadResult{}, err
	}
	log, res := p.log, ReadResult{Marks: p.marks()}
	p.mu.Unlock()

	if r.From < res.Start || r.From > res.End {
		return res, &storage.OutOfRangeError{Offset: r.From, Start: res.Start, End: res.End}
	}
	end := res.visibleEnd(r.Isolation)
	if r.From >= end {
		return res, nil
	}
	var err error
	res.Records, err = log.Read(r.From, end, r.BytesMax, r.AtLeastOne)
	return res, p.readFailed("reading", err)
}

// readFailed turns an error of the log into one of the partition, which goes off
// line when the log has failed for good.
func (p *Partition) readFailed(doing string, err error) error {
	var outOfRange *storage.OutOfRangeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &outOfRange):
		return err
	case errors.Is(err, storage.ErrFailed):
		return p.withCalls(func(c *calls) error {
			p.fail(c, err)
			return p.gone
		})
	}
	if gone := p.Err(); gone != nil {
		return gone // it was closed or deleted meanwhile, files and all
	}
	return storageError(doing, err)
}

// working returns the log and the marks, or why there is none.
func (p *Partition) working() (*storage.Log, Marks, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log, p.marks(), p.gone
}

// OffsetForTime returns the first record with a time of at least ms that the
// isolation lets the reader see; ok is false when there is none.
func (p *Partition) OffsetForTime(ms int64, iso Isolation) (s storage.Stamp, ok bool, err error) {
	log, marks, err := p.working()
	if err != nil {
		return storage.Stamp{}, false, err
	}
	s, ok, err = log.OffsetForTime(ms)
	if err != nil {
		return storage.Stamp{}, false, p.readFailed("looking up a time", err)
	}
	if !ok || s.Offset >= marks.visibleEnd(iso) {
		return storage.Stamp{}, false, nil
	}
	return s, true, nil
}

// MaxTimestamp returns the first record that has the highest time, ok is false
// when there is none or the reader may not see it yet.
func (p *Partition) MaxTimestamp(iso Isolation) (s storage.Stamp, ok bool, err error) {
	log, marks, err := p.working()
	if err != nil {
		return storage.Stamp{}, false, err
	}
	s, ok, err = log.MaxTimestamp()
	if err != nil {
		return storage.Stamp{}, false, p.readFailed("looking up the highest time", err)
	}
	if !ok || s.Offset >= marks.visibleEnd(iso) {
		return storage.Stamp{}, false, nil
	}
	return s, true, nil
}

// EpochAt returns the leader epoch of the record at offset o, which
// ListOffsets answers with; NoLeaderEpoch when the log cannot say.
func (p *Partition) EpochAt(o ident.Offset) ident.LeaderEpoch {
	log, _, err := p.working()
	if err != nil {
		return ident.NoLeaderEpoch
	}
	return log.EpochAt(o)
}

// EndOffsetForEpoch returns the largest epoch not above the one asked for and
// where it ends; NoLeaderEpoch and NoOffset when the log never knew. A log that
// does not work is an error: a consumer would take "never" for lost records, and
// start over.
func (p *Partition) EndOffsetForEpoch(epoch ident.LeaderEpoch) (ident.LeaderEpoch, ident.Offset, error) {
	log, _, err := p.working()
	if err != nil {
		return ident.NoLeaderEpoch, ident.NoOffset, err
	}
	known, end := log.EpochEnd(epoch)
	return known, end, nil
}

// Replay calls f with every batch from offset from on up to the end of the log.
// The view is valid until f returns.
func (p *Partition) Replay(from ident.Offset, f func(batch.View) error) error {
	log, _, err := p.working()
	if err != nil {
		return err
	}
	return log.Replay(from, f)
}

// Size returns the bytes of all segments, 0 when the partition does not work.
func (p *Partition) Size() int64 {
	log, _, err := p.working()
	if err != nil {
		return 0
	}
	return log.Size()
}

// DeleteRecords makes before the start of the log; NoOffset stands for the high
// watermark. It returns the new start once that is durable, so it blocks for
// the disk. An offset above the high watermark is a storage.OutOfRangeError.
func (p *Partition) DeleteRecords(before ident.Offset) (ident.Offset, error) {
	p.files.RLock()
	defer p.files.RUnlock()
	if err := p.CheckLeader(ident.NoLeaderEpoch); err != nil {
		return ident.NoOffset, err
	}
	log, marks, err := p.working()
	if err != nil {
		return ident.NoOffset, err
	}
	if before == ident.NoOffset {
		before = marks.HighWatermark
	}
	if before < 0 || before > marks.HighWatermark {
		return ident.NoOffset, &storage.OutOfRangeError{Offset: before, Start: marks.Start, End: marks.HighWatermark}
	}
	if before <= marks.Start {
		return marks.Start, nil
	}
	if err := p.secure(log); err != nil {
		return ident.NoOffset, p.readFailed("deleting records", err)
	}
	if err := log.AdvanceStart(before); err != nil {
		return ident.NoOffset, p.readFailed("deleting records", err)
	}
	start := p.startMoved(log)
	if p.cfg.Hooks.StartAdvanced != nil {
		if err := p.cfg.Hooks.StartAdvanced(); err != nil {
			return ident.NoOffset, storageError("writing down the start of the log", err)
		}
	}
	return start, nil
}

// startMoved follows the start of log and returns it.
func (p *Partition) startMoved(log *storage.Log) ident.Offset {
	start := log.Start()
	_ = p.withCalls(func(c *calls) error {
		if p.log == log && start > p.replica.Start() {
			p.step(c, replica.LogStartMoved{Start: start})
			p.watchers.notify(c)
		}
		return nil
	})
	return start
}

// ApplyRetention deletes old segments and forgets idle producers.
func (p *Partition) ApplyRetention(now time.Time) (storage.Deleted, error) {
	p.files.RLock()
	defer p.files.RUnlock()
	log, marks, err := p.working()
	if err != nil {
		return storage.Deleted{}, err
	}
	if p.settings.Load().Log.Delete {
		if err := p.secure(log); err != nil {
			return storage.Deleted{}, p.readFailed("applying retention", err)
		}
	}
	deleted, err := log.ApplyRetention(now, marks.HighWatermark)
	start := p.startMoved(log)
	if err != nil {
		return deleted, p.readFailed("applying retention", err)
	}
	if deleted.Segments > 0 {
		p.dropSnapshotsBelow(start)
	}
	p.mu.Lock()
	p.producers.Expire(now.Add(-p.settings.Load().ProducerExpiry).UnixMilli())
	p.mu.Unlock()
	return deleted, nil
}
