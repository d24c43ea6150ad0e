package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/ident"
)

// DeleteRecords (key 21), versions 0 to 2.
//
// KIP-107. An offset of -1 stands for the high watermark. The reply goes out
// when the new start is durable on this broker; waiting for the other replicas
// comes with replication.
//
// What is named twice is done once, as each costs a few fsyncs.
//
// Errors of a partition: those of [topicRef.find] and [Service.leader];
// OFFSET_OUT_OF_RANGE above the high watermark and below -1;
// INVALID_TOPIC_EXCEPTION for an internal topic; POLICY_VIOLATION for a topic
// whose cleanup.policy has no delete.
func (s *Service) deleteRecords(r *Request, in *kmsg.DeleteRecordsRequest, reply Reply) {
	s.async(0, func(context.Context) { // the disk is waited for, and not for long
		resp := in.ResponseKind().(*kmsg.DeleteRecordsResponse)
		image := s.Cluster.Image()
		in.Topics = distinct(in.Topics, func(t *kmsg.DeleteRecordsRequestTopic) string { return t.Topic })
		resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(in.Topics))
		for i := range in.Topics {
			inTopic, outTopic := &in.Topics[i], &resp.Topics[i]
			inTopic.Partitions = distinct(inTopic.Partitions, func(p *kmsg.DeleteRecordsRequestTopicPartition) int32 { return p.Partition })
			outTopic.Topic = inTopic.Topic
			outTopic.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(inTopic.Partitions))
			topic, err := s.trimmable(image, inTopic.Topic)
			for j := range inTopic.Partitions {
				q, out := &inTopic.Partitions[j], &outTopic.Partitions[j]
				low, err := ident.NoOffset, err
				if err == nil {
					low, err = s.trim(topic, q.Partition, ident.Offset(q.Offset))
				}
				out.Partition = q.Partition
				out.ErrorCode = errorCode(err)
				out.LowWatermark = int64(low)
			}
		}
		reply(resp)
	})
}

// trimmable finds a topic from which a client may delete records.
func (s *Service) trimmable(image *cluster.Image, name string) (*cluster.Topic, error) {
	topic, err := topicRef{name: name}.find(image)
	switch {
	case err != nil:
		return nil, err
	case topic.Internal():
		return nil, kerr.InvalidTopicException
	case !s.Cluster.TopicSettings(topic).Cleanup.Delete:
		return nil, kerr.PolicyViolation
	}
	return topic, nil
}

// trim moves the start of a partition and returns where it is then.
func (s *Service) trim(topic *cluster.Topic, number int32, before ident.Offset) (ident.Offset, error) {
	log, err := s.leader(topic, number, noEpoch)
	if err != nil {
		return ident.NoOffset, err
	}
	if before < ident.NoOffset {
		return ident.NoOffset, kerr.OffsetOutOfRange
	}
	return log.DeleteRecords(before)
}
