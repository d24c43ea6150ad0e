package broker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/brokertest"
)

// consumerMember is one consumer of a group, with what it owns and has read.
type consumerMember struct {
	client *kgo.Client
	stop   context.CancelFunc
	ended  chan struct{}

	mu    sync.Mutex
	owned map[int32]bool
	read  []string // values
	errs  []error
}

// joinGroup starts a consumer of topic that polls and commits until it leaves.
func joinGroup(t *testing.T, c *brokertest.Cluster, group, topic string, opts ...kgo.Opt) *consumerMember {
	t.Helper()
	m := &consumerMember{ended: make(chan struct{}), owned: make(map[int32]bool)}
	change := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range topics[topic] {
				m.owned[p] = owns
			}
			maps.DeleteFunc(m.owned, func(_ int32, owned bool) bool { return !owned })
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	m.stop = stop
	m.client = newClient(t, c, append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(50 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
		kgo.BlockRebalanceOnPoll(),
	}, opts...)...)
	go func() {
		defer close(m.ended)
		m.poll(ctx)
	}()
	t.Cleanup(func() { m.leave() })
	return m
}

func (m *consumerMember) poll(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := m.client.PollFetches(ctx)
		m.mu.Lock()
		for _, r := range fetches.Records() {
			m.read = append(m.read, string(r.Value))
		}
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.Canceled) {
				m.errs = append(m.errs, e.Err)
			}
		}
		m.mu.Unlock()
		if err := m.client.CommitRecords(context.WithoutCancel(ctx), fetches.Records()...); err != nil {
			m.mu.Lock()
			m.errs = append(m.errs, fmt.Errorf("committing: %w", err))
			m.mu.Unlock()
		}
		m.client.AllowRebalance()
	}
}

// leave ends the consumer, which leaves its group unless it is static.
func (m *consumerMember) leave() {
	m.stop()
	<-m.ended
	m.client.Close()
}

func (m *consumerMember) partitions() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.owned))
}

func (m *consumerMember) values() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.read)
}

func (m *consumerMember) failures() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.errs)
}

// eventually polls until it is so.
func eventually(t *testing.T, what string, so func() (state string, ok bool)) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		state, ok := so()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so after 20 s: %s", what, state)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// shared waits until the members own all partitions between them, each once,
// and none is without.
func shared(t *testing.T, partitions int, members ...*consumerMember) {
	t.Helper()
	eventually(t, "every partition has one owner", func() (string, bool) {
		owners := make(map[int32]int)
		var state []string
		idle := false
		for _, m := range members {
			owned := m.partitions()
			state = append(state, fmt.Sprint(owned))
			idle = idle || len(owned) == 0
			for _, p := range owned {
				owners[p]++
			}
		}
		once := !slices.ContainsFunc(slices.Collect(maps.Values(owners)), func(n int) bool { return n != 1 })
		return strings.Join(state, " "), once && !idle && len(owners) == partitions
	})
}

