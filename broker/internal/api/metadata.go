package api

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/ident"
)

// autoCreateTimeout is how long a Metadata request waits for the topics that it
// has made.
const autoCreateTimeout = 10 * time.Second

// Metadata (key 3), versions 0 to 13.
//
// KIP-204 (auto-creation may be forbidden, version 4), KIP-430 (authorised
// operations, version 8), KIP-516 (topic ids: answered from version 10, asked
// for from version 12), KIP-700 (the cluster's operations went to
// DescribeCluster, version 11), KIP-1102 (error code, version 13).
//
// Brokers and leaders are those that can be reached on the listener that the
// client came through. Any broker can take requests for the controller, so the
// one that answers calls itself the controller.
//
// A topic that does not exist is made, if the client and
// auto.create.topics.enable allow it, and the reply waits until it can be used:
// Kafka would answer at once and have the client ask again.
//
// Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
// INVALID_TOPIC_EXCEPTION, what CreateTopics would say,
// LEADER_NOT_AVAILABLE when it is not made in time, INVALID_REQUEST for a
// missing name or an id before version 12. Errors of a partition:
// LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND. A topic that is named twice is
// answered once, as in Kafka.
func (s *Service) metadata(r *Request, in *kmsg.MetadataRequest, reply Reply) {
	in.Topics = distinct(in.Topics, metadataKey)
	missing := s.topicsToMake(in)
	if len(missing) == 0 {
		reply(s.metadataReply(r, in, s.Cluster.Image(), nil))
		return
	}
	s.async(autoCreateTimeout, func(ctx context.Context) {
		failed := make(map[string]error)
		for _, made := range s.Cluster.EnsureTopics(ctx, missing) {
			failed[made.Name] = made.Err
		}
		reply(s.metadataReply(r, in, s.Cluster.Image(), failed))
	})
}

// metadataKey tells the topics of a request apart.
func metadataKey(t *kmsg.MetadataRequestTopic) topicRef {
	if t.Topic == nil {
		return topicRef{id: t.TopicID, byID: true}
	}
	return topicRef{name: *t.Topic, id: t.TopicID}
}

// topicsToMake are the names in a request that do not exist and may be made.
func (s *Service) topicsToMake(in *kmsg.MetadataRequest) []string {
	if !s.Settings.AutoCreateTopics || in.Version >= 4 && !in.AllowAutoTopicCreation {
		return nil
	}
	image := s.Cluster.Image()
	var missing []string
	for i := range in.Topics {
		t := &in.Topics[i]
		if validMetadataTopic(in.Version, t) != nil || t.Topic == nil {
			continue
		}
		if _, ok := image.Topic(*t.Topic); !ok {
			missing = append(missing, *t.Topic)
		}
	}
	return missing
}

// validMetadataTopic refuses what the request's version does not allow.
func validMetadataTopic(version int16, t *kmsg.MetadataRequestTopic) error {
	if version < 12 && (t.Topic == nil || t.TopicID != [16]byte{}) {
		return kerr.InvalidRequest
	}
	return nil
}

// metadataReply answers from an image. failed has the topics that could not be
// made.
func (s *Service) metadataReply(r *Request, in *kmsg.MetadataRequest, image *cluster.Image, failed map[string]error) *kmsg.MetadataResponse {
	resp := in.ResponseKind().(*kmsg.MetadataResponse)
	resp.ClusterID = new(image.ClusterID())
	resp.ControllerID = int32(s.BrokerID)
	for _, b := range image.Brokers() {
		if e, ok := b.Endpoint(r.Listener); ok {
			out := kmsg.NewMetadataResponseBroker()
			out.NodeID, out.Host, out.Port, out.Rack = int32(b.ID), e.Host, e.Port, nonEmpty(b.Rack)
			resp.Brokers = append(resp.Brokers, out)
		}
	}
	if in.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations()
	}
	add := func(t kmsg.MetadataResponseTopic) {
		if in.IncludeTopicAuthorizedOperations && t.ErrorCode == 0 {
			t.AuthorizedOperations = topicOperations()
		}
		resp.Topics = append(resp.Topics, t)
	}
	if in.Topics == nil || in.Version == 0 && len(in.Topics) == 0 {
		for _, t := range image.Topics() {
			add(describeTopic(image, t, r))
		}
		return resp
	}
	for i := range in.Topics {
		add(s.metadataTopic(r, image, &in.Topics[i], failed))
	}
	return resp
}

