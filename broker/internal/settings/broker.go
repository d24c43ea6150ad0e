package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

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
func NewBroker(static map[string]string) (*Broker, error) {
	b := &Broker{tables: newTables(), static: maps.Clone(static)}
	if err := b.validate(OfBroker, static); err != nil {
		return nil, err
	}
	for i := range b.tables.broker {
		row := &b.tables.broker[i]
		text, set := static[row.Name]
		if !set {
			text, set = row.Default, row.HasDefault
		}
		if set && row.set != nil {
			row.set(b, mustParse(&row.Definition, text))
		}
	}
	if b.GroupMinSessionTimeout > b.GroupMaxSessionTimeout {
		return nil, &InvalidError{OfBroker, "group.min.session.timeout.ms", static["group.min.session.timeout.ms"],
			"must not exceed group.max.session.timeout.ms"}
	}
	b.TopicDefaults = b.topic(nil, 1)
	return b, nil
}

// Topic returns the settings of a topic with the given settings of its own and
// the given number of replicas. Where nothing sets min.insync.replicas, it is 2
// from 3 replicas on, else 1. The error is like that of [NewBroker].
func (b *Broker) Topic(own map[string]string, replicas int) (Topic, error) {
	if err := b.ValidateTopic(own); err != nil {
		return Topic{}, err
	}
	return b.topic(own, replicas), nil
}

// ValidateTopic checks settings of a topic without reading them. The error is
// like that of [NewBroker].
func (b *Broker) ValidateTopic(own map[string]string) error { return b.validate(OfTopic, own) }

// Definitions returns the settings of a scope in order of their names. The
// slice is the caller's; what it points to must not be changed.
func (b *Broker) Definitions(of Scope) []*Definition { return b.tables.definitions(of) }

// validate checks each setting by itself.
func (b *Broker) validate(of Scope, given map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		d, ok := b.tables.find(of, name)
		if !ok {
			errs = append(errs, &UnknownError{Scope: of, Name: name, Nearest: b.tables.nearest(of, name)})
			continue
		}
		if _, err := d.parse(given[name]); err != nil {
			errs = append(errs, &InvalidError{Scope: of, Name: name, Value: given[name], Reason: err.Error()})
		}
	}
	return errors.Join(errs...)
}

// topic reads settings that were validated.
func (b *Broker) topic(own map[string]string, replicas int) Topic {
	var t Topic
	for i := range b.tables.topic {
		row := &b.tables.topic[i]
		row.set(&t, b.resolve(&row.Definition, own, replicas))
	}
	return t
}

// resolve finds the value that counts for a setting of a topic.
func (b *Broker) resolve(d *Definition, own map[string]string, replicas int) value {
	if text, ok := own[d.Name]; ok {
		return mustParse(d, text)
	}
	for _, syn := range d.Synonyms {
		if text, ok := b.static[syn.Name]; ok {
			def, _ := b.tables.find(OfBroker, syn.Name)
			return mustParse(def, text).scaled(syn.Scale)
		}
	}
	return mustParse(d, defaultFor(d, replicas))
}

// defaultFor is the default of a setting of a topic. The one that depends on
// the topic is min.insync.replicas: with 3 replicas or more, an acknowledged
// record is to survive the loss of a broker.
func defaultFor(d *Definition, replicas int) string {
	if d.Name == "min.insync.replicas" && replicas >= 3 {
		return "2"
	}
	return d.Default
}

// parse reads and checks a value of the setting.
func (d *Definition) parse(text string) (value, error) {
	v, err := parse(d.Type, text)
	if err != nil {
		return value{}, err
	}
	return v, d.check.err(v)
}

// mustParse reads text that was checked before, or stands in a table.
func mustParse(d *Definition, text string) value {
	v, err := d.parse(text)
	if err != nil {
		panic(fmt.Sprintf("settings: %s = %q: %v", d.Name, text, err))
	}
	return v
}
