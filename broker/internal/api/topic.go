package api

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
)

// topicRef names a topic as requests do: by name, or by id since KIP-516.
type topicRef struct {
	name string
	id   ident.TopicID
	byID bool
}

// find looks a topic up. The error is the one that tells the client to refresh
// its metadata.
func (t topicRef) find(image *cluster.Image) (*cluster.Topic, error) {
	if t.byID {
		if topic, ok := image.TopicByID(t.id); ok {
			return topic, nil
		}
		return nil, kerr.UnknownTopicID
	}
	if topic, ok := image.Topic(t.name); ok {
		return topic, nil
	}
	return nil, kerr.UnknownTopicOrPartition
}

// noEpoch is the leader epoch of requests that are too old to name one.
const noEpoch = int32(ident.NoLeaderEpoch)

// leader returns the partition if this broker leads it in the epoch that the
// client believes in (KIP-320), and its disk works. noEpoch skips the check of
// the epoch.
func (s *Service) leader(topic *cluster.Topic, number, epoch int32) (*partition.Partition, error) {
	if number < 0 || int(number) >= len(topic.Partitions) {
		return nil, kerr.UnknownTopicOrPartition
	}
	state := &topic.Partitions[number]
	switch {
	case state.Leader != s.BrokerID:
		return nil, kerr.NotLeaderForPartition
	case epoch != noEpoch && epoch < int32(state.LeaderEpoch):
		return nil, kerr.FencedLeaderEpoch
	case epoch != noEpoch && epoch > int32(state.LeaderEpoch):
		return nil, kerr.UnknownLeaderEpoch
	}
	p, ok := s.Logs.Get(ident.TopicPartition{Topic: topic.Name, Partition: number})
	if !ok {
		// It is about to be made, or cannot be, of which the broker's log says why.
		return nil, kerr.NotLeaderForPartition
	}
	return p, p.CheckLeader(ident.LeaderEpoch(epoch))
}
