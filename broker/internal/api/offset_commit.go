package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetCommit (key 8), versions 2 to 10, as Kafka 4 serves them (KIP-896).
//
// KIP-211 (no time of expiry from version 5 on; an older client's is kept),
// KIP-320 (leader epochs, version 6), KIP-345 (static members, version 7),
// KIP-848 (version 9; topics by id, version 10).
//
// The name of the group may be empty, for consumers of old that only store
// offsets.
//
// Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
// OFFSET_METADATA_TOO_LARGE, INVALID_COMMIT_OFFSET_SIZE; and, the same for all,
// UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND,
// REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID and those of finding the
// coordinator.
func (s *Service) offsetCommit(_ *Request, in *kmsg.OffsetCommitRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.OffsetCommitResponse)
	image := s.Cluster.Image()
	valid := false
	for i := range in.Topics {
		q := &in.Topics[i]
		out := kmsg.NewOffsetCommitResponseTopic()
		topic, err := topicRef{name: q.Topic, id: q.TopicID, byID: in.Version >= 10}.find(image)
		if err == nil {
			q.Topic, q.TopicID = topic.Name, topic.ID
		}
		out.Topic, out.TopicID = q.Topic, q.TopicID
		for _, p := range q.Partitions {
			entry := kmsg.NewOffsetCommitResponseTopicPartition()
			entry.Partition = p.Partition
			why := err
			if why == nil && (p.Partition < 0 || int(p.Partition) >= len(topic.Partitions)) {
				why = kerr.UnknownTopicOrPartition
			}
			entry.ErrorCode = errorCode(why)
			valid = valid || why == nil
			out.Partitions = append(out.Partitions, entry)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if !valid {
		reply(resp)
		return
	}
	s.Groups.OffsetCommit(in, resp, func(resp *kmsg.OffsetCommitResponse) { reply(resp) })
}
