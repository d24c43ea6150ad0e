package broker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/broker/internal/batch"
)

// logEnd returns where a partition ends.
func (c *rawConn) logEnd(topic string, partition int32) int64 {
	c.t.Helper()
	return c.listOffsetOf(topic, partition, -1).Offset
}

// listOffset asks for one offset of partition 0.
func (c *rawConn) listOffset(topic string, time int64) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	return c.listOffsetOf(topic, 0, time)
}

func (c *rawConn) listOffsetOf(topic string, partition int32, time int64) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 9, -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, time, -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions[0]
}

func TestOffsetsByTime(t *testing.T) {
	c := brokertest.Start(t)
	admin := newClient(t, c)
	conn := dial(t, c)
	for _, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Zstd} {
		jumbled, even, empty := "jumbled-"+codec.String(), "even-"+codec.String(), "empty-"+codec.String()
		for _, topic := range []string{jumbled, even, empty} {
			createTopic(t, admin, topic, 1, nil)
		}
		conn.produceRaw(produceOf(jumbled, 0, batchOf(t, codec, nil, at(10, "a"), at(50, "b"), at(20, "c"), at(30, "d"))))
		conn.produceRaw(produceOf(even, 0, batchOf(t, codec, nil, at(2, "a"), at(4, "b"))))
		conn.produceRaw(produceOf(even, 0, batchOf(t, codec, nil, at(6, "c"), at(8, "d"))))
		for _, test := range []struct {
			topic              string
			time, offset, when int64
		}{
			{jumbled, 20, 1, 50}, {jumbled, 10, 0, 10}, {jumbled, 51, -1, -1}, {jumbled, 0, 0, 10},
			{jumbled, -3, 1, 50}, // the highest time
			{even, 3, 1, 4}, {even, 5, 2, 6}, {even, 9, -1, -1}, {even, 8, 3, 8},
			{even, -1, 4, -1}, {even, -2, 0, -1}, {even, -4, 0, -1}, {even, -5, -1, -1},
			{empty, 0, -1, -1}, {empty, -1, 0, -1}, {empty, -2, 0, -1}, {empty, -3, -1, -1},
		} {
			got := conn.listOffset(test.topic, test.time)
			wantCode(t, test.topic, got.ErrorCode, nil)
			if got.Offset != test.offset || got.Timestamp != test.when {
				t.Errorf("%s at %d: got offset %d, time %d; want %d, %d", test.topic, test.time, got.Offset, got.Timestamp, test.offset, test.when)
			}
		}
	}
	wantCode(t, "a time that means nothing", conn.listOffset("even-none", -7).ErrorCode, kerr.UnsupportedVersion)
	wantCode(t, "unknown topic", conn.listOffset("nothing", -1).ErrorCode, kerr.UnknownTopicOrPartition)
}

// deleteRecords asks to delete below an offset of partition 0.
func (c *rawConn) deleteRecords(topic string, before int64) kmsg.DeleteRecordsResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 10_000
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = before
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.DeleteRecordsResponse](c, req).Topics[0].Partitions[0]
}

func TestDeletedRecordsStayDeleted(t *testing.T) {
	c := brokertest.Start(t)
	admin := newClient(t, c)
	compact := "compact"
	createTopic(t, admin, "views", 1, nil)
	createTopic(t, admin, "compacted", 1, map[string]*string{"cleanup.policy": &compact})
	conn := dial(t, c)
	for i := range int64(10) {
		conn.produceRaw(produceOf("views", 0, batchOf(t, batch.None, nil, at(100*i, "x"))))
	}
	got := conn.deleteRecords("views", 5)
	wantCode(t, "below 5", got.ErrorCode, nil)
	if got.LowWatermark != 5 {
		t.Errorf("the log starts at %d, want 5", got.LowWatermark)
	}
	wantCode(t, "above the end", conn.deleteRecords("views", 11).ErrorCode, kerr.OffsetOutOfRange)
	wantCode(t, "below -1", conn.deleteRecords("views", -2).ErrorCode, kerr.OffsetOutOfRange)
	wantCode(t, "compacted", conn.deleteRecords("compacted", 0).ErrorCode, kerr.PolicyViolation)
	wantCode(t, "unknown", conn.deleteRecords("nothing", 0).ErrorCode, kerr.UnknownTopicOrPartition)

	c.Kill()
	c.Start()
	conn = dial(t, c)
	fetched := ask[*kmsg.FetchResponse](conn, fetchOf(4, "views")).Topics[0].Partitions[0]
	wantCode(t, "fetching a deleted record", fetched.ErrorCode, kerr.OffsetOutOfRange)
	if at := conn.listOffset("views", 100); at.Offset != 5 {
		t.Errorf("the time of a deleted record leads to offset %d, want 5", at.Offset)
	}
	if got := conn.deleteRecords("views", -1); got.LowWatermark != 10 {
		t.Errorf("deleting all leaves a log that starts at %d, want 10", got.LowWatermark)
	}
}

func TestLeaderEpochEnd(t *testing.T) {
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "views", 1, nil)
	conn := dial(t, c)
	conn.produceRaw(produceOf("views", 0, batchOf(t, batch.None, nil, at(1, "x"), at(2, "y"))))
	epoch := conn.listOffset("views", -1).LeaderEpoch

	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version, req.ReplicaID = 4, -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = "views"
	for _, e := range []int32{epoch, epoch + 1} {
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.LeaderEpoch, p.CurrentLeaderEpoch = e, -1
		rt.Partitions = append(rt.Partitions, p)
	}
	req.Topics = append(req.Topics, rt)
	got := ask[*kmsg.OffsetForLeaderEpochResponse](conn, req).Topics[0].Partitions
	if got[0].LeaderEpoch != epoch || got[0].EndOffset != 2 {
		t.Errorf("the present epoch %d: got %+v, want its end at 2", epoch, got[0])
	}
}

func TestProducerIDs(t *testing.T) {
	c := brokertest.Start(t)
	seen := make(map[int64]bool)
	for range 3 {
		conn := dial(t, c)
		for range 5 {
			got := ask[*kmsg.InitProducerIDResponse](conn, initProducer())
			if got.ErrorCode != 0 || got.ProducerID < 0 || got.ProducerEpoch != 0 || seen[got.ProducerID] {
				t.Fatalf("got %+v, after %v", got, seen)
			}
			seen[got.ProducerID] = true
		}
		c.Restart()
	}
	conn := dial(t, c)
	id := "tx"
	for name, test := range map[string]struct {
		change func(*kmsg.InitProducerIDRequest)
		want   *kerr.Error
	}{
		"transactional":     {func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = &id }, kerr.UnsupportedVersion},
		"id without epoch":  {func(r *kmsg.InitProducerIDRequest) { r.ProducerID = 7 }, kerr.InvalidRequest},
		"empty transaction": {func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = new(string) }, kerr.InvalidRequest},
	} {
		wantCode(t, name, ask[*kmsg.InitProducerIDResponse](conn, with(initProducer(), test.change)).ErrorCode, test.want)
	}
}
