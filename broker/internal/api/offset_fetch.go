package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/ident"
)

// OffsetFetch (key 9), versions 1 to 10, as Kafka 4 serves them (KIP-896).
//
// KIP-88 (all topics, version 2), KIP-320 (leader epochs, version 5), KIP-447
// (only stable offsets, version 7; all are stable, there being no transactions
// yet), KIP-709 (many groups, version 8), KIP-848 (member id and epoch, version
// 9, which only members of the new protocol send; topics by id, version 10).
//
// An offset that was committed for a topic which has been made anew since is
// none. A group or partition without offset is no error: the offset is -1.
// A group that is named twice is answered once.
//
// Errors of a group: those of finding the coordinator. Of a partition:
// UNKNOWN_TOPIC_ID.
func (s *Service) offsetFetch(_ *Request, in *kmsg.OffsetFetchRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.OffsetFetchResponse)
	if in.Version < 8 {
		s.fetchGroupOffsets(in.Version, groupOfOldFetch(in), func(g kmsg.OffsetFetchResponseGroup) {
			fillOldFetch(resp, in, g)
			reply(resp)
		})
		return
	}
	in.Groups = distinct(in.Groups, func(g *kmsg.OffsetFetchRequestGroup) string { return g.Group })
	resp.Groups = make([]kmsg.OffsetFetchResponseGroup, len(in.Groups))
	gather(len(in.Groups), func(i int, done func()) {
		s.fetchGroupOffsets(in.Version, &in.Groups[i], func(g kmsg.OffsetFetchResponseGroup) {
			resp.Groups[i] = g
			done()
		})
	}, func() { reply(resp) })
}

// fetchGroupOffsets asks for the offsets of one group. It completes the topics
// of the request before, and checks those of the answer after.
func (s *Service) fetchGroupOffsets(version int16, q *kmsg.OffsetFetchRequestGroup, done func(kmsg.OffsetFetchResponseGroup)) {
	image := s.Cluster.Image()
	byID := version >= 10
	for i := range q.Topics {
		t := &q.Topics[i]
		if topic, err := (topicRef{name: t.Topic, id: t.TopicID, byID: byID}).find(image); err == nil {
			t.Topic, t.TopicID = topic.Name, topic.ID
		}
	}
	all := q.Topics == nil
	s.Groups.OffsetFetch(q, func(g kmsg.OffsetFetchResponseGroup) {
		switch {
		case g.ErrorCode != 0:
		case all:
			g.Topics = presentTopics(image, g.Topics, byID)
		case byID:
			for i := range g.Topics {
				if g.Topics[i].Topic == "" {
					failFetched(&g.Topics[i], kerr.UnknownTopicID)
				}
			}
		}
		done(g)
	})
}

// presentTopics leaves out the offsets of topics that are not, or not any more,
// those of their names. Topics that have gone are kept where names will do: an
// operator may want to see them.
func presentTopics(image *cluster.Image, topics []kmsg.OffsetFetchResponseGroupTopic, byID bool) []kmsg.OffsetFetchResponseGroupTopic {
	present := topics[:0]
	for _, t := range topics {
		topic, ok := image.Topic(t.Topic)
		id := ident.TopicID(t.TopicID)
		switch {
		case ok && !id.IsZero() && id != topic.ID, !ok && byID:
			continue
		case ok:
			t.TopicID = topic.ID
		}
		present = append(present, t)
	}
	return present
}

func failFetched(t *kmsg.OffsetFetchResponseGroupTopic, why *kerr.Error) {
	for i := range t.Partitions {
		t.Partitions[i].ErrorCode = why.Code
	}
}

// groupOfOldFetch is the request of a version before 8 in the form of later
// ones.
func groupOfOldFetch(in *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = in.Group
	if in.Topics != nil || in.Version < 2 { // before 2 there is no way to ask for all
		g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(in.Topics))
	}
	for _, t := range in.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, gt)
	}
	return &g
}

// fillOldFetch puts the answer for one group into the form of versions before
// 8. Version 1 has no error but those of partitions.
func fillOldFetch(resp *kmsg.OffsetFetchResponse, in *kmsg.OffsetFetchRequest, g kmsg.OffsetFetchResponseGroup) {
	resp.ErrorCode = g.ErrorCode
	if g.ErrorCode != 0 && in.Version < 2 {
		for _, t := range in.Topics {
			rt := kmsg.NewOffsetFetchResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetFetchResponseTopicPartition()
				rp.Partition, rp.Offset, rp.Metadata, rp.ErrorCode = p, int64(ident.NoOffset), new(""), g.ErrorCode
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return
	}
	for _, t := range g.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
}
