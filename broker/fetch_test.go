package broker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/broker/internal/batch"
)

func TestLongPollWaitsForRecords(t *testing.T) {
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "views", 1, nil)
	reader, writer := dial(t, c), dial(t, c)
	poll := with(fetchOf(0, "views"), func(r *kmsg.FetchRequest) { r.MaxWaitMillis = 15_000 })
	reader.send(poll)
	writer.produceRaw(produceOf("views", 0, batchOf(t, batch.None, nil, at(1, "x"))))
	resp := poll.ResponseKind().(*kmsg.FetchResponse)
	reader.receive(resp) // would time out on the connection's deadline if it were not woken
	if len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Error("the poll ended without records")
	}
}

func TestLongPollEndsWhenItsTimeIsUp(t *testing.T) {
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "views", 1, nil)
	began := time.Now()
	resp := ask[*kmsg.FetchResponse](dial(t, c), with(fetchOf(0, "views"), func(r *kmsg.FetchRequest) { r.MaxWaitMillis = 100 }))
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("the poll ended after %v", took)
	}
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 || len(p.RecordBatches) != 0 || p.HighWatermark != 0 || p.LastStableOffset != 0 || p.LogStartOffset != 0 {
		t.Errorf("got %+v", p)
	}
}

func TestLongPollWaitsForMinBytesOverAllPartitions(t *testing.T) {
	c := brokertest.Start(t)
	admin := newClient(t, c)
	createTopic(t, admin, "a", 1, nil)
	createTopic(t, admin, "b", 1, nil)
	reader, writer := dial(t, c), dial(t, c)
	one := batchOf(t, batch.None, nil, at(1, "x"))
	poll := with(fetchOf(0, "a", "b"), func(r *kmsg.FetchRequest) {
		r.MaxWaitMillis, r.MinBytes = 15_000, int32(3*len(one))
	})
	reader.send(poll)
	for _, topic := range []string{"a", "b", "a"} {
		writer.produceRaw(produceOf(topic, 0, batchOf(t, batch.None, nil, at(1, "x"))))
	}
	resp := poll.ResponseKind().(*kmsg.FetchResponse)
	reader.receive(resp)
	if got := len(resp.Topics[0].Partitions[0].RecordBatches) + len(resp.Topics[1].Partitions[0].RecordBatches); got != 3*len(one) {
		t.Errorf("got %d bytes, want %d", got, 3*len(one))
	}
}

func TestLongPollDoesNotWaitForMoreThanItTakes(t *testing.T) {
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "views", 1, nil)
	conn := dial(t, c)
	conn.produceRaw(produceOf("views", 0, batchOf(t, batch.None, nil, at(1, strings.Repeat("x", 1000)))))
	ask[*kmsg.FetchResponse](conn, with(fetchOf(0, "views"), func(r *kmsg.FetchRequest) {
		r.MaxWaitMillis, r.MinBytes, r.MaxBytes = 60_000, 1<<30, 500 // longer than the connection's deadline
	}))
}

func TestLongPollEndsWhenTheTopicIsDeleted(t *testing.T) {
	c := brokertest.Start(t)
	admin := newClient(t, c)
	createTopic(t, admin, "views", 1, nil)
	reader := dial(t, c)
	poll := with(fetchOf(0, "views"), func(r *kmsg.FetchRequest) { r.MaxWaitMillis = 15_000 })
	reader.send(poll)
	if _, err := kadm.NewClient(admin).DeleteTopic(testContext(t), "views"); err != nil {
		t.Fatal(err)
	}
	resp := poll.ResponseKind().(*kmsg.FetchResponse)
	reader.receive(resp)
	wantCode(t, "the deleted topic", resp.Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
}

func TestPipelinedLongPollDoesNotHoldUpReading(t *testing.T) {
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "views", 1, nil)
	conn := dial(t, c)
	poll := with(fetchOf(0, "views"), func(r *kmsg.FetchRequest) { r.MaxWaitMillis = 15_000 })
	conn.send(poll)
	write := produceOf("views", 0, batchOf(t, batch.None, nil, at(1, "x")))
	conn.send(write) // on the same connection: it ends the poll before it
	first, second := poll.ResponseKind().(*kmsg.FetchResponse), write.ResponseKind().(*kmsg.ProduceResponse)
	conn.receive(first)
	conn.receive(second)
	if len(first.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Error("the poll ended without records")
	}
}

