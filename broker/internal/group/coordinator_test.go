package group

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// newCoordinator leads all of the given number of partitions.
func newCoordinator(t *testing.T, partitions int32) (*Coordinator, map[int32]*memLog) {
	var ids atomic.Int32
	c, err := New(Config{
		SessionMin: time.Second, SessionMax: time.Minute,
		OffsetsRetention: 24 * time.Hour, OffsetsCheckInterval: time.Hour,
		NewID: func() string { return fmt.Sprint(ids.Add(1)) },
		Now:   time.Now,
		Log:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	logs := make(map[int32]*memLog)
	for p := range partitions {
		logs[p] = &memLog{}
		c.Lead(p, logs[p])
	}
	c.SetPartitions(partitions)
	synctest.Wait() // all are loaded
	return c, logs
}

// await calls f with a reply function and returns what it is given.
func await[R any](f func(reply func(R))) R {
	c := make(chan R, 1)
	f(func(r R) { c <- r })
	return <-c
}

func joinOf(group, member string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID = 3, group, member
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, 10_000, "connect"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "default", Metadata: []byte("url")}}
	return req
}

func (c *Coordinator) mustJoin(t *testing.T, group string) *kmsg.JoinGroupResponse {
	t.Helper()
	r := await(func(reply func(*kmsg.JoinGroupResponse)) { c.JoinGroup(Client{ID: "c"}, joinOf(group, ""), reply) })
	if r.ErrorCode != 0 || r.Version != 3 {
		t.Fatalf("joining %s: %s, version %d", group, errorName(r.ErrorCode), r.Version)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 1, group, r.MemberID, r.Generation
	if s := await(func(reply func(*kmsg.SyncGroupResponse)) { c.SyncGroup(sync, reply) }); s.ErrorCode != 0 || s.Version != 1 {
		t.Fatalf("syncing %s: %s, version %d", group, errorName(s.ErrorCode), s.Version)
	}
	return r
}

func TestGroupsOfAllPartitionsAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, logs := newCoordinator(t, 4)
		var names []string
		for i := range 12 {
			name := fmt.Sprintf("group-%02d", i)
			names = append(names, name)
			c.mustJoin(t, name)
		}
		for p, log := range logs {
			if len(log.records) == 0 {
				t.Errorf("none of 12 groups went to partition %d", p)
			}
		}
		c.List(nil, nil, func(groups []kmsg.ListGroupsResponseGroup, code int16) {
			var got []string
			for _, g := range groups {
				got = append(got, g.Group)
			}
			if strings.Join(got, " ") != strings.Join(names, " ") || code != 0 {
				t.Errorf("listed %v, code %d", got, code)
			}
		})
		synctest.Wait()
	})
}

func TestMovedPartitionIsRefusedAndServedByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, logs := newCoordinator(t, 1)
		joined := c.mustJoin(t, "g")
		beat := func(c *Coordinator) int16 {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Version, req.Group, req.MemberID, req.Generation = 4, "g", joined.MemberID, joined.Generation
			return await(func(reply func(*kmsg.HeartbeatResponse)) { c.Heartbeat(req, reply) }).ErrorCode
		}
		if code := beat(c); code != 0 {
			t.Fatalf("heartbeat: %s", errorName(code))
		}
		c.Resign(0)
		if code := beat(c); code != kerr.NotCoordinator.Code {
			t.Errorf("heartbeat after the partition moved: %s", errorName(code))
		}
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Group = "g"
		commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
		refused := await(func(reply func(*kmsg.OffsetCommitResponse)) { c.OffsetCommit(commit, commitSkeleton(commit), reply) })
		if code := refused.Topics[0].Partitions[0].ErrorCode; code != kerr.NotCoordinator.Code {
			t.Errorf("commit after the partition moved: %s", errorName(code))
		}
		next, _ := newCoordinator(t, 0)
		next.SetPartitions(1)
		next.Lead(0, logs[0])
		synctest.Wait()
		if code := beat(next); code != 0 {
			t.Errorf("heartbeat to the next coordinator: %s", errorName(code))
		}
		// Its session counts from the takeover, and ends.
		time.Sleep(11 * time.Second)
		if code := beat(next); code != kerr.UnknownMemberID.Code {
			t.Errorf("heartbeat after the session: %s", errorName(code))
		}
	})
}

func TestBeforeTheTopicExistsNobodyCoordinates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCoordinator(t, 0)
		if _, ok := c.PartitionOf("g"); ok {
			t.Error("there is a partition")
		}
		if code := await(func(reply func(int16)) { c.Delete("g", reply) }); code != kerr.NotCoordinator.Code {
			t.Errorf("delete: %s", errorName(code))
		}
		c.List(nil, nil, func(groups []kmsg.ListGroupsResponseGroup, code int16) {
			if len(groups) != 0 || code != 0 {
				t.Errorf("listed %v, code %d", groups, code)
			}
		})
	})
}

func TestOldLeaveGroupHasTheErrorOfItsMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCoordinator(t, 1)
		joined := c.mustJoin(t, "g")
		for _, want := range []*kerr.Error{nil, kerr.UnknownMemberID} {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Version, req.Group, req.MemberID = 1, "g", joined.MemberID
			r := await(func(reply func(*kmsg.LeaveGroupResponse)) { c.LeaveGroup(req, reply) })
			if r.ErrorCode != codeOf(want) {
				t.Errorf("leaving: %s, want %v", errorName(r.ErrorCode), want)
			}
		}
	})
}

// Comparing the protocols of two such members would take minutes, in which the
// partition of __consumer_offsets would serve nobody.
func TestMemberWithVeryManyProtocolsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCoordinator(t, 1)
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.SessionTimeoutMillis, req.ProtocolType = 3, "g", 10_000, "consumer"
		for i := range 100_000 {
			req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: strconv.Itoa(i)})
		}
		r := await(func(reply func(*kmsg.JoinGroupResponse)) { c.JoinGroup(Client{}, req, reply) })
		if r.ErrorCode != kerr.InconsistentGroupProtocol.Code {
			t.Errorf("joining: %s", errorName(r.ErrorCode))
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("an empty configuration is accepted")
	}
}
