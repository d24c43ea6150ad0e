package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/ident"
)

// CreatePartitions (key 37), versions 0 to 3.
//
// KIP-195.
//
// Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS (not more
// than there are), INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR (too
// few brokers), POLICY_VIOLATION (too many at once), INVALID_REQUEST (a topic
// given twice), REQUEST_TIMED_OUT.
func (s *Service) createPartitions(r *Request, in *kmsg.CreatePartitionsRequest, reply Reply) {
	s.async(adminTimeout(in.TimeoutMillis), func(ctx context.Context) {
		resp := in.ResponseKind().(*kmsg.CreatePartitionsResponse)
		topics := make([]cluster.MorePartitions, len(in.Topics))
		for i := range in.Topics {
			topics[i] = morePartitions(&in.Topics[i])
		}
		for _, grown := range s.Cluster.CreatePartitions(ctx, topics, in.ValidateOnly) {
			out := kmsg.NewCreatePartitionsResponseTopic()
			out.Topic = grown.Name
			out.ErrorCode, out.ErrorMessage = errorCode(grown.Err), errorText(grown.Err)
			resp.Topics = append(resp.Topics, out)
		}
		reply(resp)
	})
}

func morePartitions(in *kmsg.CreatePartitionsRequestTopic) cluster.MorePartitions {
	more := cluster.MorePartitions{Topic: in.Topic, Count: in.Count}
	if in.Assignment != nil {
		more.Assignment = make([][]ident.BrokerID, len(in.Assignment))
		for i, a := range in.Assignment {
			more.Assignment[i] = brokerIDs(a.Replicas)
		}
	}
	return more
}
