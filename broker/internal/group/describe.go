package group

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/coord"
)

// TypeClassic is the type of all groups there are, for ListGroups (KIP-848).
const TypeClassic = "classic"

// describe returns what is known of a group, or that it is Dead.
func (m *machine) describe(name string) kmsg.DescribeGroupsResponseGroup {
	resp := kmsg.NewDescribeGroupsResponseGroup()
	resp.Group = name
	g, ok := m.groups[name]
	if !ok {
		resp.State = string(Dead)
		return resp
	}
	resp.State, resp.ProtocolType = string(g.state), g.protocolType
	if g.state == Stable {
		resp.Protocol = g.protocol
	}
	for _, member := range g.members {
		d := kmsg.NewDescribeGroupsResponseGroupMember()
		d.MemberID, d.InstanceID, d.ClientID, d.ClientHost = member.id, member.instance, member.clientID, member.clientHost
		if g.state == Stable { // otherwise it is about to change
			d.ProtocolMetadata, d.MemberAssignment = member.metadata(g.protocol), member.assignment
		}
		resp.Members = append(resp.Members, d)
	}
	return resp
}

// filter is a set of words, whatever their case; an empty one lets all pass.
type filter map[string]bool

func newFilter(words []string) filter {
	f := make(filter, len(words))
	for _, w := range words {
		f[strings.ToLower(w)] = true
	}
	return f
}

func (f filter) passes(word string) bool { return len(f) == 0 || f[strings.ToLower(word)] }

// list returns the groups that are in one of the states and of one of the
// types, sorted.
func (m *machine) list(states, types filter) []kmsg.ListGroupsResponseGroup {
	var groups []kmsg.ListGroupsResponseGroup
	for _, name := range sortedKeys(m.groups) {
		g := m.groups[name]
		if !states.passes(string(g.state)) || !types.passes(TypeClassic) {
			continue
		}
		entry := kmsg.NewListGroupsResponseGroup()
		entry.Group, entry.ProtocolType, entry.GroupState, entry.GroupType = name, g.protocolType, string(g.state), TypeClassic
		groups = append(groups, entry)
	}
	return groups
}

// delete removes a group that has no members, with its offsets.
func (m *machine) delete(t *coord.Turn, name string) *kerr.Error {
	g, ok := m.groups[name]
	switch {
	case !ok:
		return kerr.GroupIDNotFound
	case g.state != Empty:
		return kerr.NonEmptyGroup
	}
	if err := bury(t, g.tombstones(sortedPartitions(g.offsets), true)); err != nil {
		return kafkaError(err)
	}
	for id := range g.handedOut { // whoever comes back with one starts anew
		m.timers.Clear(timer{sessionTimer, name, id})
	}
	clear(g.handedOut)
	m.tidy(g)
	return nil
}
