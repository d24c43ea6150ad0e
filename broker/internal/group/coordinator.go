package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/coord"
	"github.com/millrace/millrace/broker/internal/ident"
)

// Config is what a [Coordinator] needs. Times and limits carry the names of
// Kafka's settings.
type Config struct {
	// SessionMin and SessionMax bound the session time-outs that members may
	// ask for (group.min.session.timeout.ms, group.max.session.timeout.ms).
	// Required, and Min must not exceed Max.
	SessionMin, SessionMax time.Duration
	// InitialDelay is how long an empty group waits for more members after
	// the first one came (group.initial.rebalance.delay.ms). Zero: not at all.
	InitialDelay time.Duration
	// NewMemberTimeout is how long the JoinGroup of a new member may wait.
	// Zero means 5 minutes, as in Kafka.
	NewMemberTimeout time.Duration
	// MembersMax is the most members of a group (group.max.size). Zero means
	// no limit.
	MembersMax int
	// OffsetMetadataBytesMax is the longest text beside an offset
	// (offset.metadata.max.bytes). Zero means 4096.
	OffsetMetadataBytesMax int
	// OffsetsRetention is how long offsets are kept that nobody uses
	// (offsets.retention.minutes). Required.
	OffsetsRetention time.Duration
	// OffsetsCheckInterval is the time between two searches for expired
	// offsets (offsets.retention.check.interval.ms). Required.
	OffsetsCheckInterval time.Duration

	// NewID returns a text that is never returned again, such as a UUID; it
	// becomes the end of a member id. It may be called concurrently. Required.
	NewID func() string
	// Now is the clock. Required.
	Now func() time.Time
	// Log receives what happens to groups. Required.
	Log *slog.Logger
}

func (c *Config) fill() error {
	if c.NewMemberTimeout == 0 {
		c.NewMemberTimeout = 5 * time.Minute
	}
	if c.MembersMax == 0 {
		c.MembersMax = int(^uint(0) >> 1)
	}
	if c.OffsetMetadataBytesMax == 0 {
		c.OffsetMetadataBytesMax = 4096
	}
	switch {
	case c.NewID == nil, c.Now == nil, c.Log == nil:
		return errors.New("group coordinator: NewID, Now and Log are required")
	case c.SessionMin <= 0 || c.SessionMin > c.SessionMax:
		return fmt.Errorf("group coordinator: session time-outs from %v to %v make no range", c.SessionMin, c.SessionMax)
	case c.OffsetsRetention <= 0 || c.OffsetsCheckInterval <= 0:
		return fmt.Errorf("group coordinator: offsets retention %v and check interval %v must be positive", c.OffsetsRetention, c.OffsetsCheckInterval)
	}
	return nil
}

// Coordinator serves the groups whose partitions of __consumer_offsets this
// broker leads. Its methods may be called concurrently and do not wait: each
// calls reply exactly once, from any goroutine, possibly before it returns.
// Requests, and the bytes that they point to, belong to the coordinator from
// then on. The replies' version is that of the request.
type Coordinator struct {
	partitions atomic.Int32
	runtime    *coord.Runtime[*machine]
}

// New returns a coordinator that leads nothing yet.
func New(cfg Config) (*Coordinator, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	return &Coordinator{runtime: coord.NewRuntime(coord.Config[*machine]{
		New: func(shard int32) *machine { return newMachine(&cfg, shard) },
		Now: cfg.Now,
		Log: cfg.Log,
	})}, nil
}

// SetPartitions says how many partitions __consumer_offsets has. Until it was
// called with a positive number, all groups belong to nobody.
func (c *Coordinator) SetPartitions(n int32) { c.partitions.Store(n) }

// Lead takes over a partition of __consumer_offsets and loads its groups.
func (c *Coordinator) Lead(partition int32, log coord.Log) { c.runtime.Lead(partition, log) }

// Resign gives a partition up. Its clients are told to look elsewhere.
func (c *Coordinator) Resign(partition int32) { c.runtime.Resign(partition) }

