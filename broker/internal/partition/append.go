package partition

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/replica"
	"github.com/millrace/millrace/broker/internal/storage"
)

// recompressBytesMax bounds what one batch may be decompressed to in memory
// when its topic wants another codec: 128 MiB.
const recompressBytesMax = 128 << 20

// Acks is what an append waits for.
type Acks int16

// The values of Kafka's protocol.
const (
	AcksNone   Acks = 0  // nothing
	AcksLeader Acks = 1  // the leader has the records safe
	AcksAll    Acks = -1 // every in-sync replica has
)

// Origin says who wrote a batch.
type Origin int8

const (
	// FromClient is a Produce request: exactly one batch, all checks.
	FromClient Origin = iota
	// FromBroker is a coordinator of this broker: any number of batches
	// without a producer id, of whose records nothing is checked.
	FromBroker
)

// AppendRequest is a write.
type AppendRequest struct {
	// Batches is the record bytes. They are changed in place, and not used
	// any more when Append returns.
	Batches []byte
	Acks    Acks
	Origin  Origin
	// Epoch is the leader epoch that the writer relies on; NoLeaderEpoch
	// means any. Mind that the zero value is epoch 0.
	Epoch ident.LeaderEpoch
}

// AppendResult is how a write ended.
type AppendResult struct {
	// Err is nil when the write is acknowledged as asked. The other fields are
	// set as far as they are known also when it is not.
	Err error
	// Base is the offset of the first record, NoOffset when nothing was
	// written; End is the offset after the last.
	Base, End ident.Offset
	// AppendTime is the broker's time in milliseconds when the topic has
	// log-append time, else batch.NoTimestamp.
	AppendTime int64
	// LogStart is the start of the log.
	LogStart ident.Offset
	// Duplicate says that the batch was written before, at Base.
	Duplicate bool
}

// Append checks and writes batches and then waits without a goroutine: done is
// called exactly once, when the acknowledgement that was asked for is there, or
// cannot come any more. It is called on any goroutine, possibly before Append
// returns, without locks held; it must not block.
//
// Appends of one goroutine are written in the order of their calls. The
// returned Wait can give up waiting; it is nil when done was called already.
func (p *Partition) Append(r AppendRequest, done func(AppendResult)) *Wait {
	w := &Wait{p: p, done: done, result: AppendResult{
		Base: ident.NoOffset, End: ident.NoOffset, AppendTime: batch.NoTimestamp, LogStart: ident.NoOffset,
	}}
	v, err := p.check(&r)
	parked := false
	if err == nil {
		err = p.withCalls(func(c *calls) error {
			var err error
			parked, err = p.append(c, r, v, w)
			return err
		})
	}
	if err != nil {
		w.result.Err = err
		done(w.result)
		return nil
	}
	if !parked {
		return nil
	}
	return w
}

// check holds a write against all rules that need no lock, and brings it into
// the form in which it is stored. It returns the one batch of a client.
func (p *Partition) check(r *AppendRequest) (batch.View, error) {
	if r.Acks != AcksNone && r.Acks != AcksLeader && r.Acks != AcksAll {
		return nil, fmt.Errorf("%w: got %d", ErrAcks, r.Acks)
	}
	if r.Origin == FromBroker {
		return nil, checkFromBroker(r.Batches)
	}
	s := p.settings.Load()
	v, err := onlyBatch(r.Batches)
	if err != nil {
		return nil, err
	}
	if len(v) > s.BatchBytesMax {
		return nil, &TooLargeError{Size: len(v), Max: s.BatchBytesMax}
	}
	if v.IsTransactional() {
		// Nobody would ever end it, and hold readers up for ever.
		return nil, fmt.Errorf("%w: it belongs to a transaction that was not begun", batch.ErrInvalid)
	}
	facts, err := s.rules(p.cfg.Now()).Check(v, p.cfg.Codecs)
	if err != nil {
		return nil, err
	}
	if facts.MaxTimestamp != v.MaxTimestamp() {
		v.SetMaxTimestamp(batch.CreateTime, facts.MaxTimestamp)
	}
	if s.Recompress {
		if v, err = batch.Recompress(v, s.Codec, p.cfg.Codecs, recompressBytesMax); err != nil {
			return nil, err
		}
		if len(v) > s.BatchBytesMax {
			return nil, &TooLargeError{Size: len(v), Max: s.BatchBytesMax}
		}
		r.Batches = v
	}
	return v, nil
}

