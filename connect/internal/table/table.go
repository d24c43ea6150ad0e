// Package table reads and writes a compacted topic as what it is: a table of
// keys and their newest values, the same for everyone who follows the topic.
//
// Kafka Connect calls this a KafkaBasedLog. Connect workers keep connector
// configurations, source offsets and statuses in three such topics, so that
// any worker can go on where another one stopped, and nothing else needs to be
// stored anywhere.
package table

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says which topic to follow and how.
type Config struct {
	// Client options that reach the cluster: seeds, TLS, SASL.
	Client []kgo.Opt
	// Topic is created, compacted, if it is missing.
	Topic string
	// Partitions and Replication are used when the topic is created. The
	// order of writes is kept within a key; with one partition, overall: then
	// a topic that has more is refused.
	Partitions  int32
	Replication int16
	// Apply is called for each record, oldest first within its partition, by
	// one goroutine at a time: during Open by the caller's, later by the
	// table's. A nil value deletes. It must not keep the slices, and must not
	// call the table.
	Apply func(key, value []byte)
	Log   *slog.Logger
}

// Table follows one compacted topic. Its methods may be called concurrently.
type Table struct {
	cfg    Config
	client *kgo.Client
	admin  *kadm.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	position map[int32]int64 // next offset to be applied, by partition
	moved    chan struct{}   // closed and replaced whenever position advances
	closed   bool            // following has ended
}

// Open creates the topic if need be, applies all that it holds at this moment,
// and then follows it until Close.
func Open(ctx context.Context, cfg Config) (*Table, error) {
	t := &Table{cfg: cfg, position: map[int32]int64{}, moved: make(chan struct{}), done: make(chan struct{})}
	opts := append(append([]kgo.Opt{}, cfg.Client...), kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ProducerLinger(0), kgo.AllowIdempotentProduceCancellation(), kgo.FetchMaxWait(250*time.Millisecond))
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("opening table %s: %w", cfg.Topic, err)
	}
	t.client, t.admin = client, kadm.NewClient(client)
	if err := t.open(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("opening table %s: %w", cfg.Topic, err)
	}
	follow, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	go t.follow(follow)
	return t, nil
}

