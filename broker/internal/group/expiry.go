package group

import (
	"slices"

	"github.com/millrace/millrace/broker/internal/coord"
	"github.com/millrace/millrace/broker/internal/ident"
)

// expireOffsets removes the offsets that nobody needs any more, and the groups
// that have neither offsets nor members left.
func (m *machine) expireOffsets(t *coord.Turn) {
	for _, name := range sortedKeys(m.groups) {
		g := m.groups[name]
		var gone []ident.TopicPartition
		expired := g.expiry(t.Now().UnixMilli(), m.cfg.OffsetsRetention.Milliseconds())
		for tp, c := range g.offsets {
			if expired(tp.Topic, c) {
				gone = append(gone, tp)
			}
		}
		slices.SortFunc(gone, comparePartitions)
		whole := g.state == Empty && len(gone) == len(g.offsets)
		records := g.tombstones(gone, whole)
		if len(records) == 0 {
			continue
		}
		m.log.Info("offsets expire", "group", name, "offsets", len(gone), "group_removed", whole)
		if err := bury(t, records); err != nil {
			m.log.Warn("expired offsets cannot be removed now; the next search does it", "group", name, "error", err)
			return
		}
	}
}

// expiry returns what decides whether an offset has expired (KIP-211):
//
//   - one that an old client gave a time of its own expires then;
//   - those of a group without members count from when it became empty;
//   - those of a consumer group that is stable expire only for topics that it
//     left, and count from their commit;
//   - those of a group that never had members count from their commit;
//   - all others stay: the group is rebalancing, or its members' protocol does
//     not tell us what they read.
func (g *group) expiry(now, retention int64) func(topic string, c committed) bool {
	never := func(string, committed) bool { return false }
	since := func(c committed) int64 { return c.at }
	topics := map[string]bool{}
	switch {
	case g.protocolType == "":
	case g.state == Empty:
		if g.since >= 0 { // records before KIP-211 do not say
			since = func(committed) int64 { return g.since }
		}
	case g.state == Stable:
		subscribed, known := g.subscribed()
		if !known {
			return never
		}
		topics = subscribed
	default:
		return never
	}
	return func(topic string, c committed) bool {
		switch {
		case topics[topic]:
			return false
		case c.expires >= 0:
			return now >= c.expires
		default:
			return now-since(c) >= retention
		}
	}
}

// forgetTopic removes all offsets of a topic that was deleted. Those that were
// committed for another topic of that name stay.
func (m *machine) forgetTopic(t *coord.Turn, topic string, id ident.TopicID) {
	for _, name := range sortedKeys(m.groups) {
		g := m.groups[name]
		var gone []ident.TopicPartition
		for tp, c := range g.offsets {
			if tp.Topic == topic && sameTopic(c.topicID, id) {
				gone = append(gone, tp)
			}
		}
		slices.SortFunc(gone, comparePartitions)
		if err := bury(t, g.tombstones(gone, false)); err != nil {
			// Not fatal: fetches compare topic ids, and offsets expire.
			m.log.Warn("offsets of a deleted topic cannot be removed", "group", name, "topic", topic, "error", err)
			return
		}
	}
}
