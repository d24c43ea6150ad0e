package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
)

// OffsetForLeaderEpoch (key 23), versions 2 to 4.
//
// KIP-101 (where an epoch ended), KIP-279 (the epoch that is meant, too),
// KIP-320 (the client's leader epoch, version 2). Clients ask after a change
// of leader, to learn whether what they read is still in the log.
//
// Errors of a partition: those of [topicRef.find] and [Service.leader]. An
// epoch that the log does not know is no error: epoch and offset are -1.
func (s *Service) offsetForLeaderEpoch(r *Request, in *kmsg.OffsetForLeaderEpochRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	image := s.Cluster.Image()
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, len(in.Topics))
	for i := range in.Topics {
		inTopic, outTopic := &in.Topics[i], &resp.Topics[i]
		outTopic.Topic = inTopic.Topic
		outTopic.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(inTopic.Partitions))
		topic, err := topicRef{name: inTopic.Topic}.find(image)
		for j := range inTopic.Partitions {
			q, out := &inTopic.Partitions[j], &outTopic.Partitions[j]
			epoch, end, err := ident.NoLeaderEpoch, ident.NoOffset, err
			if err == nil {
				var log *partition.Partition
				if log, err = s.leader(topic, q.Partition, q.CurrentLeaderEpoch); err == nil {
					epoch, end, err = log.EndOffsetForEpoch(ident.LeaderEpoch(q.LeaderEpoch))
				}
			}
			out.Partition = q.Partition
			out.ErrorCode = errorCode(err)
			out.LeaderEpoch, out.EndOffset = int32(epoch), int64(end)
		}
	}
	reply(resp)
}
