package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/coord"
	"github.com/millrace/millrace/broker/internal/ident"
)

// bench drives one machine by hand, on simulated time and with a log in memory.
type bench struct {
	cfg   Config
	now   time.Time
	shard *coord.Shard[*machine]
	m     *machine
	log   *memLog
	calls int
	out   strings.Builder
}

// memLog is a log whose commits the test decides about.
type memLog struct {
	records []coord.Record
	refuse  error // if set, nothing is written
	held    bool  // if set, nothing commits
	waiting []func(error)
}

func (l *memLog) Append(records []coord.Record, done func(error)) error {
	if l.refuse != nil {
		return l.refuse
	}
	l.records = append(l.records, records...)
	if l.held {
		l.waiting = append(l.waiting, done)
		return nil
	}
	done(nil)
	return nil
}

func (l *memLog) settle(err error) {
	for _, done := range l.waiting {
		done(err)
	}
	l.waiting = nil
}

func (l *memLog) Replay(_ context.Context, each func(coord.Record) error) error {
	for _, r := range l.records {
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}

func newBench(t testing.TB) *bench {
	b := &bench{now: time.UnixMilli(1_000_000).UTC(), log: &memLog{}}
	ids := 0
	b.cfg = Config{
		SessionMin: time.Second, SessionMax: 5 * time.Minute,
		InitialDelay:     3 * time.Second,
		OffsetsRetention: 24 * time.Hour, OffsetsCheckInterval: 10 * time.Minute,
		NewID: func() string { ids++; return strconv.Itoa(ids) },
		Now:   func() time.Time { return b.now },
		Log:   slog.New(slog.DiscardHandler),
	}
	if err := b.cfg.fill(); err != nil {
		t.Fatal(err)
	}
	b.load(t)
	return b
}

// load starts a new machine on the log, as a new leader would.
func (b *bench) load(t testing.TB) {
	b.m = newMachine(&b.cfg, 0)
	b.shard = coord.NewShard(b.m, b.log, func() {})
	if err := b.shard.Load(context.Background(), b.now); err != nil {
		t.Fatal(err)
	}
	b.shard.Deliver()
}

// advance lets time pass, stopping at each deadline.
func (b *bench) advance(d time.Duration) {
	end := b.now.Add(d)
	for {
		at, ok := b.shard.NextDeadline()
		if !ok || at.After(end) {
			break
		}
		if at.After(b.now) {
			b.now = at
		}
		b.shard.Expire(b.now)
		b.shard.Deliver()
	}
	b.now = end
}

func (b *bench) printf(format string, args ...any) { fmt.Fprintf(&b.out, format+"\n", args...) }

// do hands the machine a call and prints the reply, whenever it comes.
func (b *bench) do[R any](run func(*coord.Turn, *machine, *coord.Call[R]), show func(R) string) {
	b.calls++
	n := b.calls
	b.shard.Do(b.now, run, func(r R, err error) {
		if err != nil {
			b.printf("#%d: failed: %v", n, err)
			return
		}
		b.printf("#%d: %s", n, show(r))
	})
	b.shard.Deliver()
}

func (b *bench) join(client Client, req *kmsg.JoinGroupRequest) {
	b.do(func(t *coord.Turn, m *machine, c *coord.Call[*kmsg.JoinGroupResponse]) {
		m.join(joining{t, client, req, c})
	}, showJoin)
}

func (b *bench) sync(req *kmsg.SyncGroupRequest) {
	b.do(func(t *coord.Turn, m *machine, c *coord.Call[*kmsg.SyncGroupResponse]) { m.sync(t, req, c) },
		func(r *kmsg.SyncGroupResponse) string {
			if r.ErrorCode != 0 {
				return errorName(r.ErrorCode)
			}
			return fmt.Sprintf("assigned %q by %s", r.MemberAssignment, *r.Protocol)
		})
}

func (b *bench) heartbeat(req *kmsg.HeartbeatRequest) {
	b.do(func(t *coord.Turn, m *machine, c *coord.Call[int16]) { c.Reply(codeOf(m.heartbeat(t, req))) }, errorName)
}

func (b *bench) leave(req *kmsg.LeaveGroupRequest) {
	b.do(func(t *coord.Turn, m *machine, c *coord.Call[*kmsg.LeaveGroupResponse]) { c.Reply(m.leave(t, req)) },
		func(r *kmsg.LeaveGroupResponse) string {
			if r.ErrorCode != 0 {
				return errorName(r.ErrorCode)
			}
			var s []string
			for _, m := range r.Members {
				s = append(s, fmt.Sprintf("%s%s %s", m.MemberID, instanceName(m.InstanceID), errorName(m.ErrorCode)))
			}
			return strings.Join(s, ", ")
		})
}

func (b *bench) commit(req *kmsg.OffsetCommitRequest) {
	b.do(func(t *coord.Turn, m *machine, c *coord.Call[*kmsg.OffsetCommitResponse]) {
		resp := commitSkeleton(req)
		m.commit(t, req, resp)
		c.Reply(resp)
	}, func(r *kmsg.OffsetCommitResponse) string {
		var s []string
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				s = append(s, fmt.Sprintf("%s-%d %s", t.Topic, p.Partition, errorName(p.ErrorCode)))
			}
		}
		return strings.Join(s, ", ")
	})
}