// readAll waits until the members have read all values between them, and
// fails if any was read twice.
func readAll(t *testing.T, want []string, members ...*consumerMember) {
	t.Helper()
	eventually(t, "all records are read", func() (string, bool) {
		n := 0
		for _, m := range members {
			n += len(m.values())
		}
		return fmt.Sprintf("%d of %d", n, len(want)), n >= len(want)
	})
	var got []string
	for _, m := range members {
		got = append(got, m.values()...)
		for _, err := range m.failures() {
			t.Errorf("a member failed: %v", err)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("read %d records %q, want %d", len(got), got, len(want))
	}
}

func TestMembersShareAndHandOver(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{
		"eager range":        kgo.RangeBalancer(),
		"cooperative sticky": kgo.CooperativeStickyBalancer(),
	} {
		t.Run(name, func(t *testing.T) {
			c := brokertest.Start(t)
			producer := newClient(t, c, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
			createTopic(t, producer, "views", 6, nil)
			with := kgo.Balancers(balancer)
			values := numbered(60)

			produce(t, producer, "views", values[:20]...)
			first := joinGroup(t, c, "readers", "views", with)
			shared(t, 6, first)
			readAll(t, values[:20], first)

			second, third := joinGroup(t, c, "readers", "views", with), joinGroup(t, c, "readers", "views", with)
			shared(t, 6, first, second, third)
			produce(t, producer, "views", values[20:40]...)
			readAll(t, values[:40], first, second, third)

			first.leave() // it led
			shared(t, 6, second, third)
			produce(t, producer, "views", values[40:]...)
			readAll(t, values, first, second, third)

			// All leave, and whoever comes later goes on where they stopped.
			second.leave()
			third.leave()
			produce(t, producer, "views", "one more")
			late := joinGroup(t, c, "readers", "views", with)
			readAll(t, []string{"one more"}, late)
		})
	}
}

func TestGroupSurvivesItsBroker(t *testing.T) {
	for name, stop := range map[string]func(*brokertest.Cluster){
		"clean stop": (*brokertest.Cluster).Stop,
		"power cut":  func(c *brokertest.Cluster) { c.CutPower(7) },
	} {
		t.Run(name, func(t *testing.T) {
			c := brokertest.Start(t)
			producer := newClient(t, c, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
			createTopic(t, producer, "views", 4, nil)
			commit := func(offset int64) {
				t.Helper()
				offsets := kadm.Offsets{}
				offsets.AddOffset("views", 0, offset, 3)
				if err := kadm.NewClient(producer).CommitAllOffsets(testContext(t), "tool", offsets); err != nil {
					t.Fatal(err)
				}
			}
			a, b := joinGroup(t, c, "readers", "views"), joinGroup(t, c, "readers", "views")
			shared(t, 4, a, b)
			values := numbered(20)
			for i := range 5 {
				produce(t, producer, "views", values[i*4:i*4+4]...)
				readAllAtLeastOnce(t, values[:i*4+4], a, b)
				commit(int64(i))
				stop(c)
				c.Start()
				got, err := kadm.NewClient(producer).FetchOffsets(testContext(t), "tool")
				if err != nil {
					t.Fatal(err)
				}
				if o, ok := got.Lookup("views", 0); !ok || o.At != int64(i) || o.LeaderEpoch != 3 {
					t.Fatalf("after stop %d the offset is %+v, want %d", i, o.Offset, i)
				}
			}
			shared(t, 4, a, b)
		})
	}
}

// readAllAtLeastOnce is readAll where a commit may have been lost with its
// broker, so that records come again.
func readAllAtLeastOnce(t *testing.T, want []string, members ...*consumerMember) {
	t.Helper()
	eventually(t, "all records are read", func() (string, bool) {
		missing := slices.Clone(want)
		for _, m := range members {
			for _, v := range m.values() {
				missing = slices.DeleteFunc(missing, func(w string) bool { return w == v })
			}
		}
		return fmt.Sprintf("missing %q", missing), len(missing) == 0
	})
}

func TestStaticMemberIsFencedByItsSuccessor(t *testing.T) {
	c := brokertest.Start(t)
	producer := newClient(t, c)
	createTopic(t, producer, "views", 2, nil)
	older := joinGroup(t, c, "readers", "views", kgo.InstanceID("one"))
	shared(t, 2, older)
	newer := joinGroup(t, c, "readers", "views", kgo.InstanceID("one"))
	shared(t, 2, newer)
	eventually(t, "the older member sees that it is fenced", func() (string, bool) {
		errs := older.failures()
		return fmt.Sprint(errs), slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, kerr.FencedInstanceID) })
	})
	produce(t, producer, "views", "a", "b")
	readAll(t, []string{"a", "b"}, newer)
}

