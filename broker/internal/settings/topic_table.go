package settings

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// topicRow is one setting of topics, and where its value goes.
type topicRow struct {
	Definition
	set func(*Topic, value)
}

const (
	minuteMs = int64(time.Minute / time.Millisecond)
	hourMs   = int64(time.Hour / time.Millisecond)
	never    = "9223372036854775807" // the largest int64, which Kafka uses for "never"
)

// topicTable lists the settings of topics.
func topicTable() []topicRow {
	return slices.Concat(topicLogRows(), topicRecordRows())
}

// topicLogRows are the settings about the files of a partition.
func topicLogRows() []topicRow {
	return []topicRow{
		{Definition{Name: "cleanup.policy", Type: List, Default: "delete", check: someOf("delete", "compact"),
			Synonyms: same("log.cleanup.policy", List),
			Doc: "What is done with old records: delete drops segments beyond the retention, compact keeps the last record of each key. " +
				"compact is stored and shown, but nothing is compacted yet."},
			func(t *Topic, v value) {
				t.Cleanup = Cleanup{Delete: slices.Contains(v.list, "delete"), Compact: slices.Contains(v.list, "compact")}
			}},
		{Definition{Name: "retention.ms", Type: Long, Default: "604800000", check: atLeast(-1),
			Synonyms: times("log.retention", "ms", "minutes", "hours"),
			Doc:      "The age in milliseconds at which a segment is deleted, by the newest record in it; -1: never."},
			func(t *Topic, v value) { t.Retention = v.in(time.Millisecond) }},
		{Definition{Name: "retention.bytes", Type: Long, Default: "-1", check: atLeast(-1),
			Synonyms: same("log.retention.bytes", Long),
			Doc:      "The size in bytes of a partition beyond which its oldest segments are deleted; -1: no limit."},
			func(t *Topic, v value) { t.RetentionBytes = v.num }},
		{Definition{Name: "segment.bytes", Type: Int, Default: "1073741824", check: atLeast(1 << 20),
			Synonyms: same("log.segment.bytes", Int),
			Doc:      "The size in bytes at which a new segment is begun. Retention works on whole segments."},
			func(t *Topic, v value) { t.SegmentBytes = int32(v.num) }},
		{Definition{Name: "segment.ms", Type: Long, Default: "604800000", check: atLeast(1),
			Synonyms: times("log.roll", "ms", "hours"),
			Doc:      "The age in milliseconds at which a new segment is begun although the old one is not full."},
			func(t *Topic, v value) { t.SegmentAge = v.in(time.Millisecond) }},
		{Definition{Name: "segment.jitter.ms", Type: Long, Default: "0", check: atLeast(0),
			Synonyms: times("log.roll.jitter", "ms", "hours"),
			Doc:      "The longest time in milliseconds that is taken at random from segment.ms, so that partitions do not roll all at once."},
			func(t *Topic, v value) { t.SegmentJitter = v.in(time.Millisecond) }},
		{Definition{Name: "segment.index.bytes", Type: Int, Default: "10485760", check: atLeast(4),
			Synonyms: same("log.index.size.max.bytes", Int),
			Doc:      "The largest size in bytes of an index file; a full index begins a new segment."},
			func(t *Topic, v value) { t.SegmentIndexBytes = int32(v.num) }},
		{Definition{Name: "index.interval.bytes", Type: Int, Default: "4096", check: atLeast(0),
			Synonyms: same("log.index.interval.bytes", Int),
			Doc:      "How many bytes of batches lie between two entries of an index: fewer make lookups quicker and indexes larger."},
			func(t *Topic, v value) { t.IndexIntervalBytes = int32(v.num) }},
		{Definition{Name: "flush.messages", Type: Long, Default: "1", check: atLeast(1),
			Synonyms: same("log.flush.interval.messages", Long),
			Doc: "The number of records after which the log is synced to disk. 1, the default: before a write is acknowledged, all waiting " +
				"writers sharing one sync. Kafka's own default is " + never + ": never, leaving it to the operating system."},
			func(t *Topic, v value) { t.FlushMessages = v.num }},
		{Definition{Name: "flush.ms", Type: Long, Default: never, check: atLeast(0),
			Synonyms: same("log.flush.interval.ms", Long),
			Doc:      "The time in milliseconds after which appended records are synced to disk, however few; " + never + ": flush.messages alone decides."},
			func(t *Topic, v value) { t.FlushEvery = v.in(time.Millisecond) }},
		{Definition{Name: "preallocate", Type: Bool, Default: "false",
			Synonyms: same("log.preallocate", Bool),
			Doc:      "Whether the space of a new segment is set aside on disk when it is begun."},
			func(t *Topic, v value) { t.Preallocate = v.flag }},
	}
}

