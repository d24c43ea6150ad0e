package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/coord"
)

// rebalance begins a rebalance, or goes on with the one at hand.
func (m *machine) rebalance(t *coord.Turn, g *group, why string) {
	if g.state == PreparingRebalance {
		m.maybeCompleteJoin(t, g)
		return
	}
	m.prepareRebalance(t, g, why)
}

// prepareRebalance asks all members to join again. They learn of it by their
// next heartbeat and have until the longest of their rebalance time-outs.
func (m *machine) prepareRebalance(t *coord.Turn, g *group, why string) {
	m.log.Info("group rebalances", "group", g.name, "from", string(g.state), "generation", g.generation, "why", why)
	if g.state == CompletingRebalance {
		m.cancelSync(g, kerr.RebalanceInProgress)
	}
	m.timers.Clear(timer{syncTimer, g.name, ""})
	wait := g.rebalanceTimeout()
	first := g.state == Empty
	if first {
		// Members that start together should not make a rebalance each.
		g.initial, g.newcomers = true, false
		g.delayLeft = max(0, wait-m.cfg.InitialDelay)
		wait = m.cfg.InitialDelay
	}
	g.enter(PreparingRebalance, t.Now())
	if first && wait <= 0 {
		m.completeJoin(t, g)
		return
	}
	m.timers.Set(timer{joinTimer, g.name, ""}, t.Now().Add(wait))
	m.maybeCompleteJoin(t, g)
}

// maybeCompleteJoin ends the first half of the rebalance if all have joined.
func (m *machine) maybeCompleteJoin(t *coord.Turn, g *group) {
	if g.state == PreparingRebalance && !g.initial && g.allJoined() {
		m.completeJoin(t, g)
	}
}

// joinOver ends the first half of the rebalance when its time is up.
func (m *machine) joinOver(t *coord.Turn, g *group) {
	if g.state != PreparingRebalance {
		return
	}
	if g.initial && g.newcomers && g.delayLeft > 0 {
		g.newcomers = false
		more := min(m.cfg.InitialDelay, g.delayLeft)
		g.delayLeft -= more
		m.timers.Set(timer{joinTimer, g.name, ""}, t.Now().Add(more))
		return
	}
	m.completeJoin(t, g)
}

// completeJoin begins a new generation with those who joined. Static members
// that did not are kept: their sessions decide about them.
func (m *machine) completeJoin(t *coord.Turn, g *group) {
	m.timers.Clear(timer{joinTimer, g.name, ""})
	for _, member := range slices.Clone(g.members) {
		if member.join == nil && member.instance == nil {
			m.log.Info("member did not join in time and is removed", "group", g.name, "member", member.id)
			m.dismiss(g, member)
		}
	}
	if len(g.members) == 0 {
		m.becomeEmpty(t, g)
		return
	}
	if !g.electLeader() {
		// Only static members are left and none of them is here. Wait until
		// one comes or their sessions end.
		m.timers.Set(timer{joinTimer, g.name, ""}, t.Now().Add(g.rebalanceTimeout()))
		return
	}
	g.initial = false
	g.generation++
	g.protocol = g.elect()
	g.enter(CompletingRebalance, t.Now())
	for _, member := range g.members {
		member.isNew, member.owesSync = false, true
		member.assignment = nil
		m.expectHeartbeat(t, g, member)
		if member.join != nil {
			member.join.Reply(g.joined(member))
			member.join = nil
		}
	}
	m.timers.Set(timer{syncTimer, g.name, ""}, t.Now().Add(g.rebalanceTimeout()))
}

// becomeEmpty begins a generation without members, and stores it: from now on
// the group's offsets grow old (KIP-211).
func (m *machine) becomeEmpty(t *coord.Turn, g *group) {
	g.initial = false
	g.generation++
	g.protocol = ""
	g.enter(Empty, t.Now())
	m.log.Info("group is empty", "group", g.name, "generation", g.generation)
	if err := t.Write(g.metadataRecord(t.Now())); err != nil {
		// Should the coordinator move now, the members that the log still has
		// come back to life, and end with their sessions.
		m.log.Warn("the empty group cannot be stored", "group", g.name, "error", err)
	}
}
