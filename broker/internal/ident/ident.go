// Package ident names the numbers that a broker counts with.
//
// Offsets, epochs and ids are all integers on the wire. Giving each a type of
// its own lets the compiler catch the classic mistakes of this field, such as
// passing a leader epoch where an offset is meant. The package is a leaf: all
// of the broker may import it, and it imports nothing of the project.
package ident

import (
	"encoding/base64"
	"fmt"
)

// Offset is the position of a record in its partition, counted from 0.
// Ranges of offsets are half-open; an exclusive upper bound is called an end.
type Offset int64

// NoOffset stands for an offset that is unknown or does not exist.
const NoOffset Offset = -1

// LeaderEpoch counts the leaders of a partition, from 0. It is stored in every
// batch, so that diverged replicas find the point where they parted (KIP-101).
type LeaderEpoch int32

// NoLeaderEpoch stands for an epoch that the sender does not know.
const NoLeaderEpoch LeaderEpoch = -1

// BrokerID identifies a broker within its cluster, from 0.
type BrokerID int32

// NoBroker stands for the absence of a broker, such as that of a leader.
const NoBroker BrokerID = -1

// ProducerID identifies an idempotent or transactional producer (KIP-98).
type ProducerID int64

// NoProducer marks a batch that was written without idempotence.
const NoProducer ProducerID = -1

// ProducerEpoch counts the incarnations of one producer id, from 0.
type ProducerEpoch int16

// NoProducerEpoch is the epoch of batches without idempotence.
const NoProducerEpoch ProducerEpoch = -1

// TopicID is the unique id of a topic (KIP-516). A topic that is deleted and
// made again under its name gets another id. The zero TopicID means none.
type TopicID [16]byte

// String returns the id as Kafka prints it: URL-safe base64 without padding.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// MarshalText makes logs and JSON show the id as String does.
func (id TopicID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// IsZero reports whether the id is the zero value, which no topic has.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// TopicPartition names one partition of one topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns "topic-partition", which is also the name of its log folder.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }
