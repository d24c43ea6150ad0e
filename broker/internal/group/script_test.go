package group

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/coord"
)

// TestScripts runs the scripts in testdata: requests and passing time on one
// side, replies on the other. Replies carry the number of their request, since
// many come later. See [script.run] for the commands.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{bench: newBench(t)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.run(t, d)
			if s.out.Len() == 0 {
				return "(waits)\n"
			}
			return s.out.String()
		})
	})
}

type script struct{ *bench }

func (s *script) run(t *testing.T, d *datadriven.TestData) {
	group := text(d, "group", "g")
	member := text(d, "member", "")
	switch d.Cmd {
	case "join":
		s.join(Client{ID: text(d, "client", "c"), Host: "/127.0.0.1"}, joinRequest(d, group, member))
	case "sync":
		req := kmsg.NewPtrSyncGroupRequest()
		req.Version, req.Group, req.MemberID, req.InstanceID = 5, group, member, optional(d, "instance")
		req.Generation = int32(number(d, "generation", 1))
		req.ProtocolType, req.Protocol = optional(d, "type"), optional(d, "protocol")
		for _, a := range list(d, "assign") {
			id, what, _ := strings.Cut(a, ":")
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(what)})
		}
		s.sync(req)
	case "heartbeat":
		req := kmsg.NewPtrHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.InstanceID = 4, group, member, optional(d, "instance")
		req.Generation = int32(number(d, "generation", 1))
		s.heartbeat(req)
	case "leave":
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group = 5, group
		for _, m := range list(d, "members") {
			id, instance, static := strings.Cut(m, "@")
			r := kmsg.LeaveGroupRequestMember{MemberID: id}
			if static {
				r.InstanceID = &instance
			}
			req.Members = append(req.Members, r)
		}
		s.leave(req)
	case "commit":
		s.commit(commitRequest(d, group, member))
	case "fetch":
		req := kmsg.NewOffsetFetchRequestGroup()
		req.Group = group
		for _, tp := range list(d, "topics") {
			topic, partition, id := parsePartition(tp)
			req.Topics = append(req.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: topic, TopicID: id, Partitions: []int32{partition}})
		}
		s.fetch(&req)
	case "describe":
		r := s.m.describe(group)
		s.printf("%s %s type %q protocol %q", r.Group, r.State, r.ProtocolType, r.Protocol)
		for _, m := range r.Members {
			s.printf("  %s%s client %s %s metadata %q assignment %q", m.MemberID, instanceName(m.InstanceID), m.ClientID, m.ClientHost, m.ProtocolMetadata, m.MemberAssignment)
		}
	case "list":
		for _, g := range s.m.list(newFilter(list(d, "states")), newFilter(list(d, "types"))) {
			s.printf("%s %s type %q %s", g.Group, g.GroupState, g.ProtocolType, g.GroupType)
		}
		s.printf("end of list")
	case "delete":
		s.do(func(t *coord.Turn, m *machine, c *coord.Call[int16]) { c.Reply(codeOf(m.delete(t, group))) }, errorName)
	case "forget":
		topic, _, id := parsePartition(text(d, "topic", "") + "/0")
		s.do(func(t *coord.Turn, m *machine, c *coord.Call[int16]) { m.forgetTopic(t, topic, id); c.Reply(0) }, errorName)
	case "set":
		s.set(t, d)
	case "advance":
		s.advance(duration(d.CmdArgs[0].Key))
	case "keep-alive":
		for left := duration(text(d, "for", "")); left > 0; left -= time.Minute {
			s.advance(time.Minute)
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID, req.Generation = group, member, 1
			s.shard.Do(s.now, func(turn *coord.Turn, m *machine, c *coord.Call[int16]) {
				c.Reply(codeOf(m.heartbeat(turn, req)))
			}, func(code int16, err error) {
				if code != 0 || err != nil {
					t.Fatalf("%s: heartbeat: %s %v", d.Pos, errorName(code), err)
				}
			})
		}
	case "refuse-writes":
		s.log.refuse = coord.ErrUnavailable
		s.printf("ok")
	case "allow-writes":
		s.log.refuse = nil
		s.printf("ok")
	case "hold-commits":
		s.log.held = true
		s.printf("ok")
	case "release-commits":
		s.log.held = false
		s.log.settle(nil)
		s.shard.Deliver()
	case "fail-commits":
		s.log.held = false
		s.log.settle(fmt.Errorf("waiting for replicas: %w", coord.ErrUnavailable))
		s.shard.Deliver()
	case "lose-leadership":
		s.shard.Abort(coord.ErrNotCoordinator)
	case "load":
		s.load(t)
		s.printf("loaded %d records", len(s.log.records))
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
}