// onlyBatch frames the single batch that a Produce request may hold for a
// partition.
func onlyBatch(b []byte) (batch.View, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: there is none", ErrBatchCount)
	}
	v, rest, err := batch.Next(b)
	if errors.Is(err, batch.ErrShort) {
		return nil, fmt.Errorf("%w: it says it is longer than the %d bytes that came", batch.ErrInvalid, len(b))
	}
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes follow the first", ErrBatchCount, len(rest))
	}
	return v, nil
}

func checkFromBroker(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: there is none", ErrBatchCount)
	}
	for len(b) > 0 {
		v, rest, err := batch.Next(b)
		if err != nil {
			return err
		}
		if v.HasProducer() {
			return fmt.Errorf("%w: batches of the broker have no producer", batch.ErrInvalid)
		}
		b = rest
	}
	return nil
}

// append writes with the lock held. v is the batch of a client, nil for the
// broker's own. It reports whether w waits; else w is among the calls.
func (p *Partition) append(c *calls, r AppendRequest, v batch.View, w *Wait) (parked bool, err error) {
	if err := p.checkLeader(r.Epoch); err != nil {
		return false, err
	}
	w.result.LogStart = p.replica.Start()
	if r.Acks == AcksAll && !p.enoughInSync() {
		return false, fmt.Errorf("%w: %d of at least %d", ErrNotEnoughReplicas, len(p.replica.InSync()), p.settings.Load().InSyncMin)
	}
	if v != nil && v.HasProducer() {
		verdict, err := p.producers.Check(v)
		if err != nil {
			return false, err
		}
		if o := verdict.Original; verdict.Duplicate {
			w.result.Base, w.result.End, w.result.Duplicate = o.FirstOffset, o.LastOffset+1, true
			if p.settings.Load().TimestampType == batch.LogAppendTime {
				w.result.AppendTime = o.Timestamp
			}
			return p.park(c, r.Acks, w), nil
		}
	}
	if err := p.write(c, r, v, w); err != nil {
		return false, err
	}
	return p.park(c, r.Acks, w), nil
}

// write gives the batches their offsets. State moves on only after the log has
// taken them.
func (p *Partition) write(c *calls, r AppendRequest, v batch.View, w *Wait) error {
	now := p.cfg.Now().UnixMilli()
	if v != nil && p.settings.Load().TimestampType == batch.LogAppendTime {
		v.SetMaxTimestamp(batch.LogAppendTime, now)
		w.result.AppendTime = now
	}
	appended, err := p.log.AppendAsLeader(r.Batches, p.replica.Epoch())
	if err != nil {
		return p.writeFailed(c, err)
	}
	p.snapshotDue(appended)
	if v != nil {
		p.producers.Apply(v, now)
	}
	w.result.Base, w.result.End = appended.Base, appended.End
	p.unflushed += int64(appended.End - appended.Base)
	p.step(c, replica.LogEndMoved{End: appended.End})
	p.scheduleFlush()
	return nil
}

func (p *Partition) writeFailed(c *calls, err error) error {
	switch {
	case errors.Is(err, storage.ErrFailed):
		p.fail(c, err)
		return p.gone
	case errors.Is(err, storage.ErrTooLarge):
		return err
	}
	// The log took the partial write back: the disk may have room later.
	return storageError("appending", err)
}

// park has w wait for what acks asks for, or answers it at once when that is
// there already. A duplicate waits as the original does.
func (p *Partition) park(c *calls, acks Acks, w *Wait) bool {
	switch {
	case acks == AcksLeader && w.result.End > p.replica.LeaderSafe():
		p.waitLeader.add(w)
		return true
	case acks == AcksAll && w.result.End > p.replica.HighWatermark():
		p.waitAll.add(w)
		return true
	}
	c.done = append(c.done, w)
	return false
}
