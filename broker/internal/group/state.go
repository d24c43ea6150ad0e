package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/coord"
	"github.com/millrace/millrace/broker/internal/ident"
)

// State is where a group stands in its rebalance.
type State string

// The states, named as Kafka's tools show and filter them.
const (
	Empty               State = "Empty"
	PreparingRebalance  State = "PreparingRebalance"
	CompletingRebalance State = "CompletingRebalance"
	Stable              State = "Stable"
	// Dead is what a group that does not exist is described as.
	Dead State = "Dead"
)

// consumerProtocol is the protocol type whose subscriptions the coordinator
// can read, which it does for nothing but the expiry of offsets.
const consumerProtocol = "consumer"

// group is one group: what the log says of it, and its live membership.
type group struct {
	name string

	// Durable: changed by replaying records and by nothing else.
	saved   *kmsg.GroupMetadataValue // nil: no membership was ever written
	offsets map[ident.TopicPartition]committed

	membership
}

// membership is the live, soft side of a classic group.
type membership struct {
	state        State
	since        int64  // when it came into this state, in ms since 1970; -1: unknown
	protocolType string // empty: it never had members
	protocol     string // what the members agreed on, in the last two states
	generation   int32
	leader       string    // member id; empty: none
	members      []*member // in the order they came in

	// handedOut are the member ids that were given to clients which have not
	// come back with them yet (KIP-394).
	handedOut map[string]struct{}

	// A group that was Empty waits for more than the first member.
	initial   bool          // the rebalance at hand is such a first one
	newcomers bool          // members came in since the delay began
	delayLeft time.Duration // how much longer newcomers may prolong it
}

// member is one member of a group.
type member struct {
	id         string
	instance   *string // of static members (KIP-345)
	clientID   string
	clientHost string
	session    time.Duration
	rebalance  time.Duration
	protocols  []protocol // in order of preference
	assignment []byte

	join *coord.Call[*kmsg.JoinGroupResponse] // JoinGroup that waits for the others
	sync *coord.Call[*kmsg.SyncGroupResponse] // SyncGroup that waits for the leader

	// isNew says that the member has not been told of a generation yet: its
	// session then is the time for which its JoinGroup may wait.
	isNew bool
	// owesSync says that the member was told of the generation but did not
	// ask for its assignment yet.
	owesSync bool
}

// protocol is one way of assigning that a member knows, with what the leader
// needs to know of the member for it.
type protocol struct {
	name     string
	metadata []byte
}

func newGroup(name string) *group {
	return &group{
		name:       name,
		offsets:    make(map[ident.TopicPartition]committed),
		membership: membership{state: Empty, since: -1, handedOut: make(map[string]struct{})},
	}
}

// idle reports whether nothing would be lost if the group were forgotten.
func (g *group) idle() bool {
	return g.saved == nil && len(g.offsets) == 0 && len(g.members) == 0 && len(g.handedOut) == 0
}

func (g *group) enter(s State, now time.Time) {
	g.state, g.since = s, now.UnixMilli()
}

func (g *group) member(id string) *member {
	i := slices.IndexFunc(g.members, func(m *member) bool { return m.id == id })
	if i < 0 {
		return nil
	}
	return g.members[i]
}

func (g *group) static(instance string) *member {
	i := slices.IndexFunc(g.members, func(m *member) bool { return m.instance != nil && *m.instance == instance })
	if i < 0 {
		return nil
	}
	return g.members[i]
}

// find returns the member that a request speaks for. A static member's name
// belongs to whoever joined with it last: the one before is fenced.
func (g *group) find(id string, instance *string) (*member, *kerr.Error) {
	if instance != nil {
		m := g.static(*instance)
		switch {
		case m == nil:
			return nil, kerr.UnknownMemberID
		case m.id != id:
			return nil, kerr.FencedInstanceID
		}
		return m, nil
	}
	if m := g.member(id); m != nil {
		return m, nil
	}
	return nil, kerr.UnknownMemberID
}

func (g *group) add(m *member) {
	if len(g.members) == 0 {
		g.leader = m.id
	}
	g.members = append(g.members, m)
}

func (g *group) remove(m *member) {
	g.members = slices.DeleteFunc(g.members, func(x *member) bool { return x == m })
	if g.leader != m.id {
		return
	}
	g.leader = ""
	if len(g.members) > 0 {
		g.leader = g.members[0].id
	}
}

// allJoined reports whether the rebalance waits for nobody.
func (g *group) allJoined() bool {
	return len(g.handedOut) == 0 && !slices.ContainsFunc(g.members, func(m *member) bool { return m.join == nil })
}

// awaitingJoin counts the members whose JoinGroup waits.
func (g *group) awaitingJoin() int {
	n := 0
	for _, m := range g.members {
		if m.join != nil {
			n++
		}
	}
	return n
}

// rebalanceTimeout is how long members have to join: what the most patient of
// them asks for.
func (g *group) rebalanceTimeout() time.Duration {
	var longest time.Duration
	for _, m := range g.members {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// electLeader makes sure that the leader is among those who joined. It reports
// whether there is such a leader.
func (g *group) electLeader() bool {
	if m := g.member(g.leader); m != nil && m.join != nil {
		return true
	}
	for _, m := range g.members {
		if m.join != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

// supports reports whether a member that knows these protocols may be in the
// group: one of them has to be known to all members.
func (g *group) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	return g.protocolType == protocolType && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return g.commonProtocol(p.Name)
	})
}

func (g *group) commonProtocol(name string) bool {
	return !slices.ContainsFunc(g.members, func(m *member) bool { return !m.knows(name) })
}

// elect returns the protocol that most members like best of those that all of
// them know; on a tie the leader's taste decides.
func (g *group) elect() string {
	votes := make(map[string]int)
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.commonProtocol(p.name) {
				votes[p.name]++
				break
			}
		}
	}
	best := ""
	for _, p := range g.member(g.leader).protocols {
		if votes[p.name] > votes[best] {
			best = p.name
		}
	}
	// The leader need not have voted for the winner, but knows it: it is
	// common to all.
	return best
}

// subscribed returns the topics that the members of a consumer group
// subscribe to; false: that is not known.
func (g *group) subscribed() (map[string]bool, bool) {
	if g.protocolType != consumerProtocol {
		return nil, false
	}
	topics := make(map[string]bool)
	for _, m := range g.members {
		var sub kmsg.ConsumerMemberMetadata
		if err := sub.ReadFrom(m.metadata(g.protocol)); err != nil {
			return nil, false
		}
		for _, t := range sub.Topics {
			topics[t] = true
		}
	}
	return topics, true
}

func (m *member) knows(name string) bool {
	return slices.ContainsFunc(m.protocols, func(p protocol) bool { return p.name == name })
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.name == protocol {
			return p.metadata
		}
	}
	return nil
}

// matches reports whether a JoinGroup brings nothing new of the member.
func (m *member) matches(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a protocol, b kmsg.JoinGroupRequestProtocol) bool {
		return a.name == b.Name && string(a.metadata) == string(b.Metadata)
	})
}
