package connect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/connect/config"
	"github.com/millrace/millrace/connect/convert"
	"github.com/millrace/millrace/connect/host"
)

// stopTimeout is how long a task that is told to stop may take to tidy up:
// to see acknowledgements in, to flush and to commit.
const stopTimeout = 5 * time.Second

// runSource opens the plugin where the stored positions say, and reads.
func (t *task) runSource(ctx context.Context) error {
	key, value, err := t.converters()
	if err != nil {
		return err
	}
	rules := &ruleBook{}
	client, err := t.worker.client(kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()),
		kgo.RecordPartitioner(keyOrGiven{}), kgo.MaxBufferedRecords(batchesInFlight*20_000),
		kgo.ProducerBatchMaxBytesFn(rules.batchBytesMax), kgo.AllowIdempotentProduceCancellation())
	if err != nil {
		return err
	}
	defer client.Close()
	cfg, err := t.hostConfig()
	if err != nil {
		return err
	}
	if cfg.Resume, err = t.worker.offsets.of(ctx, t.connector); err != nil {
		return err
	}
	plugin, err := t.worker.cfg.Host.OpenSource(cfg)
	if err != nil {
		return err
	}
	source := &sourceTask{task: t, plugin: plugin, client: client, rules: rules, key: key, value: value, topic: t.settings[config.Topic]}
	return errors.Join(source.run(ctx), closePlugin(ctx, plugin.Close))
}

// runSink opens the plugin and moves records to it.
func (t *task) runSink(ctx context.Context) error {
	key, value, err := t.converters()
	if err != nil {
		return err
	}
	cfg, err := t.hostConfig()
	if err != nil {
		return err
	}
	cfg.Topics = splitTopics(t.settings[config.Topics])
	plugin, err := t.worker.cfg.Host.OpenSink(cfg)
	if err != nil {
		return err
	}
	for {
		sink := &sinkTask{task: t, plugin: plugin, key: key, value: value, written: map[string]map[int32]*kgo.Record{}}
		switch err = t.consume(ctx, sink, cfg.Topics); {
		case errors.Is(err, host.ErrRewind):
			// A new member begins at the committed offsets, which are those of
			// the last flush.
			t.log.Warn("records are read again from the committed offsets", "err", err)
			continue
		case errors.Is(err, errOtherTopic) && ctx.Err() == nil:
			t.log.Warn("topics are looked up again", "err", err)
			t.reportActive(err)
			select {
			case <-time.After(topicPause):
			case <-ctx.Done():
			}
			t.reportActive(nil)
			continue
		}
		return errors.Join(err, closePlugin(ctx, plugin.Close))
	}
}

// topicPause is how long a sink waits before it looks for a new topic in the
// place of one that was deleted.
const topicPause = time.Second

// hostConfig describes the task to the host.
func (t *task) hostConfig() (host.TaskConfig, error) {
	dir := t.stateDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return host.TaskConfig{}, fmt.Errorf("making the task's folder: %w", err)
	}
	return host.TaskConfig{
		Plugin: t.class.name, Connector: t.connector, Task: t.number, StateDir: dir,
		Settings: config.Own(t.settings, t.class.kind), OnStatus: t.reportProcess,
	}, nil
}

// consume is one membership in the connector's consumer group.
func (t *task) consume(ctx context.Context, sink *sinkTask, topics []string) error {
	working, cancel := lingering(ctx, stopTimeout)
	defer cancel()
	sink.working = working // before the client may call revoked
	rules := &ruleBook{}   // of the dead-letter topic
	client, err := t.worker.client(kgo.ProducerBatchMaxBytesFn(rules.batchBytesMax), kgo.ConsumerGroup(sinkGroup(t.connector)), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepRetryableFetchErrors(), // see errOtherTopic
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.AllowIdempotentProduceCancellation(),
		kgo.OnPartitionsRevoked(sink.revoked), kgo.OnPartitionsLost(sink.lost))
	if err != nil {
		return err
	}
	defer leave(working, client)
	sink.client = client
	if topic := t.settings[config.DeadLetters]; topic != "" {
		sink.dead = &deadLetters{client: client, topic: topic, headers: t.settings[config.DeadHeaders] != "false", connector: t.connector, task: t.number}
		replication, err := strconv.ParseInt(t.settings[config.DeadReplicas], 10, 16)
		if err != nil {
			replication = -1
		}
		if err := sink.dead.create(ctx, int16(replication)); err != nil {
			return err
		}
		rules.of(ctx, client, topic)
	}
	return sink.run(ctx)
}

// leave closes a client that is in a group. With no broker to take its leave
// it does not wait for long: the group notices by itself.
func leave(ctx context.Context, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	client.AllowRebalance()
	_ = client.LeaveGroupContext(ctx) // Close says so too, and the same
	client.Close()
}

// splitTopics takes the setting topics apart.
func splitTopics(setting string) []string {
	var topics []string
	for topic := range strings.SplitSeq(setting, ",") {
		if topic = strings.TrimSpace(topic); topic != "" {
			topics = append(topics, topic)
		}
	}
	return topics
}

func (t *task) converters() (key, value convert.Converter, err error) {
	if key, err = converter(t.settings, config.KeyConverter); err != nil {
		return nil, nil, err
	}
	value, err = converter(t.settings, config.ValueConverter)
	return key, value, err
}

func converter(settings map[string]string, setting string) (convert.Converter, error) {
	name := settings[setting]
	if name == "" {
		name = convert.Names[0]
	}
	c, err := convert.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return c, nil
}

// stateDir is a folder of the task's own, on this machine.
func (t *task) stateDir() string {
	return filepath.Join(t.worker.cfg.StateDir, "connectors", t.connector, strconv.Itoa(t.number))
}

// lingering returns a context that ends a while after ctx does, for work that
// is better brought to its end than broken off.
func lingering(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(while):
			cancel()
		case <-work.Done():
		}
	})
	return work, func() { stop(); cancel() }
}

// closePlugin gives a plugin [stopTimeout] to close. After a stop an error of
// the closing is of no interest.
func closePlugin(ctx context.Context, closing func(context.Context) error) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := closing(last); err != nil && ctx.Err() == nil {
		return fmt.Errorf("closing the plugin: %w", err)
	}
	return nil
}

// keyOrGiven sends a record to the partition that the source chose, and by the
// hash of its key (as Kafka's clients hash it) if it chose none.
type keyOrGiven struct{}

func (keyOrGiven) ForTopic(topic string) kgo.TopicPartitioner {
	byKey := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	return givenFirst{byKey, byKey.(kgo.TopicPartitionerOnNewBatch)}
}

type givenFirst struct {
	kgo.TopicPartitioner
	kgo.TopicPartitionerOnNewBatch
}

func (g givenFirst) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || g.TopicPartitioner.RequiresConsistency(r)
}

func (g givenFirst) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return g.TopicPartitioner.Partition(r, n)
}