func (s *script) set(t *testing.T, d *datadriven.TestData) {
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "initial-delay":
			s.cfg.InitialDelay = duration(a.Vals[0])
		case "members-max":
			s.cfg.MembersMax, _ = strconv.Atoi(a.Vals[0])
		case "metadata-max":
			s.cfg.OffsetMetadataBytesMax, _ = strconv.Atoi(a.Vals[0])
		default:
			t.Fatalf("%s: nothing called %q to set", d.Pos, a.Key)
		}
	}
	s.printf("ok")
}

func joinRequest(d *datadriven.TestData, group, member string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID = int16(number(d, "version", 9)), group, member
	req.InstanceID = optional(d, "instance")
	req.SessionTimeoutMillis = int32(duration(text(d, "session", "10s")).Milliseconds())
	req.RebalanceTimeoutMillis = int32(duration(text(d, "rebalance", "60s")).Milliseconds())
	req.ProtocolType = text(d, "type", "consumer")
	for _, p := range strings.Split(text(d, "protocols", "range:v1"), "/") {
		name, metadata, _ := strings.Cut(p, ":")
		if topics, ok := strings.CutPrefix(metadata, "topics="); ok {
			sub := kmsg.NewConsumerMemberMetadata()
			sub.Topics = strings.Split(topics, "+")
			metadata = string(sub.AppendTo(nil))
		}
		if name != "none" {
			req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: []byte(metadata)})
		}
	}
	return req
}

func commitRequest(d *datadriven.TestData, group, member string) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID = int16(number(d, "version", 9)), group, member
	req.InstanceID = optional(d, "instance")
	req.Generation = int32(number(d, "generation", -1))
	if keep := optional(d, "retention"); keep != nil {
		req.RetentionTimeMillis = duration(*keep).Milliseconds()
	}
	for _, o := range list(d, "offsets") { // topic/partition[#id]=offset
		where, offset, _ := strings.Cut(o, "=")
		topic, partition, id := parsePartition(where)
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition = partition
		p.Offset, _ = strconv.ParseInt(offset, 10, 64)
		p.LeaderEpoch = int32(number(d, "epoch", -1))
		p.Metadata = optional(d, "metadata")
		req.Topics = append(req.Topics, kmsg.OffsetCommitRequestTopic{Topic: topic, TopicID: id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}})
	}
	return req
}

// parsePartition reads topic#id/partition, where the id may be missing.
func parsePartition(s string) (topic string, partition int32, id [16]byte) {
	topic, p, _ := strings.Cut(s, "/")
	n, _ := strconv.Atoi(p)
	topic, i, ok := strings.Cut(topic, "#")
	if ok {
		b, _ := strconv.Atoi(i)
		id = topicID(byte(b))
	}
	return topic, int32(n), id
}

func optional(d *datadriven.TestData, key string) *string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return new(strings.Join(a.Vals, ""))
		}
	}
	return nil
}

func text(d *datadriven.TestData, key, missing string) string {
	if s := optional(d, key); s != nil {
		return *s
	}
	return missing
}

// list returns the values of key=(a,b).
func list(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func number(d *datadriven.TestData, key string, missing int) int {
	n, err := strconv.Atoi(text(d, key, strconv.Itoa(missing)))
	if err != nil {
		panic(fmt.Sprintf("%s: %s is not a number", d.Pos, key))
	}
	return n
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}
