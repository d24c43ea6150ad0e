package settings

import "time"

// Listener is one address of a broker.
type Listener struct {
	Name string // such as PLAINTEXT; upper case
	Host string // empty: all interfaces
	Port int32  // 0: any free port
}

// Broker holds the settings of one broker, each with a value, and the tables
// to read those of topics with. It does not change after [NewBroker] and may
// be used by any number of goroutines.
type Broker struct {
	// NodeID is this broker's id in its cluster, from 0 (node.id).
	NodeID int32
	// Rack is the place of the broker, for readers that prefer near replicas;
	// empty: none (broker.rack).
	Rack string
	// Listeners are the addresses that the broker listens on (listeners).
	Listeners []Listener
	// Advertised are the addresses that clients are told; empty: Listeners
	// (advertised.listeners).
	Advertised []Listener

	// AutoCreateTopics lets a Metadata request create the topics it names
	// (auto.create.topics.enable).
	AutoCreateTopics bool
	// DeleteTopics lets topics be deleted (delete.topic.enable).
	DeleteTopics bool
	// NumPartitions is how many partitions a topic gets that does not say
	// (num.partitions).
	NumPartitions int32
	// ReplicationFactor is how many replicas a topic gets that does not say
	// (default.replication.factor).
	ReplicationFactor int16

	// MaxRequestBytes is the largest request frame (socket.request.max.bytes).
	MaxRequestBytes int32
	// MaxQueuedBytes bounds the requests that are held in memory at once
	// (queued.max.request.bytes).
	MaxQueuedBytes int64
	// FetchMaxBytes is the most that one Fetch is answered with, whatever it
	// asks for (fetch.max.bytes).
	FetchMaxBytes int32
	// MaxIdle is how long a connection may be silent before it is closed;
	// negative: for ever (connections.max.idle.ms).
	MaxIdle time.Duration

	// RetentionCheckInterval is the time between two searches for segments to
	// delete (log.retention.check.interval.ms).
	RetentionCheckInterval time.Duration
	// CheckpointInterval is the time between two writes of the recovery
	// points (log.flush.offset.checkpoint.interval.ms).
	CheckpointInterval time.Duration
	// ProducerIDExpiration is how long an idle producer's sequence numbers
	// are remembered (producer.id.expiration.ms).
	ProducerIDExpiration time.Duration
	// ProducerIDExpirationCheck is the time between two searches for them
	// (producer.id.expiration.check.interval.ms).
	ProducerIDExpirationCheck time.Duration

	// OffsetsTopicPartitions is the number of partitions of
	// __consumer_offsets when it is made (offsets.topic.num.partitions).
	OffsetsTopicPartitions int32
	// OffsetsTopicReplicationFactor is its number of replicas; fewer when the
	// cluster has fewer brokers (offsets.topic.replication.factor).
	OffsetsTopicReplicationFactor int16
	// OffsetsTopicSegmentBytes is its segment.bytes
	// (offsets.topic.segment.bytes).
	OffsetsTopicSegmentBytes int32
	// OffsetsRetention is how long offsets of a group without members are
	// kept (offsets.retention.minutes).
	OffsetsRetention time.Duration
	// OffsetsRetentionCheck is the time between two searches for expired
	// offsets (offsets.retention.check.interval.ms).
	OffsetsRetentionCheck time.Duration
	// OffsetMetadataMaxBytes is the largest text that may accompany an offset
	// (offset.metadata.max.bytes).
	OffsetMetadataMaxBytes int32

	// GroupMinSessionTimeout and GroupMaxSessionTimeout bound what members of
	// classic groups may ask for (group.{min,max}.session.timeout.ms).
	GroupMinSessionTimeout time.Duration
	GroupMaxSessionTimeout time.Duration
	// GroupInitialRebalanceDelay is how long the first rebalance of an empty
	// group waits for more members (group.initial.rebalance.delay.ms).
	GroupInitialRebalanceDelay time.Duration
	// GroupMaxSize is the largest number of members of a group
	// (group.max.size).
	GroupMaxSize int32

	// TopicDefaults are the settings of a topic that sets none of its own and
	// has one replica.
	TopicDefaults Topic

	tables *tables
	static map[string]string
}

// NewBroker reads the settings of a broker from text; those that are missing
// get their defaults. The error joins an [*UnknownError] or [*InvalidError]
// for each bad setting, in order of their names. The map is copied.
func NewBroker(static map[string]string) (*Broker, error) { panic("not yet") }

// Topic returns the settings of a topic with the given settings of its own and
// the given number of replicas. Where nothing sets min.insync.replicas, it is 2
// from 3 replicas on, else 1. The error is like that of [NewBroker].
func (b *Broker) Topic(own map[string]string, replicas int) (Topic, error) { panic("not yet") }

// ValidateTopic checks settings of a topic without reading them. The error is
// like that of [NewBroker].
func (b *Broker) ValidateTopic(own map[string]string) error { panic("not yet") }

// Definitions returns the settings of a scope in order of their names. The
// slice is the caller's; what it points to must not be changed.
func (b *Broker) Definitions(of Scope) []*Definition { panic("not yet") }

// DescribeTopic lists every setting of a topic with its value and the places
// the value could come from, in order of their names.
func (b *Broker) DescribeTopic(own map[string]string, replicas int) []Entry { panic("not yet") }

// Describe lists every setting of the broker likewise.
func (b *Broker) Describe() []Entry { panic("not yet") }

// Entry is a setting together with its value.
type Entry struct {
	*Definition
	// Value is the value as text, when Set says that there is one.
	Value string
	Set   bool
	// Source is where the value was set.
	Source Source
	// From lists all the places where the value is set, the one that counts
	// first. The names are those of the synonyms.
	From []Origin
}

// Origin is one place where a value is set.
type Origin struct {
	Name   string
	Value  string
	Source Source
}