// topicRecordRows are the settings about what may be written.
func topicRecordRows() []topicRow {
	return []topicRow{
		{Definition{Name: "max.message.bytes", Type: Int, Default: "1048588", check: atLeast(0),
			Synonyms: same("message.max.bytes", Int),
			Doc:      "The size in bytes, as compressed, of the largest batch that may be produced."},
			func(t *Topic, v value) { t.MaxMessageBytes = int32(v.num) }},
		{Definition{Name: "min.insync.replicas", Type: Int, Default: "1", check: atLeast(1),
			Synonyms: same("min.insync.replicas", Int),
			Doc:      "How many replicas must be in sync for a write with acks=all to be accepted. Where it is set nowhere, it is 2 for topics of 3 replicas or more."},
			func(t *Topic, v value) { t.MinInsyncReplicas = int32(v.num) }},
		{Definition{Name: "compression.type", Type: String, Default: "producer", check: oneOf(slices.Concat([]string{"producer"}, compressions())...),
			Synonyms: same("compression.type", String),
			Doc: "How batches are stored: producer keeps them as their producer compressed them, uncompressed and the names of codecs " +
				"have the broker compress them anew."},
			func(t *Topic, v value) {
				t.Compression = Compression(slices.Index(compressions(), v.text))
			}},
		{Definition{Name: "message.timestamp.type", Type: String, Default: "CreateTime", check: oneOf("CreateTime", "LogAppendTime"),
			Synonyms: same("log.message.timestamp.type", String),
			Doc:      "Whose clock dates a record: CreateTime is the producer's, LogAppendTime the broker's."},
			func(t *Topic, v value) {
				t.TimestampType = CreateTime
				if v.text == "LogAppendTime" {
					t.TimestampType = LogAppendTime
				}
			}},
		{Definition{Name: "message.timestamp.before.max.ms", Type: Long, Default: never, check: atLeast(0),
			Synonyms: same("log.message.timestamp.before.max.ms", Long),
			Doc:      "How far in milliseconds a producer's timestamp may lie behind the broker's clock. Does not count for LogAppendTime."},
			func(t *Topic, v value) { t.TimestampBeforeMax = v.in(time.Millisecond) }},
		{Definition{Name: "message.timestamp.after.max.ms", Type: Long, Default: "3600000", check: atLeast(0),
			Synonyms: same("log.message.timestamp.after.max.ms", Long),
			Doc:      "How far in milliseconds a producer's timestamp may lie ahead of the broker's clock. Does not count for LogAppendTime."},
			func(t *Topic, v value) { t.TimestampAfterMax = v.in(time.Millisecond) }},
		{Definition{Name: "batch.validation", Type: String, Default: "full", check: oneOf("full", "header"),
			Synonyms: same("log.batch.validation", String),
			Doc: "How far produced batches are checked: full, as Kafka does, walks every record, decompressing if need be; " +
				"header checks length, checksum and header only. A setting of Millrace."},
			func(t *Topic, v value) {
				t.Validation = ValidateFull
				if v.text == "header" {
					t.Validation = ValidateHeader
				}
			}},
	}
}

// compressions are the names of the codecs, at their numbers in a batch's
// attributes.
func compressions() []string { return []string{"uncompressed", "gzip", "snappy", "lz4", "zstd"} }

// same is a synonym that differs in nothing but its name.
func same(name string, t Type) []Synonym { return []Synonym{{Name: name, Type: t}} }

// times are the synonyms of a time in milliseconds, one a unit, as in
// log.retention.ms, log.retention.minutes, log.retention.hours.
func times(name string, units ...string) []Synonym {
	synonyms := make([]Synonym, len(units))
	for i, unit := range units {
		synonyms[i] = Synonym{Name: name + "." + unit, Type: Int, Unit: unit}
		switch unit {
		case "ms":
			synonyms[i].Type = Long
		case "minutes":
			synonyms[i].Scale = minuteMs
		case "hours":
			synonyms[i].Scale = hourMs
		}
	}
	return synonyms
}

// synonymDefinitions are the broker settings behind a setting of a topic. The
// last of them carries the default, as log.retention.hours does in Kafka.
func synonymDefinitions(topic *Definition) []Definition {
	defs := make([]Definition, len(topic.Synonyms))
	for i, syn := range topic.Synonyms {
		d := Definition{
			Name: syn.Name, Scope: OfBroker, Type: syn.Type, check: topic.check,
			Doc: "The " + topic.Name + " of topics that do not set it. " + topic.Doc,
		}
		if syn.Scale != 0 {
			d.check = scaledCheck(topic.check, syn.Scale)
			d.Doc = "The " + topic.Name + " of topics that do not set it, in " + syn.Unit + "."
		}
		if i == len(topic.Synonyms)-1 {
			d.HasDefault, d.Default = true, topic.Default
			if syn.Scale != 0 {
				d.Default = unscaled(topic.Default, syn.Scale)
			}
		}
		defs[i] = d
	}
	return defs
}

// scaledCheck checks the value as the topic's setting will see it.
func scaledCheck(c check, scale int64) check {
	return check{c.valid, func(v value) bool { return c.holds(v.scaled(scale)) }}
}

func unscaled(text string, scale int64) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n%scale != 0 || n == math.MaxInt64 {
		panic("settings: default " + text + " is not whole in the unit of its synonym")
	}
	return strconv.FormatInt(n/scale, 10)
}
