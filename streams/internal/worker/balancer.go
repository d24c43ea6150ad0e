package worker

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/streams/internal/assign"
	"github.com/millrace/millrace/streams/internal/task"
)

// protocolName is the assignor's name in the group (docs/format/streams-group.md).
const protocolName = "millrace-streams"

// balancer is the kgo.GroupBalancer of one thread: it carries package assign's decisions in the consumer protocol. kgo
// calls it from goroutines of its own.
type balancer struct{ t *thread }

var _ kgo.GroupBalancer = balancer{}

// ProtocolName implements [kgo.GroupBalancer].
func (b balancer) ProtocolName() string { return protocolName }

// IsCooperative implements [kgo.GroupBalancer]: tasks that stay go on during a rebalance. A task that moves is withheld
// once; kgo joins again when a member has given partitions up, and then it is given out.
func (b balancer) IsCooperative() bool { return true }

// JoinGroupMetadata implements [kgo.GroupBalancer].
func (b balancer) JoinGroupMetadata(interests []string, current map[string][]int32, generation int32) []byte {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version = 3
	meta.Topics = interests
	meta.Generation = generation
	for _, topic := range slices.Sorted(maps.Keys(current)) {
		owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
		owned.Topic, owned.Partitions = topic, current[topic]
		meta.OwnedPartitions = append(meta.OwnedPartitions, owned)
	}
	meta.UserData = assign.AppendUserdata(nil, b.userdata(current))
	return meta.AppendTo(nil)
}

// userdata tells which tasks the member runs, by its partitions, and which folders the process has. The latter are told by
// the first thread, for all.
func (b balancer) userdata(current map[string][]int32) assign.Userdata {
	rt := b.t.rt
	u := assign.Userdata{Process: rt.dir.process, Endpoint: rt.cfg.Endpoint}
	progress := rt.dir.known()
	active := rt.tasksOf(current)
	for _, id := range active {
		u.Tasks = append(u.Tasks, assign.TaskState{Task: assign.Task(id), Active: true, Progress: progress[id]})
		delete(progress, id)
	}
	if b.t.index == 0 {
		for id, p := range progress {
			u.Tasks = append(u.Tasks, assign.TaskState{Task: assign.Task(id), Progress: p})
		}
	}
	slices.SortFunc(u.Tasks, func(a, b assign.TaskState) int { return a.Task.Compare(b.Task) })
	return u
}

// tasksOf returns the tasks that partitions belong to, sorted.
func (rt *Runtime) tasksOf(partitions map[string][]int32) []task.ID {
	seen := map[task.ID]bool{}
	for topic, ps := range partitions {
		p, ok := rt.subOf[topic]
		if !ok {
			rt.cfg.Log.Error("was assigned a topic that this topology does not read: do all instances run the same version?", "topic", topic)
			continue
		}
		for _, partition := range ps {
			seen[task.ID{Sub: p.Sub.Name, Partition: partition}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b task.ID) int { return assign.Task(a).Compare(assign.Task(b)) })
}

// ParseSyncAssignment implements [kgo.GroupBalancer].
func (b balancer) ParseSyncAssignment(enc []byte) (map[string][]int32, error) {
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(enc); err != nil {
		return nil, fmt.Errorf("decoding the group's assignment: %w", err)
	}
	out := map[string][]int32{}
	for _, t := range a.Topics {
		out[t.Topic] = append(out[t.Topic], t.Partitions...)
	}
	return out, nil
}

// MemberBalancer implements [kgo.GroupBalancer].
func (b balancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	mb := &memberBalancer{rt: b.t.rt}
	for _, m := range members {
		var meta kmsg.ConsumerMemberMetadata
		if err := meta.ReadFrom(m.ProtocolMetadata); err != nil {
			return nil, nil, fmt.Errorf("decoding the subscription of member %q: %w", m.MemberID, err)
		}
		u, err := assign.DecodeUserdata(meta.UserData)
		if err != nil {
			return nil, nil, fmt.Errorf("member %q of the group is not a millrace job: %w", m.MemberID, err)
		}
		mb.members = append(mb.members, assign.Member{ID: m.MemberID, Userdata: u})
	}
	topics := map[string]struct{}{}
	for _, topic := range b.t.rt.sourceTopics() {
		topics[topic] = struct{}{}
	}
	return mb, topics, nil
}

type memberBalancer struct {
	rt      *Runtime
	members []assign.Member
}

// Balance implements [kgo.GroupMemberBalancer].
func (b *memberBalancer) Balance(counts map[string]int32) kgo.IntoSyncAssignment {
	rt := b.rt
	for topic, n := range counts {
		if want := rt.topics.plan.Partitions[topic]; n != want {
			rt.cfg.Log.Warn("an input topic's partitions changed while the job ran; restart the job to read them all", "topic", topic, "partitions", n, "planned", want)
		}
	}
	var tasks []assign.Task
	for _, id := range rt.topics.plan.Tasks {
		tasks = append(tasks, assign.Task(id))
	}
	plan := assign.Plan(tasks, rt.stateful, b.members)
	given := assign.Withhold(plan, b.members)
	out := make(syncAssignment, 0, len(given))
	for _, id := range slices.Sorted(maps.Keys(given)) {
		out = append(out, rt.memberAssignment(id, given[id]))
	}
	return out
}

type syncAssignment []kmsg.SyncGroupRequestGroupAssignment

// IntoSyncAssignment implements [kgo.IntoSyncAssignment].
func (a syncAssignment) IntoSyncAssignment() []kmsg.SyncGroupRequestGroupAssignment { return a }

func (rt *Runtime) memberAssignment(id string, tasks []assign.Task) kmsg.SyncGroupRequestGroupAssignment {
	partitions := map[string][]int32{}
	for _, t := range tasks {
		for topic, ps := range rt.partitionsOf(task.ID(t)) {
			partitions[topic] = append(partitions[topic], ps...)
		}
	}
	a := kmsg.NewConsumerMemberAssignment()
	a.Version = 1
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		at := kmsg.NewConsumerMemberAssignmentTopic()
		at.Topic, at.Partitions = topic, partitions[topic]
		a.Topics = append(a.Topics, at)
	}
	a.UserData = assign.AppendAssignment(nil, assign.Assignment{Active: tasks})
	out := kmsg.NewSyncGroupRequestGroupAssignment()
	out.MemberID = id
	out.MemberAssignment = a.AppendTo(nil)
	return out
}
