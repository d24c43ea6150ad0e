package api

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
)

// DeleteTopics (key 20), versions 1 to 6.
//
// KIP-516 (topics by id, version 6).
//
// Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
// TOPIC_DELETION_DISABLED (INVALID_REQUEST before version 3), INVALID_REQUEST
// (a topic given twice, by both name and id, or by neither), REQUEST_TIMED_OUT.
func (s *Service) deleteTopics(r *Request, in *kmsg.DeleteTopicsRequest, reply Reply) {
	s.async(adminTimeout(in.TimeoutMillis), func(ctx context.Context) {
		resp := in.ResponseKind().(*kmsg.DeleteTopicsResponse)
		asked := deletions(in)
		resp.Topics = make([]kmsg.DeleteTopicsResponseTopic, len(asked))
		var refs []cluster.TopicRef
		var at []int // where the topics stand in the request
		for i, t := range asked {
			out := &resp.Topics[i]
			out.Default()
			out.Topic, out.TopicID = t.Topic, t.TopicID
			byID := t.TopicID != [16]byte{}
			if byID == (t.Topic != nil) {
				refuseDeletion(in.Version, out, refusal(kerr.InvalidRequest, "Give the name of a topic or its id, and not both."))
				continue
			}
			ref := cluster.TopicRef{ID: t.TopicID}
			if t.Topic != nil {
				ref.Name = *t.Topic
			}
			refs, at = append(refs, ref), append(at, i)
		}
		for j, gone := range s.Cluster.DeleteTopics(ctx, refs) {
			out := &resp.Topics[at[j]]
			out.TopicID = gone.ID
			if out.Topic == nil {
				out.Topic = nonEmpty(gone.Name)
			}
			refuseDeletion(in.Version, out, gone.Err)
		}
		reply(resp)
	})
}

// deletions are the topics of a request, which were plain names before
// version 6.
func deletions(in *kmsg.DeleteTopicsRequest) []kmsg.DeleteTopicsRequestTopic {
	if in.Version >= 6 {
		return in.Topics
	}
	topics := make([]kmsg.DeleteTopicsRequestTopic, len(in.TopicNames))
	for i := range in.TopicNames {
		topics[i].Topic = &in.TopicNames[i]
	}
	return topics
}

// refuseDeletion says why a topic was not deleted, if err is not nil.
func refuseDeletion(version int16, out *kmsg.DeleteTopicsResponseTopic, err error) {
	if version < 3 && errors.Is(err, kerr.TopicDeletionDisabled) {
		err = kerr.InvalidRequest // older clients do not know the error
	}
	out.ErrorCode, out.ErrorMessage = errorCode(err), errorText(err)
}
