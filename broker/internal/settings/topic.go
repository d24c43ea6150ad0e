package settings

import "time"

// Cleanup says what is done with old records (cleanup.policy). Both may be set.
type Cleanup struct {
	Delete  bool // segments beyond the retention are deleted
	Compact bool // the last record of each key is kept
}

// Validation says how far a produced batch is checked (batch.validation).
type Validation int8

// The levels of validation.
const (
	// ValidateFull walks every record, through the decompressor if need be.
	ValidateFull Validation = iota + 1
	// ValidateHeader checks the header and the checksum only.
	ValidateHeader
)

// TimestampType says whose clock dates a record (message.timestamp.type).
type TimestampType int8

// The kinds of timestamps, with the numbers of the batch's attribute bit.
const (
	CreateTime    TimestampType = 0 // the producer's clock
	LogAppendTime TimestampType = 1 // the broker's clock
)

// Compression says how batches are stored (compression.type).
type Compression int8

// AsProduced leaves batches as their producer compressed them. All other values
// are numbers of codecs, as in a batch's attributes; 0 is none.
const AsProduced Compression = -1

// Topic holds the settings of one topic, each with a value. It is a plain
// value: copy it freely.
type Topic struct {
	// Cleanup is what is done with old records.
	Cleanup Cleanup
	// Retention is the age at which a segment is deleted; negative: never.
	Retention time.Duration
	// RetentionBytes is the size of a partition beyond which its oldest
	// segments are deleted; negative: no limit.
	RetentionBytes int64
	// SegmentBytes is the size at which a segment is rolled.
	SegmentBytes int32
	// SegmentAge is the age at which a segment is rolled.
	SegmentAge time.Duration
	// SegmentJitter is the longest time that is taken at random from
	// SegmentAge, so that partitions do not all roll at once; 0: none.
	SegmentJitter time.Duration
	// SegmentIndexBytes is the largest size of an index file.
	SegmentIndexBytes int32
	// IndexIntervalBytes is how many bytes of batches lie between two entries
	// of an index.
	IndexIntervalBytes int32
	// FlushMessages is the number of records after which the log is synced;
	// 1: after every append, before it is acknowledged.
	FlushMessages int64
	// FlushEvery is the time after which appended records are synced.
	FlushEvery time.Duration
	// Preallocate has the space of new segments set aside.
	Preallocate bool
	// MaxMessageBytes is the largest batch that may be produced.
	MaxMessageBytes int32
	// MinInsyncReplicas is the number of in-sync replicas without which a
	// write with acks=all is refused.
	MinInsyncReplicas int32
	// Compression is how batches are stored.
	Compression Compression
	// TimestampType says whose clock dates the records.
	TimestampType TimestampType
	// TimestampBeforeMax is how far a producer's timestamp may lie behind the
	// broker's clock.
	TimestampBeforeMax time.Duration
	// TimestampAfterMax is how far a producer's timestamp may lie ahead of
	// the broker's clock.
	TimestampAfterMax time.Duration
	// Validation is how far produced batches are checked.
	Validation Validation
}
