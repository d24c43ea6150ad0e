package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/broker/internal/coord"
)

// step is one thing that happens to a coordinator.
type step struct {
	kind       string
	group      string
	member     int // index into the ids handed out so far
	instance   int // 0: none
	generation int // relative to the newest one seen; -3: an outsider
	protocols  int // bits of what the member knows
	version    int16
	wait       time.Duration
	offset     int64
}

func drawStep(t *rapid.T) step {
	return step{
		kind:       rapid.SampledFrom([]string{"join", "join", "join", "sync", "sync", "heartbeat", "leave", "commit", "commit", "fetch", "advance", "advance", "delete", "forget", "load", "hold", "release", "refuse"}).Draw(t, "kind"),
		group:      rapid.SampledFrom([]string{"g", "g", "h"}).Draw(t, "group"),
		member:     rapid.IntRange(-1, 6).Draw(t, "member"),
		instance:   rapid.IntRange(-2, 2).Draw(t, "instance"),
		generation: rapid.SampledFrom([]int{0, 0, 0, 0, -1, -3}).Draw(t, "generation"),
		protocols:  rapid.IntRange(1, 3).Draw(t, "protocols"),
		version:    rapid.SampledFrom([]int16{3, 3, 8, 9}).Draw(t, "version"),
		wait:       time.Duration(rapid.SampledFrom([]int{1, 2, 5, 20, 3600}).Draw(t, "wait")) * time.Second,
		offset:     rapid.Int64Range(0, 100).Draw(t, "offset"),
	}
}

// world plays steps on a bench and remembers what clients would.
type world struct {
	*bench
	ids        []string
	generation map[string]int32
	open       int // calls without a reply
}

func newWorld(t testing.TB) *world {
	return &world{bench: newBench(t), generation: make(map[string]int32)}
}

func (w *world) play(t testing.TB, s step) {
	id := ""
	if s.member >= 0 && s.member < len(w.ids) {
		id = w.ids[len(w.ids)-1-s.member] // the newest ones are the likeliest to live
	}
	var instance *string
	if s.instance > 0 {
		instance = new(fmt.Sprint("i", s.instance))
	}
	generation := w.generation[s.group] + int32(s.generation)
	if s.generation == -3 {
		generation = -1
	}
	switch s.kind {
	case "join":
		w.playJoin(s, id, instance)
	case "sync":
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = s.group, id, instance, generation
		for i, id := range w.ids {
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: fmt.Append(nil, "p", i)})
		}
		w.call(func(turn *coord.Turn, m *machine, c *coord.Call[*kmsg.SyncGroupResponse]) { m.sync(turn, req, c) },
			func(r *kmsg.SyncGroupResponse) string { return errorName(r.ErrorCode) + string(r.MemberAssignment) })
	case "heartbeat":
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = s.group, id, instance, generation
		w.call(func(turn *coord.Turn, m *machine, c *coord.Call[int16]) { c.Reply(codeOf(m.heartbeat(turn, req))) }, errorName)
	case "leave":
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group, req.Members = s.group, []kmsg.LeaveGroupRequestMember{{MemberID: id, InstanceID: instance}}
		w.call(func(turn *coord.Turn, m *machine, c *coord.Call[*kmsg.LeaveGroupResponse]) {
			c.Reply(m.leave(turn, req))
		},
			func(r *kmsg.LeaveGroupResponse) string { return errorName(r.ErrorCode) })
	case "commit":
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = s.version, s.group, id, instance, generation
		p := kmsg.OffsetCommitRequestTopicPartition{Partition: int32(s.offset % 2), Offset: s.offset, LeaderEpoch: 1}
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", TopicID: topicID(byte(s.protocols)), Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		w.call(func(turn *coord.Turn, m *machine, c *coord.Call[*kmsg.OffsetCommitResponse]) {
			resp := commitSkeleton(req)
			m.commit(turn, req, resp)
			c.Reply(resp)
		}, func(r *kmsg.OffsetCommitResponse) string { return errorName(r.Topics[0].Partitions[0].ErrorCode) })
	case "fetch":
		w.call(func(_ *coord.Turn, m *machine, c *coord.Call[kmsg.OffsetFetchResponseGroup]) {
			c.Reply(m.fetch(&kmsg.OffsetFetchRequestGroup{Group: s.group}))
		}, func(r kmsg.OffsetFetchResponseGroup) string { return fmt.Sprint(len(r.Topics)) })
	case "delete":
		w.call(func(turn *coord.Turn, m *machine, c *coord.Call[int16]) { c.Reply(codeOf(m.delete(turn, s.group))) }, errorName)
	case "forget":
		w.call(func(turn *coord.Turn, m *machine, c *coord.Call[int16]) {
			m.forgetTopic(turn, "t", topicID(byte(s.protocols)))
			c.Reply(0)
		}, errorName)
	case "advance":
		w.advance(s.wait)
	case "hold":
		w.log.held = true
	case "release":
		w.release()
	case "refuse":
		w.log.refuse = coord.ErrUnavailable
	case "load":
		w.shard.Abort(coord.ErrNotCoordinator)
		w.release()
		w.load(t)
	}
}

