package partition

import (
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/storage"
)

// Config says what a partition is and what it works with. Fields are required
// unless they say otherwise.
type Config struct {
	// Partition names it, and TopicID is the id of its topic.
	Partition ident.TopicPartition
	TopicID   ident.TopicID
	// Self is this broker.
	Self ident.BrokerID
	// FS holds the folder Dir of the log.
	FS  disk.FS
	Dir string
	// Codecs are the broker's compressors.
	Codecs *batch.Codecs
	// Settings are the topic's; zero fields take defaults.
	Settings Settings
	// Start, RecoveryPoint and HighWatermark are as last checkpointed, 0 when
	// never; Clean says that the partition was closed by [Partition.Close].
	Start, RecoveryPoint, HighWatermark ident.Offset
	Clean                               bool
	// Syncers flush the log. They outlive the partition.
	Syncers *Syncers
	// Now is the clock.
	Now func() time.Time
	// Jitter is that of [storage.Config]; nil means none.
	Jitter func(max time.Duration) time.Duration
	// Logger is told what no caller is; nil discards.
	Logger *slog.Logger
	// Hooks tell the owner of what it must write down; all may be nil.
	Hooks Hooks
}

// Hooks are called by a partition. They may call its Checkpoint, and nothing
// else of it but where they say so.
type Hooks struct {
	// Rolled is called after a new segment was begun: the checkpoint is worth
	// writing down. It must not block.
	Rolled func()
	// LowerRecoveryPoint is called before records that were durable are cut
	// off. It returns when the checkpoint, whose recovery point is lower now,
	// has been written down durably.
	LowerRecoveryPoint func() error
	// StartAdvanced is called by DeleteRecords. It returns when the
	// checkpoint, whose start is higher now, has been written down durably.
	StartAdvanced func() error
	// Failed is called when the disk failed and the partition went off line.
	// It must not block; what it starts may call [Partition.Reopen].
	Failed func(p *Partition, cause error)
}

// Settings are those of a topic that its partitions obey.
type Settings struct {
	// Log are the settings that the log obeys.
	Log storage.Settings
	// BatchBytesMax is the largest size of a batch (max.message.bytes).
	// 0 means 1048588, Kafka's default.
	BatchBytesMax int
	// TimestampType is message.timestamp.type.
	TimestampType batch.TimestampType
	// TimestampBeforeMax and TimestampAfterMax bound how far a record's time
	// may lie before and after the broker's clock
	// (message.timestamp.before.max.ms, message.timestamp.after.max.ms).
	// 0 and the longest duration mean no bound; 1 ns stands for a bound of 0.
	TimestampBeforeMax, TimestampAfterMax time.Duration
	// Recompress has batches compressed by Codec whatever the producer chose
	// (compression.type other than producer).
	Recompress bool
	Codec      batch.Codec
	// Compact says that cleanup.policy has compact, so that records need keys.
	Compact bool
	// Validation is how far produced batches are checked (batch.validation).
	Validation batch.Level
	// FlushRecords is after how many records the log is flushed
	// (flush.messages). 0 and 1 mean that every record is flushed before it is
	// acknowledged or becomes visible. With any other value acknowledgements
	// do not wait for the disk, as in Kafka.
	FlushRecords int64
	// FlushAge is how long a record may remain unflushed (flush.ms).
	// 0 means no such limit.
	FlushAge time.Duration
	// InSyncMin is how many replicas must be in sync for acks=all
	// (min.insync.replicas). 0 means 1.
	InSyncMin int
	// ProducerExpiry is how long an idle producer is remembered
	// (producer.id.expiration.ms). 0 means 24 h.
	ProducerExpiry time.Duration
}

const (
	batchBytesMaxDefault  = 1048588
	producerExpiryDefault = 24 * time.Hour
)

func (s Settings) withDefaults() Settings {
	if s.BatchBytesMax <= 0 {
		s.BatchBytesMax = batchBytesMaxDefault
	}
	if s.FlushRecords <= 0 {
		s.FlushRecords = 1
	}
	if s.InSyncMin <= 0 {
		s.InSyncMin = 1
	}
	if s.ProducerExpiry <= 0 {
		s.ProducerExpiry = producerExpiryDefault
	}
	return s
}

// durable reports whether acknowledgement and visibility wait for the disk.
func (s Settings) durable() bool { return s.FlushRecords == 1 }

// rules returns what a batch from a client must keep to at time now.
func (s Settings) rules(now time.Time) batch.Rules {
	r := batch.Rules{Level: s.Validation, RequireKeys: s.Compact}
	if s.TimestampType == batch.LogAppendTime {
		return r
	}
	r.TimestampMin, r.TimestampMax = math.MinInt64, math.MaxInt64
	if bounds(s.TimestampBeforeMax) {
		r.CheckTimestamps, r.TimestampMin = true, now.Add(-s.TimestampBeforeMax).UnixMilli()
	}
	if bounds(s.TimestampAfterMax) {
		r.CheckTimestamps, r.TimestampMax = true, now.Add(s.TimestampAfterMax).UnixMilli()
	}
	return r
}

// bounds reports whether d is a bound: the longest duration stands for ever.
func bounds(d time.Duration) bool { return d > 0 && d < math.MaxInt64 }

func (c *Config) validate() error {
	switch {
	case c.Partition.Topic == "":
		return errors.New("partition: Config.Partition has no topic")
	case c.FS == nil:
		return errors.New("partition: Config.FS is missing")
	case c.Dir == "":
		return errors.New("partition: Config.Dir is empty")
	case c.Codecs == nil:
		return errors.New("partition: Config.Codecs is missing")
	case c.Syncers == nil:
		return errors.New("partition: Config.Syncers is missing")
	case c.Now == nil:
		return errors.New("partition: Config.Now is missing")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Settings = c.Settings.withDefaults()
	return nil
}
