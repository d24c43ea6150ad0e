package batch

import (
	"fmt"

	"github.com/millrace/millrace/broker/internal/ident"
)

// Level says how much of a produced batch is checked (setting
// batch.validation).
type Level int8

const (
	// LevelFull checks the header and decodes every record, as Kafka does.
	LevelFull Level = iota
	// LevelHeader checks checksum and header only, and trusts the client that
	// the records are sound.
	LevelHeader
)

// RawBytesMaxDefault is how many bytes the records of one compressed batch may
// have when decompressed: 1 GiB.
const RawBytesMaxDefault int64 = 1 << 30

// Rules are what a produced batch must keep to. The zero value is the full
// level without restrictions of a topic.
type Rules struct {
	Level Level
	// RequireKeys refuses records without a key, which compaction cannot
	// handle. It needs every record decoded, whatever Level says.
	RequireKeys bool
	// CheckTimestamps refuses records whose time is not NoTimestamp and lies
	// outside [TimestampMin, TimestampMax], in milliseconds. At LevelHeader
	// only the times in the header are looked at.
	CheckTimestamps            bool
	TimestampMin, TimestampMax int64
	// RawBytesMax bounds the decompressed size; 0 means RawBytesMaxDefault.
	RawBytesMax int64
}

// Facts is what a check learned about a batch.
type Facts struct {
	// MaxTimestamp is the highest time of any record in milliseconds, or
	// NoTimestamp: true at LevelFull, the header's claim at LevelHeader.
	MaxTimestamp int64
	// Records is the count of records.
	Records int32
}

// RecordError is a fault of one record. It wraps ErrInvalid or ErrTimestamp.
type RecordError struct {
	// Index counts from 0 within the batch.
	Index int32
	Err   error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("record %d of the batch: %v", e.Index, e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// Check verifies checksum and header of v and, at LevelFull, every record: all
// that Kafka's LogValidator asks of a batch from a producer. Batches that a
// log holds may break these rules (control records, gaps left by compaction);
// for them VerifyCRC is the check. The batch must have been framed by [Next].
// Check changes nothing and keeps nothing.
func (r Rules) Check(v View, c *Codecs) (Facts, error) {
	if err := v.VerifyCRC(); err != nil {
		return Facts{}, err
	}
	if err := checkHeader(v); err != nil {
		return Facts{}, err
	}
	facts := Facts{MaxTimestamp: v.MaxTimestamp(), Records: v.NumRecords()}
	if r.Level == LevelHeader && !r.RequireKeys {
		return facts, r.checkTime(v.MaxTimestamp())
	}
	facts.MaxTimestamp = NoTimestamp
	err := eachRecord(v, c, r.rawBytesMax(), false, func(i int32, rec *rawRecord) (bool, error) {
		if err := r.checkRecord(i, rec); err != nil {
			return false, &RecordError{Index: i, Err: err}
		}
		facts.MaxTimestamp = max(facts.MaxTimestamp, rec.timestamp)
		return true, nil
	})
	return facts, err
}

func (r Rules) rawBytesMax() int64 {
	if r.RawBytesMax == 0 {
		return RawBytesMaxDefault
	}
	return r.RawBytesMax
}

func (r Rules) checkRecord(index int32, rec *rawRecord) error {
	if rec.offsetDelta != index {
		return fmt.Errorf("%w: offset delta is %d instead of %d", ErrInvalid, rec.offsetDelta, index)
	}
	if r.RequireKeys && !rec.hasKey {
		return fmt.Errorf("%w: compacted topic needs a key", ErrInvalid)
	}
	return r.checkTime(rec.timestamp)
}

func (r Rules) checkTime(ms int64) error {
	if !r.CheckTimestamps || ms == NoTimestamp || (r.TimestampMin <= ms && ms <= r.TimestampMax) {
		return nil
	}
	return fmt.Errorf("%w: %d is not within [%d, %d]", ErrTimestamp, ms, r.TimestampMin, r.TimestampMax)
}

// checkHeader holds the header's fields against each other.
func checkHeader(v View) error {
	count, delta := v.NumRecords(), v.LastOffsetDelta()
	switch {
	case v.BaseOffset() != 0:
		return fmt.Errorf("%w: base offset is %d, but producers must send 0", ErrInvalid, v.BaseOffset())
	case count <= 0:
		return fmt.Errorf("%w: batch has %d records", ErrInvalid, count)
	case int64(delta)+1 != int64(count):
		return fmt.Errorf("%w: last offset delta is %d, but the batch has %d records", ErrInvalid, delta, count)
	case v.IsControl():
		return fmt.Errorf("%w: clients may not write control records", ErrInvalid)
	case v.TimestampType() != CreateTime:
		return fmt.Errorf("%w: clients may not set log-append time", ErrTimestamp)
	case v.Codec() > Zstd:
		return fmt.Errorf("%w: %v", ErrCodec, v.Codec())
	case v.HasProducer() && (v.BaseSequence() < 0 || v.ProducerEpoch() < 0):
		return fmt.Errorf("%w: producer %d sent epoch %d and sequence %d", ErrInvalid, v.ProducerID(), v.ProducerEpoch(), v.BaseSequence())
	case v.ProducerID() < ident.NoProducer:
		return fmt.Errorf("%w: producer id is %d", ErrInvalid, v.ProducerID())
	case v.IsTransactional() && !v.HasProducer():
		return fmt.Errorf("%w: transactional batch without a producer", ErrInvalid)
	}
	return nil
}

// Validate is Rules.Check without restrictions of a topic.
func Validate(v View, level Level, c *Codecs) error {
	_, err := Rules{Level: level}.Check(v, c)
	return err
}