// Close resigns all partitions and ends all goroutines.
func (c *Coordinator) Close() { c.runtime.Close() }

// PartitionOf returns the partition of __consumer_offsets that holds a group;
// false: the topic does not exist yet.
func (c *Coordinator) PartitionOf(group string) (int32, bool) {
	n := c.partitions.Load()
	if n <= 0 {
		return 0, false
	}
	return partitionOf(group, n), true
}

// AwaitLoaded waits until the group's partition is loaded, if this broker leads
// it, or ctx ends.
func (c *Coordinator) AwaitLoaded(ctx context.Context, group string) error {
	p, ok := c.PartitionOf(group)
	if !ok {
		return coord.ErrNotCoordinator
	}
	return c.runtime.AwaitLoaded(ctx, p)
}

// submit hands a call to the machine of the group's partition.
func (c *Coordinator) submit[R any](group string, run func(*coord.Turn, *machine, *coord.Call[R]), reply func(R, error)) {
	p, ok := c.PartitionOf(group)
	if !ok {
		var none R
		reply(none, coord.ErrNotCoordinator)
		return
	}
	c.runtime.Submit(p, run, reply)
}

// JoinGroup serves versions 0 to 9.
func (c *Coordinator) JoinGroup(client Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) {
	c.submit(req.Group, func(t *coord.Turn, m *machine, call *coord.Call[*kmsg.JoinGroupResponse]) {
		m.join(joining{t, client, req, call})
	}, func(resp *kmsg.JoinGroupResponse, err error) {
		if err != nil {
			resp = refusedJoin(req.MemberID, kafkaError(err))
		}
		resp.Version = req.Version
		reply(resp)
	})
}

// SyncGroup serves versions 0 to 5.
func (c *Coordinator) SyncGroup(req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) {
	c.submit(req.Group, func(t *coord.Turn, m *machine, call *coord.Call[*kmsg.SyncGroupResponse]) {
		m.sync(t, req, call)
	}, func(resp *kmsg.SyncGroupResponse, err error) {
		if err != nil {
			resp = refusedSync(kafkaError(err))
		}
		resp.Version = req.Version
		reply(resp)
	})
}

// Heartbeat serves versions 0 to 4.
func (c *Coordinator) Heartbeat(req *kmsg.HeartbeatRequest, reply func(*kmsg.HeartbeatResponse)) {
	c.submit(req.Group, func(t *coord.Turn, m *machine, call *coord.Call[int16]) {
		call.Reply(codeOf(m.heartbeat(t, req)))
	}, func(answer int16, err error) {
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = either(answer, err)
		reply(resp)
	})
}