func TestFetchLimits(t *testing.T) {
	c := brokertest.Start(t)
	admin := newClient(t, c)
	conn := dial(t, c)
	large := batchOf(t, batch.None, nil, at(1, strings.Repeat("x", 5000)))
	for _, topic := range []string{"a", "b"} {
		createTopic(t, admin, topic, 1, nil)
		for range 3 {
			wantCode(t, "produce", conn.produceRaw(produceOf(topic, 0, append([]byte(nil), large...))).ErrorCode, nil)
		}
	}
	sizes := func(total, partition int32) (a, b int) {
		req := fetchOf(0, "a", "b")
		req.MaxBytes = total
		for i := range req.Topics {
			req.Topics[i].Partitions[0].PartitionMaxBytes = partition
		}
		resp := ask[*kmsg.FetchResponse](conn, req)
		return len(resp.Topics[0].Partitions[0].RecordBatches) / len(large), len(resp.Topics[1].Partitions[0].RecordBatches) / len(large)
	}
	for _, test := range []struct {
		what             string
		total, partition int32
		a, b             int // whole batches
	}{
		{"no limit reached", 1 << 20, 1 << 20, 3, 3},
		{"the first batch is larger than the limits", 100, 100, 1, 0},
		{"the partition's limit", 1 << 20, int32(2*len(large) + 10), 2, 2},
		{"the total limit", int32(4*len(large) + 10), 1 << 20, 3, 1},
	} {
		if a, b := sizes(test.total, test.partition); a != test.a || b != test.b {
			t.Errorf("%s: got %d and %d batches, want %d and %d", test.what, a, b, test.a, test.b)
		}
	}
}

func TestFetchErrorsAreKafkas(t *testing.T) {
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "views", 1, nil)
	conn := dial(t, c)
	first := func(r *kmsg.FetchRequest) *kmsg.FetchRequestTopicPartition { return &r.Topics[0].Partitions[0] }
	for name, test := range map[string]struct {
		req  *kmsg.FetchRequest
		want *kerr.Error
	}{
		"above the end":   {fetchOf(1, "views"), kerr.OffsetOutOfRange},
		"negative offset": {fetchOf(-7, "views"), kerr.OffsetOutOfRange},
		"unknown topic":   {fetchOf(0, "nothing"), kerr.UnknownTopicOrPartition},
		"unknown id":      {with(fetchOf(0, "views"), func(r *kmsg.FetchRequest) { r.Version = 13 }), kerr.UnknownTopicID},
		"newer epoch":     {with(fetchOf(0, "views"), func(r *kmsg.FetchRequest) { first(r).CurrentLeaderEpoch = 1000 }), kerr.UnknownLeaderEpoch},
	} {
		req := with(test.req, func(r *kmsg.FetchRequest) { r.MaxWaitMillis = 15_000 }) // an error does not wait
		wantCode(t, name, ask[*kmsg.FetchResponse](conn, req).Topics[0].Partitions[0].ErrorCode, test.want)
	}
	session := with(fetchOf(0, "views"), func(r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = 5, 1 })
	wantCode(t, "a session", ask[*kmsg.FetchResponse](conn, session).ErrorCode, kerr.FetchSessionIDNotFound)
	for _, epoch := range []int32{0, -1} { // begins a session, ends one
		session.SessionEpoch = epoch
		if got := ask[*kmsg.FetchResponse](conn, session); got.ErrorCode != 0 || len(got.Topics) != 1 || got.SessionID != 0 {
			t.Errorf("epoch %d of an older session: %+v", epoch, got)
		}
	}
}