func (w *world) playJoin(s step, id string, instance *string) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = s.version, s.group, id, instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, 30_000, consumerProtocol
	for bit, name := range []string{"range", "sticky"} {
		if s.protocols&(1<<bit) != 0 {
			req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: fmt.Append(nil, "v", s.offset%3)})
		}
	}
	w.call(func(turn *coord.Turn, m *machine, c *coord.Call[*kmsg.JoinGroupResponse]) {
		m.join(joining{turn, Client{ID: "c", Host: "/h"}, req, c})
	}, func(r *kmsg.JoinGroupResponse) string {
		if r.MemberID != "" && r.MemberID != id {
			w.ids = append(w.ids, r.MemberID)
		}
		if r.ErrorCode == 0 {
			w.generation[s.group] = r.Generation
		}
		return showJoin(r)
	})
}

func (w *world) release() {
	w.log.held, w.log.refuse = false, nil
	w.log.settle(nil)
	w.shard.Deliver()
}

// call is do, with the open calls counted.
func (w *world) call[R any](run func(*coord.Turn, *machine, *coord.Call[R]), show func(R) string) {
	w.open++
	n := w.calls
	w.calls++
	w.shard.Do(w.now, run, func(r R, err error) {
		w.open--
		if err != nil {
			w.printf("#%d: %v", n, err)
			return
		}
		w.printf("#%d: %s", n, show(r))
	})
	w.shard.Deliver()
}

// check holds what must be true after every step.
func (w *world) check(t *rapid.T) {
	again := newMachine(&w.cfg, 0)
	for _, r := range w.log.records {
		if err := again.Replay(r); err != nil {
			t.Fatalf("replaying: %v", err)
		}
	}
	if got, want := durable(w.m), durable(again); got != want {
		t.Fatalf("the machine holds\n%s\nits log says\n%s", got, want)
	}
	for name, g := range w.m.groups {
		if g.idle() {
			t.Fatalf("group %s holds nothing and is still there", name)
		}
		if g.state == CompletingRebalance && g.member(g.leader) == nil {
			t.Fatalf("group %s is led by nobody", name)
		}
		if g.state != Stable {
			continue
		}
		r, ok := again.groups[name]
		if !ok {
			t.Fatalf("group %s is stable and was not written", name)
		}
		r.restore()
		if got, want := live(g), live(r); got != want {
			t.Fatalf("a coordinator that takes over believes\n%s\nwhere the present one has\n%s", want, got)
		}
	}
}

func TestReplayingGivesTheSameState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w, twin := newWorld(t), newWorld(t)
		n := rapid.IntRange(1, 60).Draw(rt, "steps")
		for range n {
			s := drawStep(rt)
			w.play(t, s)
			w.check(rt)
			twin.play(t, s)
		}
		// No call is forgotten: with nobody doing anything, time answers all.
		w.release()
		w.advance(time.Hour)
		if w.open != 0 {
			rt.Fatalf("%d calls were never answered", w.open)
		}
		twin.release()
		twin.advance(time.Hour)
		if w.out.String() != twin.out.String() {
			rt.Fatalf("the same steps gave\n%s\nand then\n%s", w.out.String(), twin.out.String())
		}
	})
}

func FuzzReplay(f *testing.F) {
	b := newBench(f)
	g := newGroup("g")
	g.add(&member{id: "m", instance: new("i"), protocols: []protocol{{"range", []byte("v1")}}})
	g.protocol = "range"
	for _, r := range []coord.Record{
		g.metadataRecord(b.now),
		{Key: groupKey("g")},
		committed{offset: 1, epoch: 2, metadata: "m", expires: -1, topicID: topicID(1)}.record("g", tp("t", 0)),
		committed{offset: 1, epoch: 2, metadata: "m", expires: 5}.record("g", tp("t", 0)),
		committed{offset: 1, epoch: 2, metadata: "m", expires: -1}.record("g", tp("t", 0)),
		{Key: offsetKey("g", tp("t", 0))},
		{Key: []byte{0, 9}},
	} {
		f.Add(r.Key, r.Value, r.Value == nil)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, tombstone bool) {
		if tombstone {
			value = nil
		} else if value == nil {
			value = []byte{}
		}
		b := newBench(t)
		b.log.records = []coord.Record{{Key: key, Value: value}}
		m := newMachine(&b.cfg, 0)
		if m.Replay(b.log.records[0]) != nil {
			return
		}
		b.load(t)
		b.advance(48 * time.Hour) // nothing that was read makes the machine fail later
	})
}
