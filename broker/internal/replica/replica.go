// Package replica decides what one replica of a partition may show and
// acknowledge, as a deterministic machine: events in, effects out. It reads no
// clock and does no I/O; the package partition hosts it.
//
// The leader of a partition knows how far each in-sync replica is. The high
// watermark is the smallest of these: everything below it is on all of them,
// so it can be shown to consumers and acknowledged to writers that asked for
// all. It never moves backwards.
//
// How far a replica is depends on whether the topic is durable. If it is, only
// what a replica has flushed to its disk counts, the leader's own log
// included: a follower fetches from where its flushed log ends. If it is not,
// as with Kafka's defaults, what was written counts.
package replica

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/broker/internal/ident"
)

// Role is what a replica is to its partition.
type Role int8

const (
	// Idle is a replica that nobody told what it is, or that lost its role.
	Idle Role = iota
	// Leader takes writes.
	Leader
)

// String returns the role in lower case.
func (r Role) String() string {
	switch r {
	case Idle:
		return "idle"
	case Leader:
		return "leader"
	}
	return fmt.Sprintf("role(%d)", int8(r))
}

// Event is something that happened to the replica.
type Event interface{ event() }

// BecomeLeader says that the cluster made this replica the leader, or changed
// the in-sync set of the partition that it leads. Events with an older epoch,
// or with the same one and an older partition epoch, are ignored.
type BecomeLeader struct {
	Epoch          ident.LeaderEpoch
	PartitionEpoch int32
	InSync         []ident.BrokerID
}

// Resign says that this replica has no role any more.
type Resign struct{}

// LogEndMoved says that records were appended up to End.
type LogEndMoved struct{ End ident.Offset }

// LogFlushed says that the local log is durable up to End.
type LogFlushed struct{ End ident.Offset }

// LogTruncated says that the local log was cut: nothing at or above End is
// there any more.
type LogTruncated struct{ End ident.Offset }

// LogStartMoved says that the local log begins at Start now.
type LogStartMoved struct{ Start ident.Offset }

// FollowerFetched says that a follower asked for records from From on: it has
// everything below.
type FollowerFetched struct {
	Follower ident.BrokerID
	From     ident.Offset
}

// DurabilityChanged says whether only flushed records count.
type DurabilityChanged struct{ Durable bool }

func (BecomeLeader) event()      {}
func (Resign) event()            {}
func (LogEndMoved) event()       {}
func (LogFlushed) event()        {}
func (LogTruncated) event()      {}
func (LogStartMoved) event()     {}
func (FollowerFetched) event()   {}
func (DurabilityChanged) event() {}

// Effect is something that the host must do.
type Effect interface{ effect() }

// LeaderSafe says that the leader itself has everything below End safe:
// writers that asked for the leader alone are answered.
type LeaderSafe struct{ End ident.Offset }

// HighWatermarkMoved says that all in-sync replicas have everything below
// Offset safe: readers see it, writers that asked for all are answered.
type HighWatermarkMoved struct{ Offset ident.Offset }

// RoleChanged says that the role or its epoch is another one. Those that wait
// for an older leadership are told so.
type RoleChanged struct {
	Role  Role
	Epoch ident.LeaderEpoch
}

func (LeaderSafe) effect()         {}
func (HighWatermarkMoved) effect() {}
func (RoleChanged) effect()        {}

// Config is what a replica is born with.
type Config struct {
	Self ident.BrokerID
	// Start, End and FlushedEnd are those of the local log.
	Start, End, FlushedEnd ident.Offset
	// HighWatermark is the last one known, 0 if none is.
	HighWatermark ident.Offset
	// Durable says that only flushed records count.
	Durable bool
}

// Replica is the machine. It is not safe for concurrent use.
type Replica struct {
	self           ident.BrokerID
	role           Role
	epoch          ident.LeaderEpoch
	partitionEpoch int32
	inSync         []ident.BrokerID // sorted
	durable        bool

	start, end, flushedEnd ident.Offset
	leaderSafe             ident.Offset
	highWatermark          ident.Offset
	followers              map[ident.BrokerID]follower
}

// follower is what a leader knows of another replica.
type follower struct {
	end       ident.Offset // it has everything below
	fetchedAt time.Time
}

// New returns an idle replica.
func New(c Config) *Replica {
	if c.Start < 0 || c.FlushedEnd > c.End || c.End < c.Start {
		panic(fmt.Sprintf("replica: impossible log: start %d, flushed end %d, end %d", c.Start, c.FlushedEnd, c.End))
	}
	r := &Replica{
		self:           c.Self,
		epoch:          ident.NoLeaderEpoch,
		partitionEpoch: -1,
		durable:        c.Durable,
		start:          c.Start,
		end:            c.End,
		flushedEnd:     c.FlushedEnd,
		highWatermark:  min(max(c.HighWatermark, c.Start), c.End),
		followers:      make(map[ident.BrokerID]follower),
	}
	r.leaderSafe = r.safeEnd()
	return r
}

// Role returns the role.
func (r *Replica) Role() Role { return r.role }