func (t *Table) open(ctx context.Context) error {
	if err := t.create(ctx); err != nil {
		return err
	}
	if err := t.checkPolicy(ctx); err != nil {
		return err
	}
	starts, err := t.listed(t.admin.ListStartOffsets(ctx, t.cfg.Topic))
	if err != nil {
		return fmt.Errorf("finding its start: %w", err)
	}
	ends, err := t.ends(ctx)
	if err != nil {
		return err
	}
	if t.cfg.Partitions == 1 && len(starts) != 1 {
		return fmt.Errorf("it has %d partitions and must have one, which keeps all changes in order: delete it, or use another topic", len(starts))
	}
	from := map[int32]kgo.Offset{}
	for p, start := range starts {
		t.position[p] = start
		from[p] = kgo.NewOffset().At(start)
	}
	t.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{t.cfg.Topic: from})
	for !t.reached(ends) {
		if err := t.poll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// create makes the topic, and waits until the cluster knows it.
func (t *Table) create(ctx context.Context) error {
	compact := "compact"
	r, err := t.admin.CreateTopic(ctx, t.cfg.Partitions, t.cfg.Replication, map[string]*string{"cleanup.policy": &compact}, t.cfg.Topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		if r.ErrMessage != "" {
			err = fmt.Errorf("%s: %w", r.ErrMessage, err)
		}
		return fmt.Errorf("creating the topic: %w", err)
	}
	for {
		details, err := t.admin.ListTopics(ctx, t.cfg.Topic)
		if err == nil {
			err = details.Error()
		}
		if err == nil {
			return nil
		}
		if !kerr.IsRetriable(err) {
			return fmt.Errorf("looking the topic up: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// checkPolicy refuses a topic that someone else made with settings under which
// brokers would delete what is still valid. Who may not see the settings has to
// take the topic as it is.
func (t *Table) checkPolicy(ctx context.Context) error {
	configs, err := t.admin.DescribeTopicConfigs(ctx, t.cfg.Topic)
	if err != nil {
		return fmt.Errorf("looking up its settings: %w", err)
	}
	config, err := configs.On(t.cfg.Topic, nil)
	if err == nil {
		err = config.Err
	}
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.cfg.Log.Warn("cannot see whether a topic is compacted, as it must be", "topic", t.cfg.Topic, "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up its settings: %w", err)
	}
	for _, c := range config.Configs {
		if c.Key == "cleanup.policy" && c.MaybeValue() != "compact" {
			return fmt.Errorf("it has cleanup.policy=%s and must have compact, or brokers would delete what is still valid: change the topic's setting, or use another topic", c.MaybeValue())
		}
	}
	return nil
}

// ends returns the offset behind the last committed record of each partition.
func (t *Table) ends(ctx context.Context) (map[int32]int64, error) {
	ends, err := t.listed(t.admin.ListCommittedOffsets(ctx, t.cfg.Topic))
	if err != nil {
		return nil, fmt.Errorf("finding its end: %w", err)
	}
	return ends, nil
}

func (t *Table) listed(offsets kadm.ListedOffsets, err error) (map[int32]int64, error) {
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return nil, err
	}
	byPartition := map[int32]int64{}
	offsets.Each(func(o kadm.ListedOffset) { byPartition[o.Partition] = o.Offset })
	return byPartition, nil
}

// follow applies what comes until ctx ends. Whatever goes wrong, the client
// tries again by itself; the writes of this process fail or hang meanwhile.
func (t *Table) follow(ctx context.Context) {
	defer close(t.done)
	for ctx.Err() == nil {
		err := t.poll(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		t.cfg.Log.Error("following a table is being tried again", "topic", t.cfg.Topic, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	close(t.moved)
}

// poll applies what the next fetch brings.
func (t *Table) poll(ctx context.Context) error {
	fetches := t.client.PollFetches(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return
		}
		for _, r := range p.Records {
			if !r.Attrs.IsControl() {
				t.cfg.Apply(r.Key, r.Value)
			}
		}
		t.mu.Lock()
		t.position[p.Partition] = p.Records[len(p.Records)-1].Offset + 1
		close(t.moved)
		t.moved = make(chan struct{})
		t.mu.Unlock()
	})
	for _, e := range fetches.Errors() {
		var lost *kgo.ErrDataLoss // the client goes on behind the loss
		if errors.As(e.Err, &lost) {
			t.cfg.Log.Error("records of a table are lost", "topic", t.cfg.Topic, "err", lost)
		} else if !kerr.IsRetriable(e.Err) {
			return fmt.Errorf("partition %d: %w", e.Partition, e.Err)
		}
	}
	return nil
}

func (t *Table) reached(ends map[int32]int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, end := range ends {
		if t.position[p] < end {
			return false
		}
	}
	return true
}

// Entry is a value under a key. A nil value deletes the key.
type Entry struct{ Key, Value []byte }

// Put writes entries, and returns when the brokers have acknowledged them all.
// Those of one key stay in order. After an error, some may be written. To see
// them applied, Sync.
func (t *Table) Put(ctx context.Context, entries ...Entry) error {
	records := make([]*kgo.Record, len(entries))
	for i, e := range entries {
		records[i] = &kgo.Record{Topic: t.cfg.Topic, Key: e.Key, Value: e.Value}
	}
	if err := t.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("writing to table %s: %w", t.cfg.Topic, err)
	}
	return nil
}

// Sync returns when everything has been applied that anyone wrote before the
// call, so that a reader sees its own writes.
func (t *Table) Sync(ctx context.Context) error {
	ends, err := t.ends(ctx)
	if err != nil {
		return fmt.Errorf("reading table %s to its end: %w", t.cfg.Topic, err)
	}
	for {
		t.mu.Lock()
		moved, closed := t.moved, t.closed
		t.mu.Unlock()
		if t.reached(ends) {
			return nil
		}
		if closed {
			return fmt.Errorf("reading table %s to its end: %w", t.cfg.Topic, kgo.ErrClientClosed)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("reading table %s to its end: %w", t.cfg.Topic, ctx.Err())
		}
	}
}

// Close stops following. It waits for a running Apply.
func (t *Table) Close() {
	t.cancel()
	<-t.done
	t.client.Close()
}
