package broker_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/broker/internal/batch"
)

// A request that names one thing very often must not have an answer for each.
func TestNamesGivenTwiceAreAnsweredOnce(t *testing.T) {
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "views", 100, nil)
	conn := dial(t, c)
	const times = 10_000

	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 12
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version = 4
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Version = 5
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Version = 8
	deletions := kmsg.NewPtrDeleteRecordsRequest()
	deletions.Version = 2
	for range times {
		mt := kmsg.NewMetadataRequestTopic()
		mt.Topic = new("views")
		metadata.Topics = append(metadata.Topics, mt)
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "views"
		configs.Resources = append(configs.Resources, r)
		groups.Groups = append(groups.Groups, "readers")
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = "readers"
		offsets.Groups = append(offsets.Groups, g)
		dt, dp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
		dt.Topic, dt.Partitions = "views", append(dt.Partitions, dp, dp)
		deletions.Topics = append(deletions.Topics, dt)
	}
	if n := len(ask[*kmsg.MetadataResponse](conn, metadata).Topics); n != 1 {
		t.Errorf("Metadata has %d topics", n)
	}
	if n := len(ask[*kmsg.DescribeConfigsResponse](conn, configs).Resources); n != 1 {
		t.Errorf("DescribeConfigs has %d resources", n)
	}
	if n := len(ask[*kmsg.DescribeGroupsResponse](conn, groups).Groups); n != 1 {
		t.Errorf("DescribeGroups has %d groups", n)
	}
	if n := len(ask[*kmsg.OffsetFetchResponse](conn, offsets).Groups); n != 1 {
		t.Errorf("OffsetFetch has %d groups", n)
	}
	if got := ask[*kmsg.DeleteRecordsResponse](conn, deletions).Topics; len(got) != 1 || len(got[0].Partitions) != 1 {
		t.Errorf("DeleteRecords has %d topics", len(got))
	}
}

// Versions before KIP-482 have two bytes for the length of a text, which an
// error that repeats a long name must not overflow.
func TestErrorAboutALongNameCanBeRead(t *testing.T) {
	c := brokertest.Start(t)
	conn := dial(t, c)
	long := strings.Repeat("é", 16_000)
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version = 1
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, long+strings.Repeat("x", 760)
	configs.Resources = append(configs.Resources, r)
	got := ask[*kmsg.DescribeConfigsResponse](conn, configs).Resources[0]
	wantCode(t, "a broker of a long name", got.ErrorCode, kerr.InvalidRequest)
	if got.ErrorMessage == nil || !utf8.ValidString(*got.ErrorMessage) {
		t.Error("the message cannot be read")
	}
	create := makeTopic(long)
	create.Version = 4
	wantCode(t, "a topic of a long name", ask[*kmsg.CreateTopicsResponse](conn, create).Topics[0].ErrorCode, kerr.InvalidTopicException)
}

// A consumer takes "no such epoch" for lost records and starts over, so a
// partition whose disk fails must not say that.
func TestPartitionWithAFailedDiskSaysSoToEveryQuestion(t *testing.T) {
	c := brokertest.Start(t)
	client := newClient(t, c)
	createTopic(t, client, "views", 1, nil)
	produce(t, client, "views", "a")
	conn := dial(t, c)
	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epochs.Version = 4
	et, ep := kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	et.Topic, ep.CurrentLeaderEpoch = "views", -1
	et.Partitions = append(et.Partitions, ep)
	epochs.Topics = append(epochs.Topics, et)

	c.Faults().FailSync(func(path string) bool { return strings.Contains(path, "views-0") })
	got := conn.produceRaw(produceOf("views", 0, batchOf(t, batch.None, nil, at(1, "lost"))))
	wantCode(t, "Produce", got.ErrorCode, kerr.KafkaStorageError)
	wantCode(t, "ListOffsets", conn.listOffset("views", -1).ErrorCode, kerr.KafkaStorageError)
	wantCode(t, "OffsetForLeaderEpoch", ask[*kmsg.OffsetForLeaderEpochResponse](conn, epochs).Topics[0].Partitions[0].ErrorCode, kerr.KafkaStorageError)

	c.Faults().FailSync(nil)
	for deadline := time.Now().Add(10 * time.Second); conn.listOffset("views", -1).ErrorCode != 0; {
		if time.Now().After(deadline) {
			t.Fatal("the partition does not recover")
		}
		time.Sleep(5 * time.Millisecond) // a poll with a deadline
	}
	if p := ask[*kmsg.OffsetForLeaderEpochResponse](conn, epochs).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.EndOffset != 1 {
		t.Errorf("afterwards epoch 0 ends at %d, error %v", p.EndOffset, kerr.ErrorForCode(p.ErrorCode))
	}
}