// Epoch returns the latest leader epoch, NoLeaderEpoch before the first.
func (r *Replica) Epoch() ident.LeaderEpoch { return r.epoch }

// Start returns the start of the local log.
func (r *Replica) Start() ident.Offset { return r.start }

// End returns the end of the local log.
func (r *Replica) End() ident.Offset { return r.end }

// FlushedEnd returns the end of what of the local log is durable.
func (r *Replica) FlushedEnd() ident.Offset { return r.flushedEnd }

// HighWatermark returns the high watermark.
func (r *Replica) HighWatermark() ident.Offset { return r.highWatermark }

// LeaderSafe returns the end of what the leader itself has safe.
func (r *Replica) LeaderSafe() ident.Offset { return r.leaderSafe }

// InSync returns the in-sync set in the order of ids. It belongs to the
// replica.
func (r *Replica) InSync() []ident.BrokerID { return r.inSync }

// Step takes one event and appends to out what the host must do, in order.
// Events about offsets that do not move anything are without effect.
func (r *Replica) Step(now time.Time, e Event, out []Effect) []Effect {
	switch e := e.(type) {
	case BecomeLeader:
		return r.becomeLeader(e, out)
	case Resign:
		return r.resign(out)
	case LogEndMoved:
		r.end = max(r.end, e.End)
	case LogFlushed:
		// A flush that began before a truncation may report more than there is.
		r.flushedEnd = max(r.flushedEnd, min(e.End, r.end))
	case LogTruncated:
		r.truncated(e.End)
	case LogStartMoved:
		return r.startMoved(e.Start, out)
	case FollowerFetched:
		r.followerFetched(now, e)
	case DurabilityChanged:
		r.durable = e.Durable
	default:
		panic(fmt.Sprintf("replica: event of unknown type %T", e))
	}
	return r.progress(out)
}

func (r *Replica) becomeLeader(e BecomeLeader, out []Effect) []Effect {
	if e.Epoch < r.epoch || (e.Epoch == r.epoch && r.role == Leader && e.PartitionEpoch < r.partitionEpoch) {
		return out
	}
	if !slices.Contains(e.InSync, r.self) {
		panic(fmt.Sprintf("replica: broker %d leads epoch %d but is not in the in-sync set %v", r.self, e.Epoch, e.InSync))
	}
	if r.role != Leader || e.Epoch != r.epoch {
		// What followers reported to an earlier leader says nothing: they may
		// have been cut since.
		clear(r.followers)
		r.role, r.epoch = Leader, e.Epoch
		out = append(out, RoleChanged{Leader, e.Epoch})
	}
	r.partitionEpoch = e.PartitionEpoch
	r.inSync = slices.Sorted(slices.Values(e.InSync))
	maps.DeleteFunc(r.followers, func(id ident.BrokerID, _ follower) bool { return id == r.self })
	return r.progress(out)
}

func (r *Replica) resign(out []Effect) []Effect {
	if r.role == Idle {
		return out
	}
	r.role, r.inSync = Idle, nil
	clear(r.followers)
	return append(out, RoleChanged{Idle, r.epoch})
}

func (r *Replica) truncated(end ident.Offset) {
	r.end = min(r.end, end)
	r.flushedEnd = min(r.flushedEnd, end)
	r.leaderSafe = min(r.leaderSafe, end)
	// Cutting below the high watermark happens to a follower after an unclean
	// election only; then what it had shown is gone.
	r.highWatermark = min(r.highWatermark, end)
}

// startMoved follows the start of the log. A start above the end begins the
// log anew there. Records below the start count as safe, as nobody can ask for
// them.
func (r *Replica) startMoved(start ident.Offset, out []Effect) []Effect {
	r.start = max(r.start, start)
	r.end = max(r.end, r.start)
	r.flushedEnd = max(r.flushedEnd, r.start)
	if r.highWatermark < r.start {
		r.highWatermark = r.start
		out = append(out, HighWatermarkMoved{r.start})
	}
	return r.progress(out)
}

func (r *Replica) followerFetched(now time.Time, e FollowerFetched) {
	if r.role != Leader || e.Follower == r.self {
		return
	}
	// A follower may go back: it was cut, or lost its disk.
	r.followers[e.Follower] = follower{end: min(e.From, r.end), fetchedAt: now}
}

// progress moves what the present state of the replicas allows to move.
func (r *Replica) progress(out []Effect) []Effect {
	if r.role != Leader {
		return out
	}
	if safe := r.safeEnd(); safe > r.leaderSafe {
		r.leaderSafe = safe
		out = append(out, LeaderSafe{safe})
	}
	common := r.safeEnd()
	for _, id := range r.inSync {
		if id != r.self {
			// One that has not fetched yet counts as having nothing.
			common = min(common, r.followers[id].end)
		}
	}
	if common > r.highWatermark {
		r.highWatermark = common
		out = append(out, HighWatermarkMoved{common})
	}
	return out
}

// safeEnd is how far this replica itself is.
func (r *Replica) safeEnd() ident.Offset {
	if r.durable {
		return r.flushedEnd
	}
	return r.end
}