func TestGroupsAreListedDescribedAndDeleted(t *testing.T) {
	c := brokertest.Start(t)
	client := newClient(t, c, kgo.ClientID("tester"))
	admin := kadm.NewClient(client)
	createTopic(t, client, "views", 2, nil)
	ctx := testContext(t)

	m := joinGroup(t, c, "readers", "views", kgo.ClientID("reader"))
	shared(t, 2, m)
	offsets := kadm.Offsets{}
	offsets.AddOffset("views", 0, 0, -1)
	offsets.AddOffset("views", 1, 0, -1)
	if err := admin.CommitAllOffsets(ctx, "tool", offsets); err != nil {
		t.Fatal(err)
	}

	described, err := admin.DescribeGroups(ctx, "readers", "tool", "none")
	if err != nil {
		t.Fatal(err)
	}
	if g := described["readers"]; g.State != "Stable" || g.ProtocolType != "consumer" || len(g.Members) != 1 ||
		g.Members[0].ClientID != "reader" || !strings.HasPrefix(g.Members[0].ClientHost, "/127.") {
		t.Errorf("readers is %+v", g)
	} else if a, ok := g.Members[0].Assigned.AsConsumer(); !ok || len(a.Topics) != 1 || len(a.Topics[0].Partitions) != 2 {
		t.Errorf("readers' member is assigned %+v", a)
	}
	if g := described["tool"]; g.State != "Empty" || g.ProtocolType != "" {
		t.Errorf("tool is %+v", g)
	}
	if g := described["none"]; g.State != "Dead" {
		t.Errorf("none is %+v", g)
	}

	for _, filter := range []struct {
		states []string
		want   []string
	}{{nil, []string{"readers", "tool"}}, {[]string{"Stable"}, []string{"readers"}}, {[]string{"empty"}, []string{"tool"}}} {
		listed, err := admin.ListGroups(ctx, filter.states...)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(listed.Groups(), filter.want) {
			t.Errorf("groups in states %q: %q, want %q", filter.states, listed.Groups(), filter.want)
		}
	}

	deleted, err := admin.DeleteGroups(ctx, "readers", "tool", "none")
	if err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]error{"readers": kerr.NonEmptyGroup, "tool": nil, "none": kerr.GroupIDNotFound} {
		if got := deleted[group].Err; !errors.Is(got, want) {
			t.Errorf("deleting %s: %v, want %v", group, got, want)
		}
	}
	m.leave()
	eventually(t, "the group is empty", func() (string, bool) {
		d, err := admin.DescribeGroups(ctx, "readers")
		return fmt.Sprint(d["readers"].State, err), d["readers"].State == "Empty"
	})
	if deleted, err = admin.DeleteGroups(ctx, "readers"); err != nil || deleted["readers"].Err != nil {
		t.Errorf("deleting it then: %v, %v", deleted, err)
	}
}

func TestTopicMadeAnewStartsAfresh(t *testing.T) {
	c := brokertest.Start(t)
	client := newClient(t, c)
	admin := kadm.NewClient(client)
	ctx := testContext(t)
	createTopic(t, client, "views", 1, nil)
	createTopic(t, client, "clicks", 1, nil)
	produce(t, client, "views", numbered(5)...)
	offsets := kadm.Offsets{}
	offsets.AddOffset("views", 0, 5, -1)
	offsets.AddOffset("clicks", 0, 0, -1)
	if err := admin.CommitAllOffsets(ctx, "readers", offsets); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DeleteTopic(ctx, "views"); err != nil {
		t.Fatal(err)
	}
	createTopic(t, client, "views", 1, nil)
	for range 2 { // the second time after a restart
		got, err := admin.FetchOffsets(ctx, "readers")
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := got.Lookup("views", 0); ok && o.At != -1 {
			t.Errorf("the group has offset %d of the new topic", o.At)
		}
		if _, ok := got.Lookup("clicks", 0); !ok {
			t.Error("the other topic's offset is gone as well")
		}
		c.Restart()
	}
}

func TestFindCoordinatorInAllForms(t *testing.T) {
	c := brokertest.Start(t)
	conn := dial(t, c)
	for version := int16(0); version <= 6; version++ {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKey, req.CoordinatorKeys = version, "a", []string{"a", "b", "c"}
		resp := ask[*kmsg.FindCoordinatorResponse](conn, req)
		found := resp.Coordinators
		if version < 4 {
			found = []kmsg.FindCoordinatorResponseCoordinator{{NodeID: resp.NodeID, Host: resp.Host, Port: resp.Port, ErrorCode: resp.ErrorCode}}
		}
		for _, f := range found {
			wantCode(t, fmt.Sprintf("version %d, key %q", version, f.Key), f.ErrorCode, nil)
			if at := fmt.Sprintf("%s:%d", f.Host, f.Port); at != c.Addr() {
				t.Errorf("version %d: the coordinator is at %s, want %s", version, at, c.Addr())
			}
		}
		if version >= 4 && len(found) != 3 {
			t.Errorf("version %d: %d coordinators, want 3", version, len(found))
		}
	}
	for _, keyType := range []int8{1, 2, 9} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKeys, req.CoordinatorType = 6, []string{"x"}, keyType
		got := ask[*kmsg.FindCoordinatorResponse](conn, req).Coordinators[0]
		wantCode(t, fmt.Sprintf("type %d", keyType), got.ErrorCode, kerr.InvalidRequest)
		if got.ErrorMessage == nil {
			t.Errorf("type %d: no message", keyType)
		}
	}
}

