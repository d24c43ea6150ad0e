package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/ident"
)

// CreateTopics (key 19), versions 2 to 7.
//
// KIP-464 (defaults for partitions and replicas), KIP-525 (the reply has the
// topic's settings, version 5), KIP-516 (and its id, version 7).
//
// Each topic is made or refused by itself. The reply goes out when the topics
// can be used.
//
// Errors of a topic: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION (also for a
// name that differs from another only in '.' and '_'), INVALID_PARTITIONS,
// INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG,
// POLICY_VIOLATION, INVALID_REQUEST (a name given twice, or counts beside a
// manual assignment), REQUEST_TIMED_OUT (it may still be made).
func (s *Service) createTopics(r *Request, in *kmsg.CreateTopicsRequest, reply Reply) {
	s.async(adminTimeout(in.TimeoutMillis), func(ctx context.Context) {
		resp := in.ResponseKind().(*kmsg.CreateTopicsResponse)
		resp.Topics = make([]kmsg.CreateTopicsResponseTopic, len(in.Topics))
		var topics []cluster.NewTopic
		var at []int // where the topics stand in the request
		for i := range in.Topics {
			resp.Topics[i] = kmsg.NewCreateTopicsResponseTopic()
			resp.Topics[i].Topic = in.Topics[i].Topic
			t, err := newTopic(&in.Topics[i])
			if err != nil {
				resp.Topics[i].ErrorCode, resp.Topics[i].ErrorMessage = errorCode(err), errorText(err)
				continue
			}
			topics, at = append(topics, t), append(at, i)
		}
		for j, made := range s.Cluster.CreateTopics(ctx, topics, in.ValidateOnly) {
			s.describeCreated(&resp.Topics[at[j]], made)
		}
		reply(resp)
	})
}

// adminTimeout is how long a request of an administrator waits. One that names
// no time gets the default of Kafka's clients.
func adminTimeout(millis int32) time.Duration {
	if millis <= 0 {
		return 30 * time.Second
	}
	return time.Duration(millis) * time.Millisecond
}

// newTopic reads one topic of a request.
func newTopic(in *kmsg.CreateTopicsRequestTopic) (cluster.NewTopic, error) {
	t := cluster.NewTopic{
		Name: in.Topic, Partitions: in.NumPartitions, Replicas: in.ReplicationFactor,
		Assignment: make(map[int32][]ident.BrokerID, len(in.ReplicaAssignment)),
		Settings:   make(map[string]string, len(in.Configs)),
	}
	for _, a := range in.ReplicaAssignment {
		if _, twice := t.Assignment[a.Partition]; twice {
			return t, refusal(kerr.InvalidReplicaAssignment, "The manual assignment has partition %d twice.", a.Partition)
		}
		t.Assignment[a.Partition] = brokerIDs(a.Replicas)
	}
	for _, c := range in.Configs {
		if c.Value == nil {
			return t, refusal(kerr.InvalidConfig, "Null value not supported for topic configs: %s", c.Name)
		}
		t.Settings[c.Name] = *c.Value
	}
	return t, nil
}

func brokerIDs(numbers []int32) []ident.BrokerID {
	ids := make([]ident.BrokerID, len(numbers))
	for i, n := range numbers {
		ids[i] = ident.BrokerID(n)
	}
	return ids
}

// describeCreated says what became of a topic.
func (s *Service) describeCreated(out *kmsg.CreateTopicsResponseTopic, made cluster.TopicResult) {
	if made.Err != nil {
		out.ErrorCode, out.ErrorMessage = errorCode(made.Err), errorText(made.Err)
		return
	}
	out.TopicID = made.ID
	out.NumPartitions = int32(len(made.Topic.Partitions))
	out.ReplicationFactor = int16(len(made.Topic.Partitions[0].Replicas))
	for _, e := range s.Cluster.DescribeTopic(made.Topic) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value = e.Name, new(e.Value)
		c.ReadOnly, c.Source = !e.Dynamic, int8(e.Source)
		out.Configs = append(out.Configs, c)
	}
}
