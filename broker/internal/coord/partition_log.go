package coord

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
)

const (
	// CommitTimeoutDefault is Kafka's offsets.commit.timeout.ms.
	CommitTimeoutDefault = 5 * time.Second
	// BatchBytesMaxDefault is Kafka's max.message.bytes.
	BatchBytesMaxDefault = 1048588
)

// PartitionLog is the [Log] of a partition that this broker leads. All fields
// but those marked optional are required.
type PartitionLog struct {
	Partition *partition.Partition
	// Epoch is the leader epoch that the shard was taken over in. When
	// another begins, appends fail, so that a machine that has not heard of it
	// yet cannot write.
	Epoch ident.LeaderEpoch
	// Codecs are the broker's.
	Codecs *batch.Codecs
	// Codec compresses what is written. Optional: nothing is compressed.
	Codec batch.Codec
	// BatchBytesMax is the largest batch in bytes; what needs more fails with
	// ErrTooLarge. Optional: BatchBytesMaxDefault.
	BatchBytesMax int
	// CommitTimeout is how long a batch may take to be committed before those
	// who wait are told so. Optional: CommitTimeoutDefault.
	CommitTimeout time.Duration
	// Now gives records their times.
	Now func() time.Time
}

// Append implements [Log].
func (l *PartitionLog) Append(records []Record, done func(error)) error {
	b := batch.NewBuilder(l.Codecs, l.Codec)
	now := l.Now().UnixMilli()
	for _, r := range records {
		b.Append(batch.Record{Timestamp: now, Key: r.Key, Value: r.Value})
	}
	view, err := b.Build()
	if err != nil {
		return fmt.Errorf("building a batch of %d records: %w", len(records), err)
	}
	if limit := cmp.Or(l.BatchBytesMax, BatchBytesMaxDefault); view.Size() > limit {
		return fmt.Errorf("%w: %d bytes are more than %d", ErrTooLarge, view.Size(), limit)
	}
	a := &appending{}
	wait := l.Partition.Append(partition.AppendRequest{
		Batches: view, Acks: partition.AcksAll, Origin: partition.FromBroker, Epoch: l.Epoch,
	}, func(r partition.AppendResult) {
		if r.Err != nil && r.Base == ident.NoOffset {
			a.refused.Store(&r.Err) // nothing was written: Append reports it
			return
		}
		if timer := a.timer.Load(); timer != nil {
			timer.Stop()
		}
		done(translate(r.Err))
	})
	if refused := a.refused.Load(); refused != nil {
		return translate(*refused)
	}
	if wait != nil {
		// Should the batch be committed just now, the timer is left to find
		// nothing to cancel.
		a.timer.Store(time.AfterFunc(cmp.Or(l.CommitTimeout, CommitTimeoutDefault), func() { wait.Cancel(partition.ErrTimedOut) }))
	}
	return nil
}

// appending is an append under way. Its result may come from another goroutine
// while Append is still at work.
type appending struct {
	refused atomic.Pointer[error]
	timer   atomic.Pointer[time.Timer]
}

// Replay implements [Log]. It skips what belongs to transactions: no
// coordinator has any yet.
func (l *PartitionLog) Replay(ctx context.Context, each func(Record) error) error {
	return l.Partition.Replay(l.Partition.Marks().Start, func(v batch.View) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if v.IsControl() || v.IsTransactional() {
			return nil
		}
		var stopped error
		err := batch.Records(v, l.Codecs, func(r batch.Record) bool {
			// The record's bytes are the batch's; Clone keeps nil and empty
			// apart, as tombstones demand.
			stopped = each(Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
			if stopped != nil {
				stopped = fmt.Errorf("record %d of %v: %w", r.Offset, l.Partition.Name(), stopped)
			}
			return stopped == nil
		})
		return errors.Join(err, stopped)
	})
}

// translate puts a partition's error into the terms of this package.
func translate(err error) error {
	if err == nil {
		return nil
	}
	as := ErrUnavailable
	if _, ok := errors.AsType[*partition.EpochError](err); ok {
		as = ErrNotCoordinator
	}
	for _, gone := range []error{partition.ErrNotLeader, partition.ErrClosed, partition.ErrDeleted} {
		if errors.Is(err, gone) {
			as = ErrNotCoordinator
		}
	}
	return fmt.Errorf("%w: %w", as, err)
}