// LeaveGroup serves versions 0 to 5; up to 2 a single member leaves, whose
// error is that of the reply.
func (c *Coordinator) LeaveGroup(req *kmsg.LeaveGroupRequest, reply func(*kmsg.LeaveGroupResponse)) {
	if req.Version < 3 {
		req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	c.submit(req.Group, func(t *coord.Turn, m *machine, call *coord.Call[*kmsg.LeaveGroupResponse]) {
		call.Reply(m.leave(t, req))
	}, func(resp *kmsg.LeaveGroupResponse, err error) {
		if err != nil {
			resp = kmsg.NewPtrLeaveGroupResponse()
			resp.ErrorCode = code(err)
		}
		resp.Version = req.Version
		if req.Version < 3 && len(resp.Members) == 1 {
			resp.ErrorCode = resp.Members[0].ErrorCode
		}
		reply(resp)
	})
}

// OffsetCommit serves versions 0 to 10. resp is the reply to be: it has an
// entry for each topic and partition of the request, in its order, and those
// that have an error code already are passed over. Topics have to have their
// names, whatever the version, and their ids where known.
func (c *Coordinator) OffsetCommit(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, reply func(*kmsg.OffsetCommitResponse)) {
	c.submit(req.Group, func(t *coord.Turn, m *machine, call *coord.Call[struct{}]) {
		m.commit(t, req, resp)
		call.Reply(struct{}{})
	}, func(_ struct{}, err error) {
		if err != nil {
			failCommit(resp, kafkaError(err))
		}
		reply(resp)
	})
}

// OffsetFetch answers for one group of an OffsetFetch, in the form of its
// version 8 and later. Topics have to have their names, and their ids where
// known: an offset that was committed for another id is not given out. Those
// without a name are answered as topics without offsets.
//
// A request with nil Topics gets all offsets, each topic with the id that they
// were committed for, or zero if that is not known.
func (c *Coordinator) OffsetFetch(req *kmsg.OffsetFetchRequestGroup, reply func(kmsg.OffsetFetchResponseGroup)) {
	c.submit(req.Group, func(_ *coord.Turn, m *machine, call *coord.Call[kmsg.OffsetFetchResponseGroup]) {
		call.Reply(m.fetch(req))
	}, func(resp kmsg.OffsetFetchResponseGroup, err error) {
		if err != nil {
			resp.Group, resp.ErrorCode = req.Group, code(err)
		}
		reply(resp)
	})
}

// Describe answers for one group of a DescribeGroups. A group that does not
// exist is Dead.
func (c *Coordinator) Describe(group string, reply func(kmsg.DescribeGroupsResponseGroup)) {
	c.submit(group, func(_ *coord.Turn, m *machine, call *coord.Call[kmsg.DescribeGroupsResponseGroup]) {
		call.Reply(m.describe(group))
	}, func(resp kmsg.DescribeGroupsResponseGroup, err error) {
		if err != nil {
			resp = kmsg.NewDescribeGroupsResponseGroup()
			resp.Group, resp.ErrorCode = group, code(err)
		}
		reply(resp)
	})
}

// Delete removes a group without members, with its offsets, and replies with
// an error code.
func (c *Coordinator) Delete(group string, reply func(int16)) {
	c.submit(group, func(t *coord.Turn, m *machine, call *coord.Call[int16]) {
		call.Reply(codeOf(m.delete(t, group)))
	}, func(answer int16, err error) { reply(either(answer, err)) })
}

// List returns the groups of all partitions that this broker leads, sorted,
// filtered by state and type (case does not matter; an empty filter lets all
// pass), and an error code if some could not be asked.
func (c *Coordinator) List(states, types []string, reply func([]kmsg.ListGroupsResponseGroup, int16)) {
	var (
		mu     sync.Mutex
		groups []kmsg.ListGroupsResponseGroup
		failed int16
		shards = c.runtime.Shards()
		left   = len(shards)

		inState, ofType = newFilter(states), newFilter(types)
	)
	if left == 0 {
		reply(nil, 0)
		return
	}
	for _, shard := range shards {
		c.runtime.Submit(shard, func(_ *coord.Turn, m *machine, call *coord.Call[[]kmsg.ListGroupsResponseGroup]) {
			call.Reply(m.list(inState, ofType))
		}, func(some []kmsg.ListGroupsResponseGroup, err error) {
			mu.Lock()
			// A shard that has moved meanwhile is another broker's to list.
			if err != nil && !errors.Is(err, coord.ErrNotCoordinator) {
				failed = code(err)
			}
			groups = append(groups, some...)
			left--
			last := left == 0
			mu.Unlock()
			if last {
				slices.SortFunc(groups, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
				reply(groups, failed)
			}
		})
	}
}

// ForgetTopic removes the offsets of a topic that was deleted, of all groups.
// It is no more than tidying up: OffsetFetch compares topic ids.
func (c *Coordinator) ForgetTopic(topic string, id ident.TopicID) {
	for _, shard := range c.runtime.Shards() {
		c.runtime.Submit(shard, func(t *coord.Turn, m *machine, call *coord.Call[struct{}]) {
			m.forgetTopic(t, topic, id)
			call.Reply(struct{}{})
		}, func(struct{}, error) {})
	}
}

func codeOf(why *kerr.Error) int16 {
	if why == nil {
		return 0
	}
	return why.Code
}

// either is what the machine answered, or why it could not.
func either(answer int16, err error) int16 {
	if err != nil {
		return code(err)
	}
	return answer
}
