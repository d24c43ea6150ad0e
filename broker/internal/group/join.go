package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/coord"
)

// Client is who sends a request.
type Client struct {
	// ID is what the client calls itself.
	ID string
	// Host is the address it comes from, as Kafka shows it: "/127.0.0.1".
	Host string
}

// joining is a JoinGroup on its way through the machine.
type joining struct {
	*coord.Turn
	client Client
	req    *kmsg.JoinGroupRequest
	call   *coord.Call[*kmsg.JoinGroupResponse]
}

func (j joining) refuse(memberID string, why *kerr.Error) {
	j.call.Reply(refusedJoin(memberID, why))
}

func refusedJoin(memberID string, why *kerr.Error) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.MemberID, resp.ErrorCode = memberID, why.Code
	return resp
}

// protocolsMax is how many protocols a member may name; clients have a handful.
// All of a member's are compared with all of the others'.
const protocolsMax = 64

// join answers a JoinGroup, most often later: when all members have joined.
func (m *machine) join(j joining) {
	req := j.req
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	if session < m.cfg.SessionMin || session > m.cfg.SessionMax {
		j.refuse(req.MemberID, kerr.InvalidSessionTimeout)
		return
	}
	if _, ok := m.groups[req.Group]; !ok && req.MemberID != "" {
		j.refuse(req.MemberID, kerr.UnknownMemberID)
		return
	}
	g := m.group(req.Group)
	defer m.tidy(g)
	switch {
	case !m.hasRoom(g, req.MemberID):
		if member := g.member(req.MemberID); member != nil {
			m.dismiss(g, member)
		}
		j.refuse("", kerr.GroupMaxSizeReached)
	case len(req.Protocols) > protocolsMax, !g.supports(req.ProtocolType, req.Protocols):
		j.refuse(req.MemberID, kerr.InconsistentGroupProtocol)
	case req.MemberID == "":
		m.joinNew(j, g)
	default:
		m.joinKnown(j, g)
	}
}

// hasRoom reports whether the group may take this member in. In a rebalance
// the places go to those who join first, old members or new.
func (m *machine) hasRoom(g *group, memberID string) bool {
	member := g.member(memberID)
	switch g.state {
	case Empty:
		return true
	case PreparingRebalance:
		return member != nil && member.join != nil || g.awaitingJoin() < m.cfg.MembersMax
	default:
		return member != nil || len(g.members) < m.cfg.MembersMax
	}
}

// joinNew takes in a client that has no member id.
func (m *machine) joinNew(j joining, g *group) {
	if instance := j.req.InstanceID; instance != nil {
		id := *instance + "-" + m.cfg.NewID()
		if old := g.static(*instance); old != nil {
			m.replaceStatic(j, g, old, id)
			return
		}
		m.admit(j, g, id)
		return
	}
	id := j.client.ID + "-" + m.cfg.NewID()
	// A client that never comes back with its id costs nothing: it is not a
	// member until it does (KIP-394).
	if j.req.Version >= 4 {
		g.handedOut[id] = struct{}{}
		session := time.Duration(j.req.SessionTimeoutMillis) * time.Millisecond
		m.timers.Set(timer{sessionTimer, g.name, id}, j.Now().Add(session))
		j.refuse(id, kerr.MemberIDRequired)
		return
	}
	m.admit(j, g, id)
}

// joinKnown lets a member join that has been here before, or takes in one that
// comes back with the id it was given.
func (m *machine) joinKnown(j joining, g *group) {
	id := j.req.MemberID
	if _, ok := g.handedOut[id]; ok && j.req.InstanceID == nil {
		delete(g.handedOut, id)
		m.admit(j, g, id)
		return
	}
	member, why := g.find(id, j.req.InstanceID)
	if why != nil {
		j.refuse(id, why)
		return
	}
	same := member.matches(j.req.Protocols)
	switch g.state {
	case PreparingRebalance:
		m.update(j, member)
		m.maybeCompleteJoin(j.Turn, g)
	case CompletingRebalance:
		if same { // it did not get our first answer
			j.call.Reply(g.joined(member))
			return
		}
		m.update(j, member)
		m.prepareRebalance(j.Turn, g, "a member changed its protocols: "+reason(j.req))
	case Stable:
		// The leader joins again when what is to be assigned has changed
		// though no member did, such as the partitions of a topic.
		if same && g.leader != id {
			j.call.Reply(g.joined(member))
			return
		}
		m.update(j, member)
		m.prepareRebalance(j.Turn, g, "a member joined again: "+reason(j.req))
	default:
		j.refuse(id, kerr.UnknownMemberID)
	}
}

