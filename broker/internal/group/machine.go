package group

import (
	"log/slog"
	"time"

	"github.com/millrace/millrace/broker/internal/coord"
)

// machine is the coordinator's state machine for one partition of
// __consumer_offsets. It implements coord.Machine.
type machine struct {
	cfg    *Config
	log    *slog.Logger
	groups map[string]*group
	timers coord.Deadlines[timer]
}

// timer is something that becomes due.
type timer struct {
	kind   timerKind
	group  string
	member string
}

type timerKind uint8

const (
	sessionTimer timerKind = iota // a member, or one whose id was handed out, has been silent
	joinTimer                     // a rebalance has waited long enough for members to join
	syncTimer                     // members have had long enough to ask for their assignment
	expiryTimer                   // it is time to look for expired offsets
)

func newMachine(cfg *Config, shard int32) *machine {
	return &machine{cfg: cfg, log: cfg.Log.With("shard", shard), groups: make(map[string]*group)}
}

// group returns a group, made if it is missing.
func (m *machine) group(name string) *group {
	g, ok := m.groups[name]
	if !ok {
		g = newGroup(name)
		m.groups[name] = g
	}
	return g
}

// tidy forgets the group if it holds nothing.
func (m *machine) tidy(g *group) {
	if g.idle() {
		m.timers.Clear(timer{joinTimer, g.name, ""})
		m.timers.Clear(timer{syncTimer, g.name, ""})
		delete(m.groups, g.name)
	}
}

// Loaded brings the membership of all groups to life: members that the log
// knows have a whole session to be heard of.
func (m *machine) Loaded(t *coord.Turn) {
	for _, name := range sortedKeys(m.groups) {
		g := m.groups[name]
		g.restore()
		for _, member := range g.members {
			m.expectHeartbeat(t, g, member)
		}
		// Some must go, if the limit has been lowered since: let them commit
		// first, and then race for the places.
		if len(g.members) > m.cfg.MembersMax {
			m.prepareRebalance(t, g, "the group is larger than group.max.size")
		}
	}
	m.timers.Set(timer{kind: expiryTimer}, t.Now().Add(m.cfg.OffsetsCheckInterval))
}

// NextDeadline implements coord.Machine.
func (m *machine) NextDeadline() (time.Time, bool) { return m.timers.Next() }

// Expire implements coord.Machine.
func (m *machine) Expire(t *coord.Turn) {
	for {
		due, ok := m.timers.PopDue(t.Now())
		if !ok {
			return
		}
		if due.kind == expiryTimer {
			m.expireOffsets(t)
			m.timers.Set(due, t.Now().Add(m.cfg.OffsetsCheckInterval))
			continue
		}
		g, ok := m.groups[due.group]
		if !ok {
			continue
		}
		switch due.kind {
		case sessionTimer:
			m.sessionOver(t, g, due.member)
		case joinTimer:
			m.joinOver(t, g)
		case syncTimer:
			m.syncOver(t, g)
		}
		m.tidy(g)
	}
}
