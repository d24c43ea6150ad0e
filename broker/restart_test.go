package broker_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/brokertest"
)

// TestAcknowledgedRecordsSurvive stops the broker in every way, with one
// client that lives through all of it.
func TestAcknowledgedRecordsSurvive(t *testing.T) {
	for name, stop := range map[string]func(*brokertest.Cluster){
		"clean stop": (*brokertest.Cluster).Stop,
		"kill":       (*brokertest.Cluster).Kill,
		"power cut":  func(c *brokertest.Cluster) { c.CutPower(1) },
	} {
		t.Run(name, func(t *testing.T) {
			c := brokertest.Start(t)
			client := newClient(t, c)
			createTopic(t, client, "views", 1, nil)
			values := numbered(30)
			for i := 0; i < len(values); i += 10 {
				produce(t, client, "views", values[i:i+10]...)
				stop(c)
				c.Start()
			}
			got := consume(t, newClient(t, c, fromStart("views")...), len(values))
			for i, r := range got {
				if string(r.Value) != values[i] || r.Offset != int64(i) {
					t.Fatalf("offset %d holds %q, want %q", r.Offset, r.Value, values[i])
				}
			}
		})
	}
}

func TestDataInAFolder(t *testing.T) {
	for name, stop := range map[string]func(*brokertest.Cluster){"clean stop": (*brokertest.Cluster).Stop, "kill": (*brokertest.Cluster).Kill} {
		t.Run(name, func(t *testing.T) {
			c := brokertest.Start(t, brokertest.Folder(t.TempDir()))
			client := newClient(t, c)
			createTopic(t, client, "views", 1, nil)
			produce(t, client, "views", "a", "b")
			stop(c)
			c.Start()
			produce(t, client, "views", "c")
			if got := consume(t, newClient(t, c, fromStart("views")...), 3); string(got[2].Value) != "c" {
				t.Errorf("the third record is %q", got[2].Value)
			}
		})
	}
}

// TestCleanStopAnswersWhoWaits parks a long poll and a member that waits for
// others to join, and stops the broker.
func TestCleanStopAnswersWhoWaits(t *testing.T) {
	c := brokertest.Start(t, brokertest.Setting("group.initial.rebalance.delay.ms", "60000"))
	createTopic(t, newClient(t, c), "views", 1, nil)
	poller, member := dial(t, c), dial(t, c)
	poll := with(fetchOf(0, "views"), func(r *kmsg.FetchRequest) { r.MaxWaitMillis = 15_000 })
	poller.send(poll)

	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "readers"
	for ask[*kmsg.FindCoordinatorResponse](member, find).ErrorCode != 0 {
		time.Sleep(time.Millisecond) // a poll; the connection has a deadline
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 3, "readers", "consumer", 10_000, 60_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	member.send(join)
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{"readers"}
	other := dial(t, c)
	for ask[*kmsg.DescribeGroupsResponse](other, describe).Groups[0].State != "PreparingRebalance" {
		time.Sleep(time.Millisecond) // a poll; the connection has a deadline
	}

	began := time.Now()
	c.Stop()
	if took := time.Since(began); took > time.Second {
		t.Errorf("stopping took %v", took)
	}
	poller.receive(poll.ResponseKind())
	poller.wantClosed()
	joined := join.ResponseKind().(*kmsg.JoinGroupResponse)
	member.receive(joined)
	if joined.ErrorCode == 0 {
		t.Error("the member joined a group of a broker that stops")
	}
}