func commitSkeleton(req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition = p.Partition
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (b *bench) fetch(req *kmsg.OffsetFetchRequestGroup) {
	b.do(func(_ *coord.Turn, m *machine, c *coord.Call[kmsg.OffsetFetchResponseGroup]) { c.Reply(m.fetch(req)) },
		func(r kmsg.OffsetFetchResponseGroup) string {
			var s []string
			for _, t := range r.Topics {
				for _, p := range t.Partitions {
					s = append(s, fmt.Sprintf("%s-%d=%d epoch %d %q", t.Topic, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata))
				}
			}
			if len(s) == 0 {
				return "nothing"
			}
			return strings.Join(s, ", ")
		})
}

func showJoin(r *kmsg.JoinGroupResponse) string {
	if r.ErrorCode != 0 {
		return strings.TrimSpace(errorName(r.ErrorCode) + " " + r.MemberID)
	}
	s := fmt.Sprintf("joined generation %d as %s, protocol %s, leader %s", r.Generation, r.MemberID, *r.Protocol, r.LeaderID)
	if r.SkipAssignment {
		s += ", skip assignment"
	}
	for i, m := range r.Members {
		if i == 0 {
			s += ", members"
		}
		s += fmt.Sprintf(" %s%s(%q)", m.MemberID, instanceName(m.InstanceID), m.ProtocolMetadata)
	}
	return s
}

func instanceName(instance *string) string {
	if instance == nil {
		return ""
	}
	return "@" + *instance
}

func errorName(c int16) string {
	if c == 0 {
		return "ok"
	}
	if k, ok := errors.AsType[*kerr.Error](kerr.ErrorForCode(c)); ok {
		return k.Message
	}
	return fmt.Sprintf("code %d", c)
}

// durable prints what the log alone decides.
func durable(m *machine) string {
	var s strings.Builder
	for _, name := range sortedKeys(m.groups) {
		g := m.groups[name]
		if g.saved == nil && len(g.offsets) == 0 {
			continue
		}
		fmt.Fprintf(&s, "%s:", name)
		if g.saved != nil {
			fmt.Fprintf(&s, " generation %d, members %d, %x", g.saved.Generation, len(g.saved.Members), g.saved.AppendTo(nil))
		}
		for _, tp := range sortedPartitions(g.offsets) {
			fmt.Fprintf(&s, " %v=%+v", tp, g.offsets[tp])
		}
		s.WriteByte('\n')
	}
	return s.String()
}

// live prints the membership, without what a reload may forget.
func live(g *group) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s generation %d protocol %q of %q leader %q:", g.name, g.state, g.generation, g.protocol, g.protocolType, g.leader)
	for _, m := range g.members {
		fmt.Fprintf(&s, " %s%s client %s %s session %v rebalance %v subscription %q assignment %q;",
			m.id, instanceName(m.instance), m.clientID, m.clientHost, m.session, m.rebalance, m.metadata(g.protocol), m.assignment)
	}
	return s.String()
}

func topicID(b byte) ident.TopicID { return ident.TopicID{15: b} }