// TestOffsetsInAllVersions commits with each version of OffsetCommit and reads
// with each of OffsetFetch.
func TestOffsetsInAllVersions(t *testing.T) {
	c := brokertest.Start(t)
	client := newClient(t, c)
	createTopic(t, client, "views", 2, nil)
	id := topicID(t, client, "views")
	conn := dial(t, c)
	findGroup(conn, "g")
	for commit := int16(2); commit <= 10; commit++ {
		wantCode(t, fmt.Sprintf("commit version %d", commit), conn.commitOffset(commit, "g", "views", id, 1, int64(commit)), nil)
		for fetch := int16(1); fetch <= 10; fetch++ {
			for _, all := range []bool{false, true} {
				if all && fetch < 2 {
					continue
				}
				what := fmt.Sprintf("commit version %d, fetch version %d, all %v", commit, fetch, all)
				p := conn.fetchOffset(fetch, "g", "views", id, 1, all)
				wantCode(t, what, p.ErrorCode, nil)
				if p.Offset != int64(commit) || *p.Metadata != "text" {
					t.Errorf("%s: got offset %d, %q", what, p.Offset, *p.Metadata)
				}
				if want := int32(4); commit >= 6 && fetch >= 5 && p.LeaderEpoch != want {
					t.Errorf("%s: got leader epoch %d, want %d", what, p.LeaderEpoch, want)
				}
			}
		}
	}
	none := [16]byte{15: 1}
	wantCode(t, "commit of an unknown partition", conn.commitOffset(9, "g", "views", id, 2, 1), kerr.UnknownTopicOrPartition)
	wantCode(t, "commit of an unknown topic", conn.commitOffset(9, "g", "clicks", id, 0, 1), kerr.UnknownTopicOrPartition)
	wantCode(t, "commit of an unknown id", conn.commitOffset(10, "g", "", none, 0, 1), kerr.UnknownTopicID)
	wantCode(t, "fetch of an unknown id", conn.fetchOffset(10, "g", "", none, 0, false).ErrorCode, kerr.UnknownTopicID)
	if p := conn.fetchOffset(9, "g", "clicks", id, 0, false); p.ErrorCode != 0 || p.Offset != -1 {
		t.Errorf("fetch of an unknown topic: offset %d, error %v", p.Offset, kerr.ErrorForCode(p.ErrorCode))
	}
}

// findGroup waits until the group has a coordinator, on the one broker.
func findGroup(conn *rawConn, group string) {
	conn.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKeys = 4, []string{group}
	wantCode(conn.t, "finding the coordinator", ask[*kmsg.FindCoordinatorResponse](conn, req).Coordinators[0].ErrorCode, nil)
	eventually(conn.t, "the coordinator is loaded", func() (string, bool) {
		d := kmsg.NewPtrDescribeGroupsRequest()
		d.Version, d.Groups = 5, []string{group}
		code := ask[*kmsg.DescribeGroupsResponse](conn, d).Groups[0].ErrorCode
		return fmt.Sprint(kerr.ErrorForCode(code)), code == 0
	})
}

func topicID(t *testing.T, client *kgo.Client, topic string) [16]byte {
	t.Helper()
	topics, err := kadm.NewClient(client).ListTopics(testContext(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	return topics[topic].ID
}

func (c *rawConn) commitOffset(version int16, group, topic string, id [16]byte, partition int32, offset int64) int16 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = version, group
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 4, new("text")
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, TopicID: id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return ask[*kmsg.OffsetCommitResponse](c, req).Topics[0].Partitions[0].ErrorCode
}

// fetchOffset asks for one partition's offset, or for all and picks that one.
func (c *rawConn) fetchOffset(version int16, group, topic string, id [16]byte, partition int32, all bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = version, group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if !all {
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: id, Partitions: []int32{partition}}}
	}
	req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	resp := ask[*kmsg.OffsetFetchResponse](c, req)
	if version < 8 {
		wantCode(c.t, "fetching offsets", resp.ErrorCode, nil)
		p := resp.Topics[0].Partitions[0]
		return kmsg.OffsetFetchResponseGroupTopicPartition{Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode}
	}
	wantCode(c.t, "fetching offsets", resp.Groups[0].ErrorCode, nil)
	return resp.Groups[0].Topics[0].Partitions[0]
}

