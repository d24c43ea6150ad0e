package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/coord"
)

// expectHeartbeat gives the member a new session.
func (m *machine) expectHeartbeat(t *coord.Turn, g *group, member *member) {
	m.timers.Set(timer{sessionTimer, g.name, member.id}, t.Now().Add(member.session))
}

// heartbeat answers a Heartbeat: it keeps the member's session alive, and is
// how members learn of a rebalance.
func (m *machine) heartbeat(t *coord.Turn, req *kmsg.HeartbeatRequest) *kerr.Error {
	g, ok := m.groups[req.Group]
	if !ok {
		return kerr.UnknownMemberID
	}
	member, why := g.find(req.MemberID, req.InstanceID)
	switch {
	case why != nil:
		return why
	case req.Generation != g.generation:
		return kerr.IllegalGeneration
	}
	m.expectHeartbeat(t, g, member)
	if g.state == PreparingRebalance {
		return kerr.RebalanceInProgress
	}
	return nil
}

// sessionOver is called when nothing was heard of a member for its session. A
// member whose request waits here is not silent, except a new one, which has
// been waiting for too long.
func (m *machine) sessionOver(t *coord.Turn, g *group, id string) {
	if _, ok := g.handedOut[id]; ok {
		delete(g.handedOut, id)
		m.maybeCompleteJoin(t, g)
		return
	}
	member := g.member(id)
	if member == nil || !member.isNew && (member.join != nil || member.sync != nil) {
		return
	}
	m.log.Info("member was silent for its session and is removed", "group", g.name, "member", id)
	m.dismiss(g, member)
	m.gone(t, g, "a member's session ended")
}

// dismiss removes a member. Its waiting requests are answered, so that it may
// come back.
func (m *machine) dismiss(g *group, member *member) {
	if member.join != nil {
		member.join.Reply(refusedJoin(member.id, kerr.UnknownMemberID))
		member.join = nil
	}
	if member.sync != nil {
		member.sync.Reply(refusedSync(kerr.UnknownMemberID))
		member.sync = nil
	}
	m.timers.Clear(timer{sessionTimer, g.name, member.id})
	g.remove(member)
}

// gone has the group rebalance after a member left it.
func (m *machine) gone(t *coord.Turn, g *group, why string) {
	if g.state != Empty {
		m.rebalance(t, g, why)
	}
}

// leave answers a LeaveGroup with one entry a member, in their order. Without
// a member id an operator removes a static member by its name.
func (m *machine) leave(t *coord.Turn, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	resp := kmsg.NewPtrLeaveGroupResponse()
	g, ok := m.groups[req.Group]
	if !ok {
		g = newGroup(req.Group) // of which nobody is a member
	}
	defer m.tidy(g)
	left := false
	for _, r := range req.Members {
		entry := kmsg.NewLeaveGroupResponseMember()
		entry.MemberID, entry.InstanceID = r.MemberID, r.InstanceID
		if _, ok := g.handedOut[r.MemberID]; ok && r.InstanceID == nil {
			delete(g.handedOut, r.MemberID)
			m.timers.Clear(timer{sessionTimer, g.name, r.MemberID})
			m.maybeCompleteJoin(t, g)
		} else if member, why := g.leaving(r); why != nil {
			entry.ErrorCode = why.Code
		} else {
			m.dismiss(g, member)
			left = true
		}
		resp.Members = append(resp.Members, entry)
	}
	if left {
		m.gone(t, g, "a member left")
	}
	return resp
}

func (g *group) leaving(r kmsg.LeaveGroupRequestMember) (*member, *kerr.Error) {
	if r.MemberID != "" || r.InstanceID == nil {
		return g.find(r.MemberID, r.InstanceID)
	}
	if member := g.static(*r.InstanceID); member != nil {
		return member, nil
	}
	return nil, kerr.UnknownMemberID
}
