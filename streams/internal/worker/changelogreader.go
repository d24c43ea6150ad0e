package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	fetchBytesMax  = 4 << 20
	fetchWaitMaxMs = 500
)

// changelogReader reads one partition with Fetch requests of its own. Kafka's consumer would do, but it tells only of
// records: a log that ends in transaction markers, or in batches that compaction has emptied, would never be seen to
// end. Here the next offset is known after each reply.
type changelogReader struct {
	rt         *Runtime
	topic      string
	partition  int32
	leader     int32
	decompress kgo.Decompressor
}

func (rt *Runtime) changelogReader(topic string, partition int32) *changelogReader {
	return &changelogReader{rt: rt, topic: topic, partition: partition, leader: -1, decompress: kgo.DefaultDecompressor()}
}

// read returns records from an offset on, and the offset to go on from, which is higher. Control records may be among
// them.
func (c *changelogReader) read(ctx context.Context, at int64) (records []*kgo.Record, next int64, err error) {
	err = c.rt.retry(ctx, fmt.Sprintf("reading changelog %s[%d] at offset %d", c.topic, c.partition, at), func(ctx context.Context) error {
		records, next, err = c.readOnce(ctx, at)
		if err == nil && next <= at {
			err = errors.New("the broker sent nothing though the log goes on")
		}
		if err != nil {
			c.leader = -1
		}
		return err
	})
	return records, next, err
}

func (c *changelogReader) readOnce(ctx context.Context, at int64) ([]*kgo.Record, int64, error) {
	if c.leader < 0 {
		if err := c.findLeader(ctx); err != nil {
			return nil, at, err
		}
	}
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = c.partition, at, fetchBytesMax
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = c.topic, c.rt.topics.ids[c.topic]
	topic.Partitions = append(topic.Partitions, partition)
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch = -1, -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = fetchWaitMaxMs, 1, fetchBytesMax
	req.Topics = append(req.Topics, topic)
	kresp, err := c.rt.second.Broker(int(c.leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, at, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, at, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, at, errors.New("the reply does not have the partition")
	}
	got := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); errors.Is(err, kerr.OffsetOutOfRange) {
		return c.skipTrimmed(ctx, at, err)
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: at, Topic: c.topic, Partition: c.partition,
	}, got, c.decompress, nil)
	if len(fp.Records) > 0 || next > at {
		return fp.Records, next, nil // an error behind them comes again with the next request
	}
	return nil, at, fp.Err
}

// skipTrimmed goes on at the start of a log that was trimmed while it was read: what is gone had expired.
func (c *changelogReader) skipTrimmed(ctx context.Context, at int64, cause error) ([]*kgo.Record, int64, error) {
	starts, err := c.rt.admin.ListStartOffsets(ctx, c.topic)
	if err != nil {
		return nil, at, errors.Join(cause, err)
	}
	if start, ok := starts.Lookup(c.topic, c.partition); ok && start.Err == nil && start.Offset > at {
		return nil, start.Offset, nil
	}
	return nil, at, cause
}

func (c *changelogReader) findLeader(ctx context.Context) error {
	found, err := c.rt.admin.ListTopics(ctx, c.topic)
	if err != nil {
		return err
	}
	d := found[c.topic]
	p, ok := d.Partitions[c.partition]
	switch {
	case d.Err != nil:
		return d.Err
	case !ok:
		return fmt.Errorf("topic %s has no partition %d", c.topic, c.partition)
	case p.Leader < 0:
		return kerr.LeaderNotAvailable
	}
	c.leader = p.Leader
	return nil
}
