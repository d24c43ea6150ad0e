package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/ident"
)

// The kinds of keys that have a coordinator (FindCoordinatorRequest.java).
const (
	groupKey       = 0
	transactionKey = 1
	shareKey       = 2
)

// findCoordinatorTimeout is how long a request waits for __consumer_offsets to
// be made.
const findCoordinatorTimeout = 5 * time.Second

// FindCoordinator (key 10), versions 0 to 6.
//
// KIP-699 (many keys in one request, version 4), KIP-890 (version 5, same
// fields), KIP-932 (share groups, version 6).
//
// The first request of all has __consumer_offsets made, and waits for it: in
// Kafka it would be told to come again.
//
// Errors: COORDINATOR_NOT_AVAILABLE while the partition has no leader that can
// be reached on the client's listener, or the topic cannot be made;
// INVALID_REQUEST for keys of other types than groups: there are no
// transactions and no share groups yet.
func (s *Service) findCoordinator(r *Request, in *kmsg.FindCoordinatorRequest, reply Reply) {
	if in.CoordinatorType != groupKey {
		s.replyCoordinators(in, reply, func(c *kmsg.FindCoordinatorResponseCoordinator) {
			refuseCoordinator(c, kerr.InvalidRequest, keyTypeRefusal(in.CoordinatorType))
		})
		return
	}
	find := func() {
		image := s.Cluster.Image()
		s.replyCoordinators(in, reply, func(c *kmsg.FindCoordinatorResponseCoordinator) {
			s.groupCoordinator(image, r.Listener, c)
		})
	}
	if _, ok := s.Cluster.Image().Topic(cluster.OffsetsTopic); ok {
		find()
		return
	}
	s.async(findCoordinatorTimeout, func(ctx context.Context) {
		if _, err := s.Cluster.EnsureTopic(ctx, cluster.OffsetsTopic); err != nil {
			s.Log.Warn("the topic of consumer groups cannot be made", "topic", cluster.OffsetsTopic, "error", err)
		}
		for _, key := range coordinatorKeys(in) {
			// A client told of a coordinator that is loading would come to it
			// at once, be refused, and wait for longer than this takes.
			_ = s.Groups.AwaitLoaded(ctx, key)
		}
		find()
	})
}

func keyTypeRefusal(keyType int8) string {
	switch keyType {
	case transactionKey:
		return "this broker has no transactions yet"
	case shareKey:
		return "this broker has no share groups yet"
	}
	return "the type of the key is unknown"
}

// replyCoordinators fills in one coordinator for each key, in the form of the
// request's version.
func (s *Service) replyCoordinators(in *kmsg.FindCoordinatorRequest, reply Reply, fill func(*kmsg.FindCoordinatorResponseCoordinator)) {
	resp := in.ResponseKind().(*kmsg.FindCoordinatorResponse)
	for _, key := range coordinatorKeys(in) {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key = key
		fill(&c)
		resp.Coordinators = append(resp.Coordinators, c)
	}
	if in.Version < 4 {
		c := resp.Coordinators[0]
		resp.NodeID, resp.Host, resp.Port, resp.ErrorCode, resp.ErrorMessage = c.NodeID, c.Host, c.Port, c.ErrorCode, c.ErrorMessage
	}
	reply(resp)
}

// coordinatorKeys are the keys asked for, which is one before version 4.
func coordinatorKeys(in *kmsg.FindCoordinatorRequest) []string {
	if in.Version < 4 {
		return []string{in.CoordinatorKey}
	}
	return in.CoordinatorKeys
}

// groupCoordinator names the broker that leads the group's partition, by its
// address on the client's listener.
func (s *Service) groupCoordinator(image *cluster.Image, listener string, c *kmsg.FindCoordinatorResponseCoordinator) {
	number, ok := s.Groups.PartitionOf(c.Key)
	if !ok {
		refuseCoordinator(c, kerr.CoordinatorNotAvailable, "the topic "+cluster.OffsetsTopic+" does not exist yet")
		return
	}
	state, ok := image.Partition(ident.TopicPartition{Topic: cluster.OffsetsTopic, Partition: number})
	if !ok || state.Leader == ident.NoBroker {
		refuseCoordinator(c, kerr.CoordinatorNotAvailable, "the group's partition of "+cluster.OffsetsTopic+" has no leader")
		return
	}
	broker, ok := image.Broker(state.Leader)
	if !ok {
		refuseCoordinator(c, kerr.CoordinatorNotAvailable, "the group's coordinator is not registered")
		return
	}
	at, ok := broker.Endpoint(listener)
	if !ok {
		refuseCoordinator(c, kerr.CoordinatorNotAvailable, "the group's coordinator has no listener "+listener)
		return
	}
	c.NodeID, c.Host, c.Port = int32(broker.ID), at.Host, at.Port
}

func refuseCoordinator(c *kmsg.FindCoordinatorResponseCoordinator, why *kerr.Error, text string) {
	c.NodeID, c.Port = int32(ident.NoBroker), -1
	c.ErrorCode, c.ErrorMessage = why.Code, new(text)
}
