package group

import (
	"cmp"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/coord"
	"github.com/millrace/millrace/broker/internal/ident"
)

// committed is how far a group has read a partition.
type committed struct {
	offset   ident.Offset
	epoch    ident.LeaderEpoch // of the last record read; NoLeaderEpoch: not said
	metadata string            // the client's own words
	at       int64             // when it was committed, in ms since 1970
	expires  int64             // when old clients want it gone, in ms; -1: they did not say
	topicID  ident.TopicID     // of the topic then; zero: not known
}

// commit answers an OffsetCommit. resp has an entry for each of the request,
// in its order; those with an error are passed over.
func (m *machine) commit(t *coord.Turn, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) {
	if why := m.mayCommit(t, req); why != nil {
		failCommit(resp, why)
		return
	}
	expires := int64(-1)
	if req.RetentionTimeMillis >= 0 { // versions 2 to 4
		expires = t.Now().UnixMilli() + req.RetentionTimeMillis
	}
	var records []coord.Record
	for i, topic := range req.Topics {
		for j, p := range topic.Partitions {
			entry := &resp.Topics[i].Partitions[j]
			if entry.ErrorCode != 0 {
				continue
			}
			c := committed{
				offset: ident.Offset(p.Offset), epoch: ident.LeaderEpoch(p.LeaderEpoch),
				at: t.Now().UnixMilli(), expires: expires, topicID: topic.TopicID,
			}
			if p.Metadata != nil {
				c.metadata = *p.Metadata
			}
			if len(c.metadata) > m.cfg.OffsetMetadataBytesMax {
				entry.ErrorCode = kerr.OffsetMetadataTooLarge.Code
				continue
			}
			records = append(records, c.record(req.Group, ident.TopicPartition{Topic: topic.Topic, Partition: p.Partition}))
		}
	}
	switch err := t.Write(records...); {
	case errors.Is(err, coord.ErrTooLarge):
		failCommit(resp, kerr.InvalidCommitOffsetSize)
	case err != nil:
		failCommit(resp, kafkaError(err))
	}
}

func failCommit(resp *kmsg.OffsetCommitResponse, why *kerr.Error) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == 0 {
				p.ErrorCode = why.Code
			}
		}
	}
}

// mayCommit decides whether the sender speaks for the group. A commit of a
// member keeps its session alive, as its heartbeats do.
func (m *machine) mayCommit(t *coord.Turn, req *kmsg.OffsetCommitRequest) *kerr.Error {
	// An operator, or a consumer that assigns partitions to itself.
	outside := req.Generation < 0
	g, ok := m.groups[req.Group]
	switch {
	case !ok && outside:
		return nil
	case !ok && req.Version >= 9:
		return kerr.GroupIDNotFound
	case !ok:
		return kerr.IllegalGeneration
	case outside && g.state == Empty:
		return nil
	case outside && req.MemberID == "" && req.InstanceID == nil:
		return kerr.UnknownMemberID // its members alone decide
	}
	member, why := g.find(req.MemberID, req.InstanceID)
	switch {
	case why != nil:
		return why
	case req.Generation != g.generation:
		return kerr.IllegalGeneration
	case g.state == CompletingRebalance:
		return kerr.RebalanceInProgress
	}
	m.expectHeartbeat(t, g, member)
	return nil
}

// fetch answers an OffsetFetch for one group. A request without a list of
// topics gets all that there is, sorted. Where the request has a topic's id,
// an offset that was committed for another topic of that name is none: a topic
// made anew starts afresh.
func (m *machine) fetch(req *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = req.Group
	var offsets map[ident.TopicPartition]committed
	if g, ok := m.groups[req.Group]; ok {
		offsets = g.offsets
	}
	if req.Topics == nil {
		resp.Topics = allOffsets(offsets)
		return resp
	}
	for _, topic := range req.Topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
		for _, p := range topic.Partitions {
			c, ok := offsets[ident.TopicPartition{Topic: topic.Topic, Partition: p}]
			ok = ok && sameTopic(c.topicID, topic.TopicID)
			rt.Partitions = append(rt.Partitions, fetched(p, c, ok))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// sameTopic compares two ids of topics with one name; zero is not known.
func sameTopic(a, b ident.TopicID) bool { return a == b || a.IsZero() || b.IsZero() }

func allOffsets(offsets map[ident.TopicPartition]committed) []kmsg.OffsetFetchResponseGroupTopic {
	topics := []kmsg.OffsetFetchResponseGroupTopic{}
	for _, tp := range sortedPartitions(offsets) {
		c := offsets[tp]
		last := len(topics) - 1
		if last < 0 || topics[last].Topic != tp.Topic || ident.TopicID(topics[last].TopicID) != c.topicID {
			rt := kmsg.NewOffsetFetchResponseGroupTopic()
			rt.Topic, rt.TopicID = tp.Topic, c.topicID
			topics = append(topics, rt)
			last++
		}
		topics[last].Partitions = append(topics[last].Partitions, fetched(tp.Partition, c, true))
	}
	return topics
}

func fetched(partition int32, c committed, ok bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, int64(ident.NoOffset), int32(ident.NoLeaderEpoch), new("")
	if ok {
		p.Offset, p.LeaderEpoch, p.Metadata = int64(c.offset), int32(c.epoch), new(c.metadata)
	}
	return p
}

// sortedPartitions returns the keys by topic and partition.
func sortedPartitions[V any](m map[ident.TopicPartition]V) []ident.TopicPartition {
	keys := make([]ident.TopicPartition, 0, len(m))
	for tp := range m {
		keys = append(keys, tp)
	}
	slices.SortFunc(keys, comparePartitions)
	return keys
}

func comparePartitions(a, b ident.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// sortedKeys returns the keys in order, so that what is done for each of them
// is done in the same order every time.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
