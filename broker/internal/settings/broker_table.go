package settings

import (
	"math"
	"slices"
	"time"
)

// brokerRow is one setting of brokers, and where its value goes; nil for those
// that only stand behind a setting of topics.
type brokerRow struct {
	Definition
	set func(*Broker, value)
}

// brokerTable lists the settings of brokers, but for those that stand behind
// settings of topics.
func brokerTable() []brokerRow {
	return slices.Concat(brokerIdentityRows(), brokerTopicRows(), brokerConnectionRows(), brokerLogRows(), brokerGroupRows())
}

func brokerIdentityRows() []brokerRow {
	return []brokerRow{
		{Definition{Name: "node.id", Type: Int, Default: "1", check: atLeast(0),
			Doc: "The id of this broker in its cluster. It is written into the data folder and cannot change afterwards."},
			func(b *Broker, v value) { b.NodeID = int32(v.num) }},
		{Definition{Name: "broker.rack", Type: String,
			Doc: "Where the broker is. Clients that ask for it prefer replicas in their own rack."},
			func(b *Broker, v value) { b.Rack = v.text }},
		{Definition{Name: "listeners", Type: List, Default: "PLAINTEXT://127.0.0.1:9092", check: listenersCheck(false),
			Doc: "The addresses to listen on, as NAME://host:port; no host: all interfaces; port 0: any free one."},
			func(b *Broker, v value) { b.Listeners = mustListeners(v) }},
		{Definition{Name: "advertised.listeners", Type: List, check: listenersCheck(true),
			Doc: "The addresses that clients are told, as NAME://host:port, when they differ from listeners."},
			func(b *Broker, v value) { b.Advertised = mustListeners(v) }},
	}
}

func brokerTopicRows() []brokerRow {
	return []brokerRow{
		{Definition{Name: "auto.create.topics.enable", Type: Bool, Default: "true",
			Doc: "Whether a topic that does not exist is made when a client asks for its metadata and allows it."},
			func(b *Broker, v value) { b.AutoCreateTopics = v.flag }},
		{Definition{Name: "delete.topic.enable", Type: Bool, Default: "true",
			Doc: "Whether topics may be deleted."},
			func(b *Broker, v value) { b.DeleteTopics = v.flag }},
		{Definition{Name: "num.partitions", Type: Int, Default: "1", check: atLeast(1),
			Doc: "How many partitions a topic gets when its maker does not say."},
			func(b *Broker, v value) { b.NumPartitions = int32(v.num) }},
		{Definition{Name: "default.replication.factor", Type: Int, Default: "1", check: between(1, math.MaxInt16),
			Doc: "How many replicas a topic gets when its maker does not say."},
			func(b *Broker, v value) { b.ReplicationFactor = int16(v.num) }},
	}
}

func brokerConnectionRows() []brokerRow {
	return []brokerRow{
		{Definition{Name: "socket.request.max.bytes", Type: Int, Default: "104857600", check: atLeast(1),
			Doc: "The largest request in bytes. A connection that announces a larger one is closed."},
			func(b *Broker, v value) { b.MaxRequestBytes = int32(v.num) }},
		{Definition{Name: "queued.max.request.bytes", Type: Long, Default: "536870912", check: atLeast(1),
			Doc: "The bytes of requests that may be in memory at once; reading pauses beyond them. Kafka's default is no limit."},
			func(b *Broker, v value) { b.MaxQueuedBytes = v.num }},
		{Definition{Name: "fetch.max.bytes", Type: Int, Default: "57671680", check: atLeast(1024),
			Doc: "The most bytes that one Fetch is answered with, whatever it asks for; a larger first batch is returned whole."},
			func(b *Broker, v value) { b.FetchMaxBytes = int32(v.num) }},
		{Definition{Name: "connections.max.idle.ms", Type: Long, Default: "600000", check: atLeast(-1),
			Doc: "How long in milliseconds a connection may be silent before it is closed; -1: for ever."},
			func(b *Broker, v value) { b.MaxIdle = v.in(time.Millisecond) }},
	}
}

func brokerLogRows() []brokerRow {
	return []brokerRow{
		{Definition{Name: "log.retention.check.interval.ms", Type: Long, Default: "300000", check: atLeast(1),
			Doc: "The time in milliseconds between two searches for segments that are to be deleted."},
			func(b *Broker, v value) { b.RetentionCheckInterval = v.in(time.Millisecond) }},
		{Definition{Name: "log.flush.offset.checkpoint.interval.ms", Type: Int, Default: "1000", check: atLeast(1),
			Doc: "The time in milliseconds between two writes of the points from which recovery reads after a crash. Kafka's default is 60000."},
			func(b *Broker, v value) { b.CheckpointInterval = v.in(time.Millisecond) }},
		{Definition{Name: "producer.id.expiration.ms", Type: Int, Default: "86400000", check: atLeast(1),
			Doc: "How long in milliseconds the sequence numbers of a silent producer are remembered."},
			func(b *Broker, v value) { b.ProducerIDExpiration = v.in(time.Millisecond) }},
	}
}

func brokerGroupRows() []brokerRow {
	return []brokerRow{
		// Kafka's is 50; docs/design/coordinators.md says why this is less.
		{Definition{Name: "offsets.topic.num.partitions", Type: Int, Default: "16", check: atLeast(1),
			Doc: "How many partitions __consumer_offsets is made with. It must not change once that topic exists. Kafka's default is 50."},
			func(b *Broker, v value) { b.OffsetsTopicPartitions = int32(v.num) }},
		{Definition{Name: "offsets.topic.replication.factor", Type: Short, Default: "3", check: atLeast(1),
			Doc: "How many replicas __consumer_offsets is made with; fewer if the cluster has fewer brokers then."},
			func(b *Broker, v value) { b.OffsetsTopicReplicationFactor = int16(v.num) }},
		{Definition{Name: "offsets.topic.segment.bytes", Type: Int, Default: "104857600", check: atLeast(1 << 20),
			Doc: "The segment.bytes that __consumer_offsets is made with."},
			func(b *Broker, v value) { b.OffsetsTopicSegmentBytes = int32(v.num) }},
		{Definition{Name: "offsets.retention.minutes", Type: Int, Default: "10080", check: atLeast(1),
			Doc: "How many minutes offsets are kept after their group became empty or stopped consuming their topic."},
			func(b *Broker, v value) { b.OffsetsRetention = v.in(time.Minute) }},
		{Definition{Name: "offsets.retention.check.interval.ms", Type: Long, Default: "600000", check: atLeast(1),
			Doc: "The time in milliseconds between two searches for expired offsets."},
			func(b *Broker, v value) { b.OffsetsRetentionCheck = v.in(time.Millisecond) }},
		{Definition{Name: "offset.metadata.max.bytes", Type: Int, Default: "4096", check: atLeast(0),
			Doc: "The longest text in bytes that may be committed beside an offset."},
			func(b *Broker, v value) { b.OffsetMetadataMaxBytes = int32(v.num) }},
		{Definition{Name: "group.min.session.timeout.ms", Type: Int, Default: "6000", check: atLeast(1),
			Doc: "The shortest session timeout in milliseconds that a member of a classic group may ask for."},
			func(b *Broker, v value) { b.GroupMinSessionTimeout = v.in(time.Millisecond) }},
		{Definition{Name: "group.max.session.timeout.ms", Type: Int, Default: "1800000", check: atLeast(1),
			Doc: "The longest session timeout in milliseconds that a member of a classic group may ask for."},
			func(b *Broker, v value) { b.GroupMaxSessionTimeout = v.in(time.Millisecond) }},
		{Definition{Name: "group.initial.rebalance.delay.ms", Type: Int, Default: "3000", check: atLeast(0),
			Doc: "How long in milliseconds the first rebalance of an empty classic group waits for more members; 0 suits development."},
			func(b *Broker, v value) { b.GroupInitialRebalanceDelay = v.in(time.Millisecond) }},
		{Definition{Name: "group.max.size", Type: Int, Default: "2147483647", check: atLeast(1),
			Doc: "The largest number of members of a classic group."},
			func(b *Broker, v value) { b.GroupMaxSize = int32(v.num) }},
	}
}
