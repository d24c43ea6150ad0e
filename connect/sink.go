package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	// working outlasts a stop by [stopTimeout], for what is better brought to
	// its end; it ends with the membership.
	working context.Context
	trouble string // why reading is being tried again; empty if it is not

	// mu lets one goroutine commit at a time: a rebalance commits too, from
	// the client's goroutine. It is held while the plugin flushes.
	mu sync.Mutex
	// written holds, for each partition, the last record that was written (or
	// given up) and whose offset is not committed yet.
	written map[string]map[int32]*kgo.Record
	dueAt   time.Time // when written has to be committed
	// lostErr is why records in written are not durable and never will be. It
	// forbids every further commit of this membership.
	lostErr error
}

// sinkGroup is the consumer group of a sink connector, as Kafka Connect names it.
func sinkGroup(connector string) string { return "connect-" + connector }

// run reads and writes until it fails or ctx ends. Rebalances wait while a
// batch is in hand; see revoked. After a stop the batch in hand is still
// written and committed, so that a clean stop leaves nothing to come twice.
func (t *sinkTask) run(ctx context.Context) error {
	err := t.work(ctx)
	// After an error too: what was written before it need not come again.
	if commitErr := t.commit(t.working); err == nil {
		err = commitErr
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// work returns nil when ctx ends.
func (t *sinkTask) work(ctx context.Context) error {
	for ctx.Err() == nil {
		err := t.pollAndWrite(ctx)
		if errors.Is(err, host.ErrRewind) {
			t.lose(err) // before a rebalance can commit what was lost
		}
		t.client.AllowRebalance()
		if err != nil {
			return err
		}
		if t.gate.isPaused() {
			if err := t.commit(t.working); err != nil {
				return err
			}
			if t.gate.pass(ctx) != nil {
				break
			}
		}
	}
	return nil
}

func (t *sinkTask) pollAndWrite(ctx context.Context) error {
	records, err := t.poll(ctx)
	if err == nil && len(records) > 0 {
		err = t.writeAll(t.working, records)
	}
	if err == nil && t.isDue() {
		err = t.commit(t.working)
	}
	return err
}

// quietTime is how long no error has to come until reading counts as mended,
// if no record has come before. The client tries more often than that.
const quietTime = 10 * time.Second

// poll returns the next records, or none when a commit is due first or the
// connector is paused.
func (t *sinkTask) poll(ctx context.Context) ([]*kgo.Record, error) {
	polling, cancel := t.gate.whileOpen(ctx)
	defer cancel()
	if due, ok := t.due(); ok {
		polling, cancel = context.WithDeadline(polling, due)
		defer cancel()
	}
	if t.trouble != "" {
		polling, cancel = context.WithTimeout(polling, quietTime)
		defer cancel()
	}
	begun := time.Now()
	fetches := t.client.PollRecords(polling, recordsPerWrite)
	for _, e := range fetches.Errors() {
		switch err := fmt.Errorf("reading topic %s, partition %d: %w", e.Topic, e.Partition, e.Err); {
		case errors.Is(e.Err, context.Canceled), errors.Is(e.Err, context.DeadlineExceeded): // of polling
		case errors.Is(e.Err, kerr.UnknownTopicID):
			return nil, fmt.Errorf("%w: %w", errOtherTopic, err)
		case isForGood(e.Err):
			return nil, err
		default:
			// A broker that is away, a topic that is not there yet, a member
			// that the group has dropped: the client tries again by itself.
			t.noteTrouble(err)
			return fetches.Records(), nil
		}
	}
	records := fetches.Records()
	if t.trouble != "" && (len(records) > 0 || time.Since(begun) >= quietTime) {
		t.trouble = ""
		t.reportActive(nil)
	}
	return records, nil
}

// noteTrouble reports and logs each new cause once: errors come in floods.
func (t *sinkTask) noteTrouble(err error) {
	if t.trouble == err.Error() {
		return
	}
	t.trouble = err.Error()
	t.log.Warn("reading is being tried again", "err", err)
	t.reportActive(err)
}

// errOtherTopic says that a topic is gone and that there may be another one of
// its name by now. A client stays with the topic that it knew, so only a new
// membership reads the other one.
var errOtherTopic = errors.New("a topic was deleted")

// isForGood tells answers of a broker that stay the same until someone changes
// permissions or the configuration.
func isForGood(err error) bool {
	for _, lasting := range []error{kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.InvalidTopicException, kerr.InvalidGroupID,
		kerr.InconsistentGroupProtocol, kerr.UnsupportedVersion, kgo.ErrClientClosed} {
		if errors.Is(err, lasting) {
			return true
		}
	}
	return false
}

// writeAll writes records in batches, and leaves out the bad ones as the user chose.
func (t *sinkTask) writeAll(ctx context.Context, records []*kgo.Record) error {
	batch, sources := &connector.Batch{}, []*kgo.Record{}
	for _, r := range records {
		converted, stage, err := t.convert(r)
		if err != nil {
			if err := t.bad(r, stage, err); err != nil {
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
	if err := t.dead.flush(ctx); err != nil { // before their offsets can be committed
		return err
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
		if err := t.bad(sources[i], stagePut, refused[i]); err != nil {
			return err
		}
	}
	return nil
}

// bad deals with one record that cannot be written: it fails the task, or goes
// to the dead letters.
func (t *sinkTask) bad(r *kgo.Record, stage string, cause error) error {
	err := fmt.Errorf("record %s/%d at offset %d (%s): %w", r.Topic, r.Partition, r.Offset, stage, cause)
	if err := t.tolerate(err); err != nil {
		return err
	}
	t.dead.add(r, stage, cause)
	return nil
}

// note remembers what is to be committed.
func (t *sinkTask) note(records []*kgo.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
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

// due returns when the next commit has to be; false means that there is
// nothing to commit.
func (t *sinkTask) due() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dueAt, len(t.written) > 0
}

func (t *sinkTask) isDue() bool {
	due, ok := t.due()
	return ok && !time.Now().Before(due)
}

// commit makes durable what was written and commits its offsets, in that
// order. Offsets that the group does not take now are tried again later.
func (t *sinkTask) commit(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lostErr != nil {
		return t.lostErr
	}
	if len(t.written) == 0 {
		return nil
	}
	if err := t.plugin.Flush(ctx); err != nil {
		if errors.Is(err, host.ErrRewind) {
			t.lostErr = err
		}
		return fmt.Errorf("flushing: %w", err)
	}
	var last []*kgo.Record
	for _, partitions := range t.written {
		for _, r := range partitions {
			last = append(last, r)
		}
	}
	if err := t.client.CommitRecords(ctx, last...); err != nil {
		if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("%w: committing offsets: %w", errOtherTopic, err) // those of other topics are committed
		}
		if isForGood(err) || ctx.Err() != nil {
			return fmt.Errorf("committing offsets: %w", err)
		}
		// A coordinator that is away, or a group that has dropped this member:
		// then the partitions are lost, and whoever gets them writes again.
		t.log.Warn("committing offsets is being tried again", "err", err)
		t.dueAt = time.Now().Add(t.worker.cfg.CommitInterval)
		return nil
	}
	clear(t.written)
	return nil
}

// lose notes that accepted records are gone.
func (t *sinkTask) lose(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lostErr = err
}

// revoked runs while no batch is in hand (rebalances are blocked otherwise),
// before the partitions go to another member, so that it need not write again
// what this one has written. If records turn out to be lost, the next commit
// of run says so.
func (t *sinkTask) revoked(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
	if err := t.commit(t.working); err != nil && t.working.Err() == nil {
		t.log.Warn("committing before a rebalance failed; the records will be written again", "err", err)
	}
	t.forget(revoked)
}

// lost forgets partitions that another member may have already.
func (t *sinkTask) lost(_ context.Context, _ *kgo.Client, lost map[string][]int32) { t.forget(lost) }

func (t *sinkTask) forget(gone map[string][]int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for topic, partitions := range gone {
		for _, p := range partitions {
			delete(t.written[topic], p)
		}
		if len(t.written[topic]) == 0 {
			delete(t.written, topic)
		}
	}
}
