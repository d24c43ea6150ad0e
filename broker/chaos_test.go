package broker_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/broker/internal/batch"
)

// Topics are deleted and made again while others write to them, wait for their
// records, look up offsets, delete records and commit. Every answer is one of
// those that clients know what to do with, and nothing stays behind.
func TestTopicsComeAndGoUnderLoad(t *testing.T) {
	before := runtime.NumGoroutine()
	c := brokertest.Start(t, brokertest.Setting("log.retention.check.interval.ms", "5"))
	admin := newClient(t, c)
	createTopic(t, admin, "views", 3, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()

	known := map[int16]bool{0: true}
	for _, e := range []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.NotLeaderForPartition, kerr.OffsetOutOfRange, kerr.RequestTimedOut, kerr.CoordinatorLoadInProgress, kerr.LeaderNotAvailable} {
		known[e.Code] = true
	}
	var wg sync.WaitGroup
	load := func(name string, ask func(conn *rawConn, n int64) int16) {
		for worker := range 2 {
			conn := dial(t, c)
			wg.Go(func() {
				for n := int64(worker); ctx.Err() == nil; n++ {
					if code := ask(conn, n); !known[code] {
						t.Errorf("%s: %v", name, kerr.ErrorForCode(code))
						return
					}
				}
			})
		}
	}
	partition := func(n int64) int32 { return int32(n % 3) }
	load("Produce", func(conn *rawConn, n int64) int16 {
		return conn.produceRaw(produceOf("views", partition(n), batchOf(t, batch.None, nil, at(n, "x")))).ErrorCode
	})
	load("Fetch", func(conn *rawConn, n int64) int16 {
		req := fetchOf(n%5, "views")
		req.MaxWaitMillis, req.MinBytes = 20, 1<<20
		req.Topics[0].Partitions[0].Partition = partition(n)
		return ask[*kmsg.FetchResponse](conn, req).Topics[0].Partitions[0].ErrorCode
	})
	load("ListOffsets", func(conn *rawConn, n int64) int16 { return conn.listOffset("views", n%10-3).ErrorCode })
	load("DeleteRecords", func(conn *rawConn, n int64) int16 {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Version = 2
		rt, rp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = partition(n), n%4-1
		rt.Topic, rt.Partitions = "views", append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		return ask[*kmsg.DeleteRecordsResponse](conn, req).Topics[0].Partitions[0].ErrorCode
	})
	load("OffsetCommit", func(conn *rawConn, n int64) int16 {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, fmt.Sprint("readers", n%3), -1
		rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset = partition(n), n
		rt.Topic, rt.Partitions = "views", append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		code := ask[*kmsg.OffsetCommitResponse](conn, req).Topics[0].Partitions[0].ErrorCode
		if code == kerr.NotCoordinator.Code || code == kerr.CoordinatorNotAvailable.Code { // before the topic of groups exists
			find := kmsg.NewPtrFindCoordinatorRequest()
			find.Version, find.CoordinatorKeys = 4, []string{req.Group}
			ask[*kmsg.FindCoordinatorResponse](conn, find)
			return 0
		}
		return code
	})
	wg.Go(func() {
		adm := kadm.NewClient(admin)
		for n := 0; ctx.Err() == nil; n++ {
			if _, err := adm.DeleteTopic(t.Context(), "views"); err != nil {
				t.Errorf("deleting: %v", err)
			}
			if _, err := adm.CreateTopic(t.Context(), 3, 1, nil, "views"); err != nil {
				t.Errorf("creating: %v", err)
			}
		}
	})
	wg.Wait()
	conn := dial(t, c)
	wantCode(t, "afterwards", conn.produceRaw(produceOf("views", 0, batchOf(t, batch.None, nil, at(1, "x")))).ErrorCode, nil)
	_ = conn.Close()

	admin.Close()
	c.Stop()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before+3; { // brokertest's port has some
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(5 * time.Millisecond) // a poll with a deadline
	}
}