func reason(req *kmsg.JoinGroupRequest) string {
	if req.Reason == nil || *req.Reason == "" {
		return "it gave no reason"
	}
	return *req.Reason
}

// admit makes the client a member and has the group rebalance.
func (m *machine) admit(j joining, g *group, id string) {
	member := &member{id: id, instance: j.req.InstanceID, clientID: j.client.ID, clientHost: j.client.Host, isNew: true}
	m.update(j, member)
	g.add(member)
	g.protocolType = j.req.ProtocolType
	if g.state == PreparingRebalance && g.generation == 0 {
		g.newcomers = true
	}
	// A new member does not know its id yet and sends no heartbeats. Should
	// it vanish while its request waits, nobody would notice; so the wait has
	// a limit of its own.
	m.timers.Set(timer{sessionTimer, g.name, id}, j.Now().Add(m.cfg.NewMemberTimeout))
	m.rebalance(j.Turn, g, "a member joined: "+reason(j.req))
}

// update takes over what a JoinGroup says of its member, and has the request
// wait for the others. A request of the same member that waits already must be
// of a connection that has gone.
func (m *machine) update(j joining, member *member) {
	member.session = time.Duration(j.req.SessionTimeoutMillis) * time.Millisecond
	member.rebalance = time.Duration(j.req.RebalanceTimeoutMillis) * time.Millisecond
	if member.rebalance < 0 { // version 0 has none
		member.rebalance = member.session
	}
	member.protocols = member.protocols[:0:0]
	for _, p := range j.req.Protocols {
		member.protocols = append(member.protocols, protocol{p.Name, p.Metadata})
	}
	if member.join != nil {
		member.join.Reply(refusedJoin(member.id, kerr.RebalanceInProgress))
	}
	member.join = j.call
}

// replaceStatic lets a static member that was started anew take the place of
// its former self, which is fenced (KIP-345). A Stable group goes on without a
// rebalance if the protocol stays the same.
func (m *machine) replaceStatic(j joining, g *group, member *member, id string) {
	formerID, formerLeader, former := member.id, g.leader, *member
	m.timers.Clear(timer{sessionTimer, g.name, formerID})
	if member.join != nil {
		member.join.Reply(refusedJoin(formerID, kerr.FencedInstanceID))
		member.join = nil
	}
	if member.sync != nil {
		member.sync.Reply(refusedSync(kerr.FencedInstanceID))
		member.sync = nil
	}
	member.id, member.clientID, member.clientHost = id, j.client.ID, j.client.Host
	if g.leader == formerID {
		g.leader = id
	}
	m.update(j, member)
	m.expectHeartbeat(j.Turn, g, member)
	switch {
	case g.state == PreparingRebalance:
		m.maybeCompleteJoin(j.Turn, g)
		return
	case g.state == CompletingRebalance:
		// The leader may be assigning to the former id just now.
		m.prepareRebalance(j.Turn, g, "a static member came back: "+reason(j.req))
		return
	case g.elect() != g.protocol:
		m.prepareRebalance(j.Turn, g, "a static member came back with other protocols: "+reason(j.req))
		return
	}
	member.join = nil
	if err := j.Write(g.metadataRecord(j.Now())); err != nil {
		m.log.Warn("a static member cannot be stored; it stays who it was", "group", g.name, "member", formerID, "error", err)
		m.timers.Clear(timer{sessionTimer, g.name, id})
		*member, g.leader = former, formerLeader
		member.join, member.sync = nil, nil
		m.expectHeartbeat(j.Turn, g, member)
		j.refuse("", kafkaError(err))
		return
	}
	resp := g.joined(member)
	switch {
	case j.req.Version < 9 && g.leader == id:
		// It must not think that it leads, or it would assign for nothing: a
		// Stable group takes no new assignment.
		resp.LeaderID, resp.Members = formerLeader, nil
	case g.leader == id:
		resp.SkipAssignment = true // KIP-814
	}
	j.call.Reply(resp)
}

// joined is the answer to a member's JoinGroup that tells it of the current
// generation.
func (g *group) joined(to *member) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Generation = g.generation
	resp.ProtocolType = new(g.protocolType)
	resp.Protocol = new(g.protocol)
	resp.LeaderID = g.leader
	resp.MemberID = to.id
	if to.id != g.leader {
		return resp
	}
	for _, m := range g.members {
		entry := kmsg.NewJoinGroupResponseMember()
		entry.MemberID, entry.InstanceID, entry.ProtocolMetadata = m.id, m.instance, m.metadata(g.protocol)
		resp.Members = append(resp.Members, entry)
	}
	return resp
}
