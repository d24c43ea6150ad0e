package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/connect/convert"
	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/sdk/connector"
)

// batchesInFlight bounds what a source task has read and the brokers have not
// acknowledged yet.
const batchesInFlight = 2

// sourceTask moves the records of one source task to topics.
type sourceTask struct {
	*task
	plugin     *host.Source
	client     *kgo.Client
	rules      *ruleBook // of topics, as the client knows them too
	key, value convert.Converter
	topic      string

	// acked holds the positions that were acknowledged and are not in the
	// offsets topic yet. Only the goroutine of settle uses it.
	acked map[string]string
}

// sent is a batch on its way to the brokers.
type sent struct {
	positions map[string]string
	records   int
	// pending counts the records without an answer; the last one closes done.
	pending atomic.Int64
	done    chan struct{}
	failure atomic.Pointer[sendError]
}

// sendError says which record a broker refused.
type sendError struct {
	topic string
	err   error
}

func (e *sendError) Error() string { return fmt.Sprintf("sending to topic %s: %v", e.topic, e.err) }
func (e *sendError) Unwrap() error { return e.err }

// run reads until the source ends (nil), fails, or ctx ends. Reading and
// waiting for acknowledgements overlap by [batchesInFlight].
//
// What was sent is always seen through: a stop ends the reading, and then the
// acknowledgements of what is on its way come in and are stored, so that a
// clean stop leaves nothing to come twice.
func (t *sourceTask) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sending, giveUp := lingering(ctx, stopTimeout)
	defer giveUp()
	flying := make(chan *sent, batchesInFlight)
	settled := make(chan struct{})
	var settleErr error
	go func() {
		defer close(settled)
		if settleErr = t.settle(sending, flying); settleErr != nil {
			cancel(settleErr) // ends the reader, which may be waiting in Read
		}
	}()
	err := t.read(ctx, sending, flying, settled)
	close(flying)
	<-settled
	switch {
	case settleErr != nil:
		return settleErr
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// read passes the gate before and after it waits for records: a connector that
// was paused meanwhile sends nothing. sending outlasts ctx for a while.
func (t *sourceTask) read(ctx, sending context.Context, flying chan<- *sent, settled <-chan struct{}) error {
	for {
		if err := t.gate.pass(ctx); err != nil {
			return err
		}
		batch, readErr := t.plugin.Read(ctx)
		t.noteProgress()
		if batch != nil && batch.Len() > 0 {
			if err := t.gate.pass(ctx); err != nil {
				return err // their positions are not stored, so they come again
			}
			b, err := t.send(sending, batch)
			select {
			case flying <- b:
			case <-settled: // it has failed, and says why
				return context.Cause(ctx)
			}
			if err != nil {
				return err
			}
		}
		if readErr != nil {
			return readErr
		}
	}
}

func (t *sourceTask) noteProgress() {
	if s := t.plugin.Status(); s.HasProgress {
		t.progress.Store(&Progress{Done: s.Progress.Done, Total: s.Progress.Total, Unit: s.Progress.Unit})
	}
}

// send hands a batch to the client, which keeps its order in each partition.
// After an error the batch ends before the record that it is about. When ctx
// ends, what has no answer yet is given up: it may have been written all the
// same, and will be sent again.
func (t *sourceTask) send(ctx context.Context, batch *connector.Batch) (*sent, error) {
	b := &sent{positions: map[string]string{}, done: make(chan struct{})}
	b.pending.Store(1) // held by this function, so that done is closed once
	defer b.answer()
	for i, r := range batch.Rows() {
		record, err := t.record(r)
		if err == nil {
			err = t.rules.of(ctx, t.client, record.Topic).check(record)
		}
		if err == nil {
			b.pending.Add(1)
			t.client.Produce(ctx, record, t.answered(b))
		} else if errors.Is(err, errNoTopic) {
			return b, err // every record would be refused: a mistake in the configuration
		} else if err := t.tolerate(fmt.Errorf("record %d at %s of %s: %w", i, r.Origin.Position, r.Origin.Partition, err)); err != nil {
			return b, err
		}
		b.positions[r.Origin.Partition] = r.Origin.Position
		b.records++
	}
	return b, nil
}

// answered notes the outcome of one record. A topic that cannot be makes it a
// bad record; anything else fails the task, as it is about a whole batch.
func (t *sourceTask) answered(b *sent) func(*kgo.Record, error) {
	return func(r *kgo.Record, err error) {
		if errors.Is(err, kerr.InvalidTopicException) {
			err = t.tolerate(fmt.Errorf("a record for topic %q: %w", r.Topic, err))
		}
		if errors.Is(err, kerr.UnknownTopicID) { // a client stays with the topic that it knew
			err = fmt.Errorf("the topic was deleted meanwhile; restart the task to write to a new one of its name: %w", err)
		}
		if err != nil {
			b.failure.CompareAndSwap(nil, &sendError{r.Topic, err})
		}
		b.answer()
	}
}

func (b *sent) answer() {
	if b.pending.Add(-1) == 0 {
		close(b.done)
	}
}

var errNoTopic = errors.New("the connector names no topic for its records: give it the setting topic")

func (t *sourceTask) record(r *connector.Record) (*kgo.Record, error) {
	key, err := t.key.Encode(r.Key)
	if err != nil {
		return nil, fmt.Errorf("its key: %w", err)
	}
	value, err := t.value.Encode(r.Value)
	if err != nil {
		return nil, fmt.Errorf("its value: %w", err)
	}
	record := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: key, Value: value, Timestamp: r.Timestamp}
	if record.Topic == "" {
		record.Topic = t.topic
	}
	if record.Topic == "" {
		return nil, errNoTopic
	}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	return record, nil
}

// settle waits for batches in order and stores their positions, once an
// interval and at the end. It returns when flying is closed, or on an error.
// Either way it has stored what was acknowledged. ctx outlasts a stop for a while.
func (t *sourceTask) settle(ctx context.Context, flying <-chan *sent) error {
	t.acked = map[string]string{}
	ticker := time.NewTicker(t.worker.cfg.CommitInterval)
	defer ticker.Stop()
	for {
		select {
		case b, ok := <-flying:
			if !ok {
				return t.store(ctx)
			}
			if err := t.await(b); err != nil {
				return errors.Join(err, t.store(ctx))
			}
		case <-ticker.C:
			if err := t.store(ctx); err != nil {
				return err
			}
		}
	}
}

// await waits until every record of the batch has its answer, which takes a
// while after a stop at the most: see send.
func (t *sourceTask) await(b *sent) error {
	<-b.done
	if failure := b.failure.Load(); failure != nil {
		return failure
	}
	maps.Copy(t.acked, b.positions)
	t.records.Add(int64(b.records))
	return nil
}

// store writes the positions of what was acknowledged since the last time, and
// then tells the source.
func (t *sourceTask) store(ctx context.Context) error {
	if len(t.acked) == 0 {
		return nil
	}
	if err := t.worker.offsets.store(ctx, t.connector, t.acked); err != nil {
		return err
	}
	positions := t.acked
	t.acked = map[string]string{}
	if err := t.plugin.Ack(ctx, positions); err != nil && ctx.Err() == nil {
		return fmt.Errorf("acknowledging to the source: %w", err)
	}
	return nil
}
