package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/coord"
)

func refusedSync(why *kerr.Error) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = why.Code
	return resp
}

// sync answers a SyncGroup: with the member's assignment, once the leader has
// brought it and it is written.
func (m *machine) sync(t *coord.Turn, req *kmsg.SyncGroupRequest, call *coord.Call[*kmsg.SyncGroupResponse]) {
	g, ok := m.groups[req.Group]
	if !ok {
		call.Reply(refusedSync(kerr.UnknownMemberID))
		return
	}
	member, why := g.find(req.MemberID, req.InstanceID)
	switch {
	case why != nil:
	case req.Generation != g.generation:
		why = kerr.IllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType,
		req.Protocol != nil && *req.Protocol != g.protocol:
		why = kerr.InconsistentGroupProtocol
	case g.state == Empty:
		why = kerr.UnknownMemberID
	case g.state == PreparingRebalance:
		why = kerr.RebalanceInProgress
	}
	if why != nil {
		call.Reply(refusedSync(why))
		return
	}
	member.owesSync = false
	if member.sync != nil { // of a connection that has gone
		member.sync.Reply(refusedSync(kerr.RebalanceInProgress))
	}
	member.sync = call
	if g.state == CompletingRebalance && g.leader == member.id {
		m.assign(t, g, req.GroupAssignment)
	}
	if g.state == Stable {
		m.deliverAssignments(t, g)
	}
}

// assign makes the group Stable with the leader's assignment. Members that the
// leader forgot get an empty one.
func (m *machine) assign(t *coord.Turn, g *group, assignments []kmsg.SyncGroupRequestGroupAssignment) {
	for _, a := range assignments {
		if member := g.member(a.MemberID); member != nil {
			member.assignment = a.MemberAssignment
		}
	}
	if err := t.Write(g.metadataRecord(t.Now())); err != nil {
		m.log.Warn("the group's assignment cannot be stored; it rebalances", "group", g.name, "error", err)
		m.cancelSync(g, kafkaError(err))
		m.prepareRebalance(t, g, "the assignment could not be stored")
		return
	}
	g.enter(Stable, t.Now())
	m.log.Info("group is stable", "group", g.name, "generation", g.generation, "members", len(g.members), "protocol", g.protocol)
}

// deliverAssignments answers the members that wait for their assignments.
func (m *machine) deliverAssignments(t *coord.Turn, g *group) {
	for _, member := range g.members {
		if member.sync == nil {
			continue
		}
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ProtocolType = new(g.protocolType)
		resp.Protocol = new(g.protocol)
		resp.MemberAssignment = member.assignment
		member.sync.Reply(resp)
		member.sync = nil
		// Its session did not count while it waited.
		m.expectHeartbeat(t, g, member)
	}
	if !slices.ContainsFunc(g.members, func(x *member) bool { return x.owesSync }) {
		m.timers.Clear(timer{syncTimer, g.name, ""})
	}
}

// cancelSync drops the assignment that is being made and tells those who wait
// for it why.
func (m *machine) cancelSync(g *group, why *kerr.Error) {
	for _, member := range g.members {
		member.assignment = nil
		if member.sync != nil {
			member.sync.Reply(refusedSync(why))
			member.sync = nil
		}
	}
}

// syncOver removes the members that never asked for their assignment: they
// hold the others up though they send heartbeats.
func (m *machine) syncOver(t *coord.Turn, g *group) {
	if g.state != CompletingRebalance && g.state != Stable {
		return
	}
	removed := false
	for _, member := range slices.Clone(g.members) {
		if member.owesSync {
			m.log.Info("member did not sync in time and is removed", "group", g.name, "member", member.id)
			m.dismiss(g, member)
			removed = true
		}
	}
	if removed {
		m.prepareRebalance(t, g, "members did not sync in time")
	}
}
