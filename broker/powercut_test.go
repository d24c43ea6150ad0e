package broker_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/broker/internal/batch"
)

// ledger is what a broker has acknowledged besides records.
type ledger struct {
	topics    map[string]bool   // made, or (false) deleted
	ids       map[string]string // of those that exist
	starts    map[string]int64  // of their only partition
	ends      map[string]int64
	commits   map[string]int64 // by group, all of topic "base"
	producers map[int64]bool   // ids that were given out
}

// TestPowerCutsKeepEveryKindOfPromise cuts the power at random moments between
// and within requests, and compares what is there afterwards with what had been
// acknowledged. MILLRACE_KILLS and MILLRACE_SEED set how often and when.
func TestPowerCutsKeepEveryKindOfPromise(t *testing.T) {
	seed := envNumber(t, "MILLRACE_SEED", time.Now().UnixNano())
	t.Logf("MILLRACE_SEED=%d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "base", 1, nil)
	l := &ledger{
		topics: map[string]bool{}, ids: map[string]string{}, starts: map[string]int64{}, ends: map[string]int64{},
		commits: map[string]int64{}, producers: map[int64]bool{},
	}
	for range envNumber(t, "MILLRACE_KILLS", 8) {
		conn := dial(t, c)
		for range random.IntN(30) {
			l.step(t, conn, random)
		}
		// The next request is on its way, or half done, when the power goes.
		go func(name string) {
			frame := kmsg.NewRequestFormatter().AppendRequest(nil, makeTopic(name), 1)
			_, _ = conn.Write(frame) // whatever becomes of it
		}(fmt.Sprint("late", random.IntN(1000)))
		time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond) // the moment is the point
		c.CutPower(random.Uint64())
		c.Start()
		l.check(t, dial(t, c))
		if t.Failed() {
			return
		}
	}
}

func makeTopic(name string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, rt)
	return req
}

// step does one thing and takes down what was acknowledged.
func (l *ledger) step(t *testing.T, conn *rawConn, random *rand.Rand) {
	name := fmt.Sprint("topic", random.IntN(4))
	exists := l.topics[name]
	switch what := random.IntN(6); {
	case what == 0 && !exists:
		got := ask[*kmsg.CreateTopicsResponse](conn, makeTopic(name)).Topics[0]
		wantCode(t, "creating "+name, got.ErrorCode, nil)
		l.topics[name], l.ids[name], l.starts[name], l.ends[name] = true, fmt.Sprint(got.TopicID), 0, 0
	case what == 1 && exists:
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis, req.TopicNames = 5, 10_000, []string{name}
		wantCode(t, "deleting "+name, ask[*kmsg.DeleteTopicsResponse](conn, req).Topics[0].ErrorCode, nil)
		l.topics[name] = false
	case what == 2 && exists:
		got := conn.produceRaw(produceOf(name, 0, batchOf(t, batch.None, nil, at(1, "x"), at(2, "y"))))
		wantCode(t, "writing to "+name, got.ErrorCode, nil)
		l.ends[name] = got.BaseOffset + 2
	case what == 3 && exists && l.ends[name] > l.starts[name]:
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Version = 2
		rt, rp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Offset = l.starts[name] + 1
		rt.Topic, rt.Partitions = name, append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		got := ask[*kmsg.DeleteRecordsResponse](conn, req).Topics[0].Partitions[0]
		wantCode(t, "deleting records of "+name, got.ErrorCode, nil)
		l.starts[name] = got.LowWatermark
	case what == 4:
		l.commit(t, conn, fmt.Sprint("group", random.IntN(3)))
	case what == 5:
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version = 4
		got := ask[*kmsg.InitProducerIDResponse](conn, req)
		if wantCode(t, "a producer id", got.ErrorCode, nil); l.producers[got.ProducerID] {
			t.Errorf("producer id %d was given out twice", got.ProducerID)
		}
		l.producers[got.ProducerID] = true
	}
}

func (l *ledger) commit(t *testing.T, conn *rawConn, group string) {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{group}
	wantCode(t, "finding the coordinator", ask[*kmsg.FindCoordinatorResponse](conn, find).Coordinators[0].ErrorCode, nil)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, group, -1
	rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset = l.commits[group] + 1
	rt.Topic, rt.Partitions = "base", append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	untilLoaded(t, func() int16 { return ask[*kmsg.OffsetCommitResponse](conn, req).Topics[0].Partitions[0].ErrorCode })
	l.commits[group]++
}

// untilLoaded asks again while a coordinator loads.
func untilLoaded(t *testing.T, ask func() int16) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // a poll with a deadline
		switch code := ask(); {
		case code == 0:
			return
		case code != kerr.CoordinatorLoadInProgress.Code && code != kerr.NotCoordinator.Code, time.Now().After(deadline):
			t.Fatalf("a group's coordinator answers %v", kerr.ErrorForCode(code))
		}
	}
}

// check compares the broker with the ledger.
func (l *ledger) check(t *testing.T, conn *rawConn) {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 12, nil
	there := map[string]string{}
	for _, topic := range ask[*kmsg.MetadataResponse](conn, req).Topics {
		there[*topic.Topic] = fmt.Sprint(topic.TopicID)
	}
	for name, exists := range l.topics {
		id, ok := there[name]
		switch {
		case ok != exists:
			t.Errorf("topic %s exists: %v, want %v", name, ok, exists)
			continue
		case !exists:
			continue
		case id != l.ids[name]:
			t.Errorf("topic %s has another id", name)
		}
		if end := conn.listOffset(name, -1); end.ErrorCode != 0 || end.Offset != l.ends[name] {
			t.Errorf("%s ends at %d, %v; want %d", name, end.Offset, kerr.ErrorForCode(end.ErrorCode), l.ends[name])
		}
		if start := conn.listOffset(name, -2); start.ErrorCode != 0 || start.Offset != l.starts[name] {
			t.Errorf("%s starts at %d, %v; want %d", name, start.Offset, kerr.ErrorForCode(start.ErrorCode), l.starts[name])
		}
	}
	for group, want := range l.commits {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = 7, group
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = "base", []int32{0}
		req.Topics = append(req.Topics, rt)
		var got *kmsg.OffsetFetchResponse
		untilLoaded(t, func() int16 { got = ask[*kmsg.OffsetFetchResponse](conn, req); return got.ErrorCode })
		if o := got.Topics[0].Partitions[0].Offset; o != want {
			t.Errorf("%s is at offset %d, want %d", group, o, want)
		}
	}
}
