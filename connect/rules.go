package connect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topicRules are what the settings of a topic demand of each record. Brokers
// refuse a whole batch for one record that breaks them, and do not tell which
// one it was to a client; so records are checked one by one before they are
// sent, that a bad one may not cost its neighbours.
type topicRules struct {
	batchBytesMax int  // max.message.bytes: of a batch, and so of a record that fills one alone
	needsKey      bool // cleanup.policy has compact in it
	partitions    int  // 0 if not known
}

// kafkaDefaults are the rules of a topic of which nothing is known.
var kafkaDefaults = topicRules{batchBytesMax: 1_000_012}

// mostBatchBytes bounds the batches for topics that allow even larger ones, to
// what a produce request of the client can hold.
const mostBatchBytes = 64 << 20

// ruleBook looks up the rules of topics, each once. A topic that is not there
// yet has the defaults until it is.
type ruleBook struct {
	mu      sync.Mutex
	byTopic map[string]topicRules
}

// batchBytesMax is for the client, which asks when it learns of a partition.
func (b *ruleBook) batchBytesMax(topic string) int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, ok := b.byTopic[topic]; ok {
		return int32(r.batchBytesMax)
	}
	return int32(kafkaDefaults.batchBytesMax)
}

// of returns the rules of a topic, asking the cluster if need be.
func (b *ruleBook) of(ctx context.Context, client *kgo.Client, topic string) topicRules {
	b.mu.Lock()
	r, ok := b.byTopic[topic]
	b.mu.Unlock()
	if ok {
		return r
	}
	r, err := askRules(ctx, kadm.NewClient(client), topic)
	if err != nil && !errors.Is(err, kerr.TopicAuthorizationFailed) && !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return kafkaDefaults // to be asked again: it may appear
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byTopic == nil {
		b.byTopic = map[string]topicRules{}
	}
	b.byTopic[topic] = r
	return r
}

func askRules(ctx context.Context, admin *kadm.Client, topic string) (topicRules, error) {
	rules := kafkaDefaults
	topics, err := admin.ListTopics(ctx, topic)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return rules, err
	}
	rules.partitions = len(topics[topic].Partitions)
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return rules, err
	}
	config, err := described.On(topic, nil)
	if err == nil {
		err = config.Err
	}
	for _, c := range config.Configs {
		switch c.Key {
		case "max.message.bytes":
			if n, err := strconv.Atoi(c.MaybeValue()); err == nil {
				rules.batchBytesMax = min(max(n, 512), mostBatchBytes) // the client has a least size too
			}
		case "cleanup.policy":
			rules.needsKey = strings.Contains(c.MaybeValue(), "compact")
		}
	}
	return rules, err
}

// check says how a record breaks the rules.
func (r topicRules) check(record *kgo.Record) error {
	if size := batchBytesAlone(record); size > r.batchBytesMax {
		return fmt.Errorf("it takes %d bytes, and topic %s allows %d (max.message.bytes)", size, record.Topic, r.batchBytesMax)
	}
	if r.needsKey && record.Key == nil {
		return fmt.Errorf("it has no key, which topic %s needs, as it is compacted", record.Topic)
	}
	if r.partitions > 0 && int(record.Partition) >= r.partitions {
		return fmt.Errorf("it is for partition %d, and topic %s has %d", record.Partition, record.Topic, r.partitions)
	}
	return nil
}

// batchBytesAlone returns the size of a batch that holds one record only,
// before compression: docs/format/record-batch.md.
func batchBytesAlone(r *kgo.Record) int {
	const header, lengthField = 61, 4
	field := func(n int, isNull bool) int {
		if isNull {
			return kbin.VarintLen(-1)
		}
		return kbin.VarintLen(int32(n)) + n
	}
	body := 3 // attributes, and two differences that are 0
	body += field(len(r.Key), r.Key == nil) + field(len(r.Value), r.Value == nil) + kbin.VarintLen(int32(len(r.Headers)))
	for _, h := range r.Headers {
		body += field(len(h.Key), false) + field(len(h.Value), h.Value == nil)
	}
	return lengthField + header + kbin.VarintLen(int32(body)) + body
}
