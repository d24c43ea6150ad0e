package cluster

import (
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/broker/internal/ident"
)

// Image is the metadata of the cluster at one moment. An image never changes:
// a change makes a new one that shares what stayed the same. Everything that
// its methods return is shared too and must not be changed.
type Image struct {
	clusterID string
	index     uint64
	brokers   []*Broker // by id
	topics    []*Topic  // by name
	byID      []*Topic  // by topic id
	nextPID   ident.ProducerID
}

// Broker is one registered broker.
type Broker struct {
	ID ident.BrokerID
	// Epoch is the raft index of the registration; it grows with each start
	// of the broker (KIP-841).
	Epoch int64
	// Incarnation is a random id that the broker took when it started.
	Incarnation [16]byte
	// Rack is where the broker is; empty: not said.
	Rack string
	// Endpoints are the addresses that clients are told, by listener.
	Endpoints []Endpoint
}

// Endpoint returns the address of the broker on a listener.
func (b *Broker) Endpoint(listener string) (Endpoint, bool) {
	for _, e := range b.Endpoints {
		if e.Listener == listener {
			return e, true
		}
	}
	return Endpoint{}, false
}

// Endpoint is the address of a broker on one of its listeners.
type Endpoint struct {
	Listener string // such as PLAINTEXT
	Host     string
	Port     int32
}

// Topic is one topic.
type Topic struct {
	Name string
	ID   ident.TopicID
	// Created is when the topic was made, by the clock of the broker that
	// was the controller then.
	Created time.Time
	// Partitions are in order of their numbers, from 0.
	Partitions []Partition
	// Settings are those that were set on the topic itself, as text.
	Settings map[string]string
}

// Internal reports whether the topic is one of the broker's own.
func (t *Topic) Internal() bool { return IsInternal(t.Name) }

// Partition is the state of one partition.
type Partition struct {
	// Leader is the broker that leads it, or ident.NoBroker.
	Leader ident.BrokerID
	// LeaderEpoch counts its leaders.
	LeaderEpoch ident.LeaderEpoch
	// Epoch counts all changes of this state (KIP-497).
	Epoch int32
	// Replicas are the brokers that hold it, the preferred leader first.
	Replicas []ident.BrokerID
	// ISR are those of them that are in sync.
	ISR []ident.BrokerID
}

// ClusterID returns the id that the cluster took when it was made.
func (m *Image) ClusterID() string { return m.clusterID }

// Index returns the raft index of the last command in the image.
func (m *Image) Index() uint64 { return m.index }

// Brokers returns all brokers in order of their ids.
func (m *Image) Brokers() []*Broker { return m.brokers }

// Topics returns all topics in order of their names.
func (m *Image) Topics() []*Topic { return m.topics }

// Broker returns a broker by its id.
func (m *Image) Broker(id ident.BrokerID) (*Broker, bool) {
	i, ok := slices.BinarySearchFunc(m.brokers, id, compareBroker)
	if !ok {
		return nil, false
	}
	return m.brokers[i], true
}

// Topic returns a topic by its name.
func (m *Image) Topic(name string) (*Topic, bool) {
	i, ok := slices.BinarySearchFunc(m.topics, name, compareName)
	if !ok {
		return nil, false
	}
	return m.topics[i], true
}

// TopicByID returns a topic by its id.
func (m *Image) TopicByID(id ident.TopicID) (*Topic, bool) {
	i, ok := slices.BinarySearchFunc(m.byID, id, compareID)
	if !ok {
		return nil, false
	}
	return m.byID[i], true
}

// Partition returns the state of a partition.
func (m *Image) Partition(tp ident.TopicPartition) (*Partition, bool) {
	t, ok := m.Topic(tp.Topic)
	if !ok || tp.Partition < 0 || int(tp.Partition) >= len(t.Partitions) {
		return nil, false
	}
	return &t.Partitions[tp.Partition], true
}

func compareBroker(b *Broker, id ident.BrokerID) int { return int(b.ID) - int(id) }
func compareName(t *Topic, name string) int          { return strings.Compare(t.Name, name) }
func compareID(t *Topic, id ident.TopicID) int       { return slices.Compare(t.ID[:], id[:]) }
