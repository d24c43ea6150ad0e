package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/connect/convert"
	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/sdk/connector"
)

// recordsPerWrite bounds a batch for a sink.
const recordsPerWrite = 5000

// sinkTask moves the records of topics to one sink task. It is a member of the
// connector's consumer group.
type sinkTask struct {
	*task
	plugin     *host.Sink
	client     *kgo.Client
	key, value convert.Converter
	dead       *deadLetters

	// written holds, for each partition, the last record that was written (or
	// given up) and whose offset is not committed yet.
	written map[string]map[int32]*kgo.Record
	dueAt   time.Time // when written has to be committed
}

// sinkGroup is the consumer group of a sink connector, as Kafka Connect names it.
func sinkGroup(connector string) string { return "connect-" + connector }

// run reads and writes until it fails or ctx ends. Rebalances wait while a
// batch is in hand; see revoked. After a stop the batch in hand is still
// written and committed, so that a clean stop leaves nothing to come twice.
func (t *sinkTask) run(ctx context.Context) error {
	t.written = map[string]map[int32]*kgo.Record{}
	working, cancel := lingering(ctx, stopTimeout)
	defer cancel()
	for ctx.Err() == nil {
		if t.gate.pass(ctx) != nil {
			break
		}
		records, err := t.poll(ctx)
		if err == nil && len(records) > 0 {
			err = t.writeAll(working, records)
		}
		if err == nil && t.isDue() {
			err = t.commit(working)
		}
		t.client.AllowRebalance()
		if err != nil {
			return err
		}
	}
	if err := t.commit(working); err != nil {
		return err
	}
	return ctx.Err()
}

// poll returns the next records, or none when a commit is due first.
func (t *sinkTask) poll(ctx context.Context) ([]*kgo.Record, error) {
	pollCtx := ctx
	if len(t.written) > 0 {
		var cancel context.CancelFunc
		pollCtx, cancel = context.WithDeadline(ctx, t.dueAt)
		defer cancel()
	}
	fetches := t.client.PollRecords(pollCtx, recordsPerWrite)
	if pollCtx.Err() != nil {
		return fetches.Records(), nil // run finds out which end it was
	}
	for _, e := range fetches.Errors() {
		// A topic that is not there yet, a leader that moves: the client tries
		// again by itself.
		if !kerr.IsRetriable(e.Err) {
			return nil, fmt.Errorf("reading topic %s, partition %d: %w", e.Topic, e.Partition, e.Err)
		}
		t.log.Debug("reading is being retried", "topic", e.Topic, "partition", e.Partition, "err", e.Err)
	}
	return fetches.Records(), nil
}

// writeAll writes records in batches, and leaves out the bad ones as the user chose.
func (t *sinkTask) writeAll(ctx context.Context, records []*kgo.Record) error {
	batch, sources := &connector.Batch{}, []*kgo.Record{}
	for _, r := range records {
		converted, stage, err := t.convert(r)
		if err != nil {
			if err := t.bad(ctx, r, stage, err); err != nil {
				return err
			}
			continue
		}
		batch.Append(converted)
		sources = append(sources, r)
		if batch.Full() {
			if err := t.write(ctx, batch, sources); err != nil {
				return err
			}
			batch.Reset()
			sources = sources[:0]
		}
	}
	if batch.Len() > 0 {
		if err := t.write(ctx, batch, sources); err != nil {
			return err
		}
	}
	t.note(records)
	return nil
}

// Stages at which a record can turn out bad, as Kafka Connect names them.
const (
	stageKey   = "KEY_CONVERTER"
	stageValue = "VALUE_CONVERTER"
	stagePut   = "TASK_PUT"
)

func (t *sinkTask) convert(r *kgo.Record) (connector.Record, string, error) {
	key, err := t.key.Decode(r.Key)
	if err != nil {
		return connector.Record{}, stageKey, err
	}
	value, err := t.value.Decode(r.Value)
	if err != nil {
		return connector.Record{}, stageValue, err
	}
	record := connector.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: key, Value: value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, connector.Header{Name: h.Key, Value: h.Value})
	}
	return record, "", nil
}

func (t *sinkTask) write(ctx context.Context, batch *connector.Batch, sources []*kgo.Record) error {
	err := t.plugin.Write(ctx, batch)
	var refused connector.RecordErrors
	if !errors.As(err, &refused) {
		return err
	}
	var indexes []int
	for i := range refused {
		if i < 0 || i >= len(sources) {
			return fmt.Errorf("the sink refused record %d of a batch of %d", i, len(sources))
		}
		indexes = append(indexes, i)
	}
	slices.Sort(indexes)
	for _, i := range indexes {
		if err := t.bad(ctx, sources[i], stagePut, refused[i]); err != nil {
			return err
		}
	}
	return nil
}

// bad deals with one record that cannot be written: it fails the task, or goes
// to the dead-letter topic before its offset can be committed.
func (t *sinkTask) bad(ctx context.Context, r *kgo.Record, stage string, cause error) error {
	err := fmt.Errorf("record %s/%d at offset %d (%s): %w", r.Topic, r.Partition, r.Offset, stage, cause)
	if err := t.tolerate(err); err != nil {
		return err
	}
	return t.dead.send(ctx, r, stage, cause)
}

// note remembers what is to be committed.
func (t *sinkTask) note(records []*kgo.Record) {
	if len(t.written) == 0 {
		t.dueAt = time.Now().Add(t.worker.cfg.CommitInterval)
	}
	for _, r := range records {
		partitions := t.written[r.Topic]
		if partitions == nil {
			partitions = map[int32]*kgo.Record{}
			t.written[r.Topic] = partitions
		}
		partitions[r.Partition] = r
	}
	t.records.Add(int64(len(records)))
}

func (t *sinkTask) isDue() bool { return len(t.written) > 0 && !time.Now().Before(t.dueAt) }

// commit makes durable what was written and commits its offsets, in that order.
func (t *sinkTask) commit(ctx context.Context) error {
	if len(t.written) == 0 {
		return nil
	}
	if err := t.plugin.Flush(ctx); err != nil {
		return fmt.Errorf("flushing: %w", err)
	}
	var last []*kgo.Record
	for _, partitions := range t.written {
		for _, r := range partitions {
			last = append(last, r)
		}
	}
	if err := t.client.CommitRecords(ctx, last...); err != nil {
		return fmt.Errorf("committing offsets: %w", err)
	}
	clear(t.written)
	return nil
}

// revoked runs while no batch is in hand (rebalances are blocked otherwise),
// before the partitions go to another member, so that it need not write again
// what this one has written.
func (t *sinkTask) revoked(ctx context.Context, _ *kgo.Client, _ map[string][]int32) {
	if err := t.commit(ctx); err != nil && ctx.Err() == nil {
		t.log.Warn("committing before a rebalance failed; the records will be written again", "err", err)
	}
}

// lost forgets partitions that another member may have already.
func (t *sinkTask) lost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	for topic, partitions := range lost {
		for _, p := range partitions {
			delete(t.written[topic], p)
		}
		if len(t.written[topic]) == 0 {
			delete(t.written, topic)
		}
	}
}