// metadataTopic answers for one topic of a request.
func (s *Service) metadataTopic(r *Request, image *cluster.Image, in *kmsg.MetadataRequestTopic, failed map[string]error) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = in.Topic, in.TopicID
	if err := validMetadataTopic(r.Version, in); err != nil {
		out.ErrorCode = errorCode(err)
		if out.Topic == nil {
			out.Topic = new(string) // these versions have no null names
		}
		return out
	}
	ref := topicRef{id: in.TopicID, byID: in.Topic == nil}
	if in.Topic != nil {
		ref.name = *in.Topic
		out.IsInternal = cluster.IsInternal(ref.name)
	}
	t, err := ref.find(image)
	if err == nil {
		return describeTopic(image, t, r)
	}
	if in.Topic != nil {
		err = errors.Join(cluster.CheckTopicName(ref.name), failedCreation(failed[ref.name]), err)
	}
	out.ErrorCode = errorCode(err)
	return out
}

// failedCreation is what a client is told that its Metadata request could not
// make a topic: where time may help, that it should ask again.
func failedCreation(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.RequestTimedOut), errors.Is(err, kerr.NotController), errors.Is(err, cluster.ErrClosed):
		return kerr.LeaderNotAvailable
	}
	return err
}

// describeTopic describes a topic to a client.
func describeTopic(image *cluster.Image, t *cluster.Topic, r *Request) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = new(t.Name), t.ID, t.Internal()
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		p, o := &t.Partitions[i], &out.Partitions[i]
		o.Default()
		o.Partition, o.Leader, o.LeaderEpoch = int32(i), int32(p.Leader), int32(p.LeaderEpoch)
		o.Replicas, o.ISR = brokerNumbers(p.Replicas), brokerNumbers(p.ISR)
		for _, id := range p.Replicas {
			if _, ok := image.Broker(id); !ok {
				o.OfflineReplicas = append(o.OfflineReplicas, int32(id))
			}
		}
		if err := reachable(image, p.Leader, r); err != nil {
			o.ErrorCode, o.Leader = errorCode(err), int32(ident.NoBroker)
		}
	}
	return out
}

// reachable says whether a client can reach a leader on its listener.
func reachable(image *cluster.Image, leader ident.BrokerID, r *Request) error {
	b, ok := image.Broker(leader)
	if !ok {
		return kerr.LeaderNotAvailable
	}
	if _, ok := b.Endpoint(r.Listener); !ok {
		if r.Version < 6 { // older clients do not know the error
			return kerr.LeaderNotAvailable
		}
		return kerr.ListenerNotFound
	}
	return nil
}

func brokerNumbers(ids []ident.BrokerID) []int32 {
	numbers := make([]int32, len(ids))
	for i, id := range ids {
		numbers[i] = int32(id)
	}
	return numbers
}

// nonEmpty is the text as a nullable string, null if it is empty.
func nonEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// The operations that a client may be told that it is authorised for
// (AclOperation.java), by their numbers.
const (
	opRead = iota + 3
	opWrite
	opCreate
	opDelete
	opAlter
	opDescribe
	opClusterAction
	opDescribeConfigs
	opAlterConfigs
	opIdempotentWrite
)

// topicOperations are all operations on a topic, as the bits of a number:
// without access control everybody may do everything.
func topicOperations() int32 {
	return 1<<opRead | 1<<opWrite | 1<<opCreate | 1<<opDelete | 1<<opAlter | 1<<opDescribe | 1<<opDescribeConfigs | 1<<opAlterConfigs
}

// clusterOperations are all operations on the cluster likewise.
func clusterOperations() int32 {
	return 1<<opCreate | 1<<opAlter | 1<<opDescribe | 1<<opClusterAction | 1<<opDescribeConfigs | 1<<opAlterConfigs | 1<<opIdempotentWrite
}