func TestOffsetsOfManyGroupsInOneRequest(t *testing.T) {
	c := brokertest.Start(t)
	client := newClient(t, c)
	createTopic(t, client, "views", 1, nil)
	conn := dial(t, c)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 9
	for i := range 20 {
		group := fmt.Sprint("group-", i)
		findGroup(conn, group)
		wantCode(t, group, conn.commitOffset(9, group, "views", [16]byte{}, 0, int64(i)), nil)
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = group
		req.Groups = append(req.Groups, g)
	}
	for i, g := range ask[*kmsg.OffsetFetchResponse](conn, req).Groups {
		if g.Group != req.Groups[i].Group || g.Topics[0].Partitions[0].Offset != int64(i) {
			t.Errorf("answer %d is for %s: %+v", i, g.Group, g.Topics)
		}
	}
}

// TestGroupOfConnectWorkers uses the group protocol as Connect's workers do:
// another protocol type, and members without topics.
func TestGroupOfConnectWorkers(t *testing.T) {
	c := brokertest.Start(t)
	conn := dial(t, c)
	findGroup(conn, "workers")
	join := func(version int16, member string) *kmsg.JoinGroupResponse {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.MemberID, req.ProtocolType = version, "workers", member, "connect"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "sessioned", Metadata: []byte("http://here")}}
		return ask[*kmsg.JoinGroupResponse](conn, req)
	}
	for version := int16(2); version <= 9; version++ {
		what := fmt.Sprint("version ", version)
		joined := join(version, "")
		if version >= 4 {
			wantCode(t, what, joined.ErrorCode, kerr.MemberIDRequired)
			joined = join(version, joined.MemberID)
		}
		wantCode(t, what, joined.ErrorCode, nil)
		if joined.LeaderID != joined.MemberID || len(joined.Members) != 1 || string(joined.Members[0].ProtocolMetadata) != "http://here" {
			t.Fatalf("%s: joined %+v", what, joined)
		}
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Version = min(version, 5)
		sync.Group, sync.MemberID, sync.Generation = "workers", joined.MemberID, joined.Generation
		sync.ProtocolType, sync.Protocol = new("connect"), new("sessioned")
		sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: []byte("all")}}
		synced := ask[*kmsg.SyncGroupResponse](conn, sync)
		wantCode(t, what, synced.ErrorCode, nil)
		if string(synced.MemberAssignment) != "all" {
			t.Errorf("%s: assigned %q", what, synced.MemberAssignment)
		}
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Version, leave.Group, leave.MemberID = min(version, 5), "workers", joined.MemberID
		leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: joined.MemberID}}
		wantCode(t, what, ask[*kmsg.LeaveGroupResponse](conn, leave).ErrorCode, nil)
	}
}

// TestStopDoesNotWaitForMembers has a member wait for others in a rebalance
// while the broker stops.
func TestStopDoesNotWaitForMembers(t *testing.T) {
	c := brokertest.Start(t, brokertest.Setting("group.initial.rebalance.delay.ms", "60000"))
	conn := dial(t, c)
	findGroup(conn, "g")
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType = 3, "g", "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 300_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	conn.send(req)
	other := dial(t, c)
	eventually(t, "the member waits", func() (string, bool) {
		d := kmsg.NewPtrDescribeGroupsRequest()
		d.Version, d.Groups = 5, []string{"g"}
		g := ask[*kmsg.DescribeGroupsResponse](other, d).Groups[0]
		return g.State, len(g.Members) == 1
	})
	began := time.Now()
	c.Stop()
	if took := time.Since(began); took > time.Second {
		t.Errorf("stopping took %v", took)
	}
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version = 3
	conn.receive(resp)
	wantCode(t, "the waiting member", resp.ErrorCode, kerr.NotCoordinator)
}
