package group

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/coord"
	"github.com/millrace/millrace/broker/internal/ident"
)

// The versions of keys tell what a record is, those of values how it is laid
// out; see docs/format/consumer-offsets.md.
const (
	offsetKeyVersionOld = 0 // like 1; written by Kafka before 0.9
	offsetKeyVersion    = 1
	groupKeyVersion     = 2

	offsetValueVersionExpires = 1 // the only one with a time of expiry
	offsetValueVersion        = 3
	offsetValueVersionTopicID = 4
	groupValueVersion         = 3
)

// Replay implements coord.Machine. Records of kinds it does not know are those
// of a newer release's groups: leaving them out harms no group of ours.
func (m *machine) Replay(r coord.Record) error {
	if len(r.Key) < 2 {
		return fmt.Errorf("record of a group: a key of %d bytes has no version", len(r.Key))
	}
	switch version := int16(binary.BigEndian.Uint16(r.Key)); version {
	case offsetKeyVersionOld, offsetKeyVersion:
		return m.replayOffset(r)
	case groupKeyVersion:
		return m.replayGroup(r)
	default:
		m.log.Debug("record of an unknown kind is left out", "kind", version)
		return nil
	}
}

func (m *machine) replayOffset(r coord.Record) error {
	var key kmsg.OffsetCommitKey
	if err := key.ReadFrom(r.Key); err != nil {
		return fmt.Errorf("decoding the key of a committed offset: %w", err)
	}
	tp := ident.TopicPartition{Topic: key.Topic, Partition: key.Partition}
	if r.Value == nil {
		if g, ok := m.groups[key.Group]; ok {
			delete(g.offsets, tp)
			m.tidy(g)
		}
		return nil
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(r.Value); err != nil {
		return fmt.Errorf("decoding the offset of group %q for %v: %w", key.Group, tp, err)
	}
	c := committed{
		offset: ident.Offset(v.Offset), epoch: ident.NoLeaderEpoch, metadata: v.Metadata,
		at: v.CommitTimestamp, expires: -1, topicID: v.TopicID,
	}
	if v.Version >= offsetValueVersion {
		c.epoch = ident.LeaderEpoch(v.LeaderEpoch)
	}
	if v.Version == offsetValueVersionExpires {
		c.expires = v.ExpireTimestamp
	}
	m.group(key.Group).offsets[tp] = c
	return nil
}

func (m *machine) replayGroup(r coord.Record) error {
	var key kmsg.GroupMetadataKey
	if err := key.ReadFrom(r.Key); err != nil {
		return fmt.Errorf("decoding the key of a group: %w", err)
	}
	if r.Value == nil {
		if g, ok := m.groups[key.Group]; ok {
			g.saved = nil
			m.tidy(g)
		}
		return nil
	}
	v := new(kmsg.GroupMetadataValue)
	if err := v.ReadFrom(r.Value); err != nil {
		return fmt.Errorf("decoding group %q: %w", key.Group, err)
	}
	m.group(key.Group).saved = v
	return nil
}

// restore makes the live membership what the log says. A rebalance that was at
// hand is forgotten: the members will find out.
func (g *group) restore() {
	v := g.saved
	if v == nil {
		return
	}
	g.state, g.since = Empty, v.CurrentStateTimestamp
	g.protocolType, g.generation = v.ProtocolType, v.Generation
	if len(v.Members) == 0 {
		return
	}
	g.state = Stable
	if v.Protocol != nil {
		g.protocol = *v.Protocol
	}
	for i := range v.Members {
		s := &v.Members[i]
		session := time.Duration(s.SessionTimeoutMillis) * time.Millisecond
		rebalance := time.Duration(s.RebalanceTimeoutMillis) * time.Millisecond
		if rebalance < 0 { // version 0 has none
			rebalance = session
		}
		g.add(&member{
			id: s.MemberID, instance: s.InstanceID, clientID: s.ClientID, clientHost: s.ClientHost,
			session: session, rebalance: rebalance,
			protocols:  []protocol{{g.protocol, s.Subscription}},
			assignment: s.Assignment,
		})
	}
	if v.Leader != nil && g.member(*v.Leader) != nil {
		g.leader = *v.Leader
	}
}

// metadataRecord is the group's membership as a record.
func (g *group) metadataRecord(now time.Time) coord.Record {
	v := kmsg.NewGroupMetadataValue()
	v.Version = groupValueVersion
	v.ProtocolType, v.Generation, v.CurrentStateTimestamp = g.protocolType, g.generation, now.UnixMilli()
	if len(g.members) > 0 {
		v.Protocol, v.Leader = new(g.protocol), new(g.leader)
	}
	for _, m := range g.members {
		s := kmsg.NewGroupMetadataValueMember()
		s.MemberID, s.InstanceID, s.ClientID, s.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		s.SessionTimeoutMillis, s.RebalanceTimeoutMillis = int32(m.session.Milliseconds()), int32(m.rebalance.Milliseconds())
		s.Subscription, s.Assignment = m.metadata(g.protocol), m.assignment
		v.Members = append(v.Members, s)
	}
	return coord.Record{Key: groupKey(g.name), Value: v.AppendTo(nil)}
}

func groupKey(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: groupKeyVersion, Group: group}
	return k.AppendTo(nil)
}

func offsetKey(group string, tp ident.TopicPartition) []byte {
	k := kmsg.OffsetCommitKey{Version: offsetKeyVersion, Group: group, Topic: tp.Topic, Partition: tp.Partition}
	return k.AppendTo(nil)
}

// record is the offset as a record. Version 4, which Kafka reads from 4.0 on,
// is used only where there is a topic id to keep.
func (c committed) record(group string, tp ident.TopicPartition) coord.Record {
	v := kmsg.NewOffsetCommitValue()
	v.Offset, v.LeaderEpoch, v.Metadata, v.CommitTimestamp = int64(c.offset), int32(c.epoch), c.metadata, c.at
	switch {
	case c.expires >= 0:
		v.Version, v.ExpireTimestamp = offsetValueVersionExpires, c.expires
	case !c.topicID.IsZero():
		v.Version, v.TopicID = offsetValueVersionTopicID, c.topicID
	default:
		v.Version = offsetValueVersion
	}
	return coord.Record{Key: offsetKey(group, tp), Value: v.AppendTo(nil)}
}

// tombstones are the records that remove the offsets given and, if whole, the
// group itself.
func (g *group) tombstones(offsets []ident.TopicPartition, whole bool) []coord.Record {
	records := make([]coord.Record, 0, len(offsets)+1)
	for _, tp := range offsets {
		records = append(records, coord.Record{Key: offsetKey(g.name, tp)})
	}
	if whole && g.saved != nil {
		records = append(records, coord.Record{Key: groupKey(g.name)})
	}
	return records
}

// tombstonesPerWrite bounds one batch of tombstones: with names of 250 bytes
// it stays below the smallest sensible max.message.bytes.
const tombstonesPerWrite = 1000

// bury writes tombstones, in several batches if they are many.
func bury(t *coord.Turn, records []coord.Record) error {
	for chunk := range slices.Chunk(records, tombstonesPerWrite) {
		if err := t.Write(chunk...); err != nil {
			return err
		}
	}
	return nil
}
