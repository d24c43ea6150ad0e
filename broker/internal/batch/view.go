package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/millrace/millrace/broker/internal/ident"
)

const (
	// PrefixLen is the size of base offset and length, which suffice to find
	// the end of a batch.
	PrefixLen = 12
	// HeaderLen is the size of everything before the first record.
	HeaderLen = 61
	// Magic is the only format version that is served.
	Magic = 2
)

// Where the fields lie (docs/format/record-batch.md).
const (
	atBaseOffset    = 0
	atLength        = 8
	atLeaderEpoch   = 12
	atMagic         = 16
	atCRC           = 17
	atAttributes    = 21
	atLastDelta     = 23
	atBaseTimestamp = 27
	atMaxTimestamp  = 35
	atProducerID    = 43
	atProducerEpoch = 51
	atBaseSequence  = 53
	atNumRecords    = 57
)

// Attributes are the flags of a batch.
type Attributes uint16

const (
	codecMask        Attributes = 0x07
	logAppendTimeBit Attributes = 0x08
	transactionalBit Attributes = 0x10
	controlBit       Attributes = 0x20
	deleteHorizonBit Attributes = 0x40
)

// TimestampType says whose clock the timestamps of a batch come from.
type TimestampType int8

const (
	// CreateTime means that the producer set each record's time.
	CreateTime TimestampType = 0
	// LogAppendTime means that all records have the time at which the leader
	// appended the batch, which the header holds as the maximum.
	LogAppendTime TimestampType = 1
)

// String returns the name that message.timestamp.type uses.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// NoTimestamp marks the absence of a timestamp.
const NoTimestamp int64 = -1

// NoSequence is the base sequence of batches without idempotence.
const NoSequence int32 = -1

// View is one record batch in place: exactly its bytes, header included. Its
// accessors need at least HeaderLen bytes, as every View from [Next] has.
type View []byte

// SizeOf returns the size in bytes of the batch that begins with prefix,
// header included. It needs the first PrefixLen bytes, else ErrShort; a
// length that no batch can have is ErrCorrupt. The size is what the bytes
// claim: the caller bounds it before it allocates.
func SizeOf(prefix []byte) (int, error) {
	if len(prefix) < PrefixLen {
		return 0, ErrShort
	}
	length := int32(binary.BigEndian.Uint32(prefix[atLength:]))
	if length < HeaderLen-PrefixLen {
		return 0, fmt.Errorf("%w: length %d is below the minimum of %d", ErrCorrupt, length, HeaderLen-PrefixLen)
	}
	return PrefixLen + int(length), nil
}

// Next frames the first batch of b and returns it with what follows it. Both
// alias b. It is ErrShort when b holds less than a whole batch, ErrMagic when
// the batch has another format version, ErrCorrupt when its length is
// impossible. The checksum is not looked at.
func Next(b []byte) (v View, rest []byte, err error) {
	// Format versions 0 and 1 have the magic byte at the same place but
	// smaller minimum lengths, so it is looked at before the length.
	if len(b) > atMagic && b[atMagic] != Magic {
		return nil, b, fmt.Errorf("%w: magic is %d", ErrMagic, int8(b[atMagic]))
	}
	size, err := SizeOf(b)
	if err != nil {
		return nil, b, err
	}
	if len(b) < size {
		return nil, b, ErrShort
	}
	return View(b[:size:size]), b[size:], nil
}

// Size returns the size in bytes, header included.
func (v View) Size() int { return len(v) }

// BaseOffset returns the offset of the first record that the batch was
// written with; compaction may have removed that record.
func (v View) BaseOffset() ident.Offset {
	return ident.Offset(binary.BigEndian.Uint64(v[atBaseOffset:]))
}

// SetBaseOffset moves the batch. It lies outside the checksum.
func (v View) SetBaseOffset(o ident.Offset) {
	binary.BigEndian.PutUint64(v[atBaseOffset:], uint64(o))
}

// LeaderEpoch returns the epoch of the leader that appended the batch.
func (v View) LeaderEpoch() ident.LeaderEpoch {
	return ident.LeaderEpoch(binary.BigEndian.Uint32(v[atLeaderEpoch:]))
}

// SetLeaderEpoch stamps the batch. It lies outside the checksum.
func (v View) SetLeaderEpoch(e ident.LeaderEpoch) {
	binary.BigEndian.PutUint32(v[atLeaderEpoch:], uint32(e))
}

// Magic returns the format version.
func (v View) Magic() int8 { return int8(v[atMagic]) }

// CRC returns the checksum that the header holds.
func (v View) CRC() uint32 { return binary.BigEndian.Uint32(v[atCRC:]) }

// Attributes returns the flags.
func (v View) Attributes() Attributes {
	return Attributes(binary.BigEndian.Uint16(v[atAttributes:]))
}

// Codec returns how the records are compressed.
func (v View) Codec() Codec { return Codec(v.Attributes() & codecMask) }

// TimestampType says whose clock the timestamps come from.
func (v View) TimestampType() TimestampType {
	if v.Attributes()&logAppendTimeBit != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// IsTransactional reports whether the batch belongs to a transaction.
func (v View) IsTransactional() bool { return v.Attributes()&transactionalBit != 0 }

// IsControl reports whether the records are markers of the broker, which
// consumers skip.
func (v View) IsControl() bool { return v.Attributes()&controlBit != 0 }

// DeleteHorizon returns the time in milliseconds after which compaction may
// drop the batch's tombstones; ok is false when none was set yet (KIP-534).
// Such a batch keeps the horizon where others have the base timestamp.
func (v View) DeleteHorizon() (ms int64, ok bool) {
	if v.Attributes()&deleteHorizonBit == 0 {
		return NoTimestamp, false
	}
	return v.BaseTimestamp(), true
}

// LastOffsetDelta returns the distance from the first to the last offset that
// the batch was written with.
func (v View) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(v[atLastDelta:]))
}

// LastOffset returns the last offset that the batch covers.
func (v View) LastOffset() ident.Offset {
	return v.BaseOffset() + ident.Offset(v.LastOffsetDelta())
}

// NextOffset returns the offset after the batch.
func (v View) NextOffset() ident.Offset { return v.LastOffset() + 1 }

// BaseTimestamp returns the time in milliseconds that records count from.
func (v View) BaseTimestamp() int64 {
	return int64(binary.BigEndian.Uint64(v[atBaseTimestamp:]))
}

// MaxTimestamp returns the highest time in milliseconds as the header has it.
// A producer may have written anything there: lookups by time decode the
// batch.
func (v View) MaxTimestamp() int64 {
	return int64(binary.BigEndian.Uint64(v[atMaxTimestamp:]))
}

// ProducerID returns the idempotent producer's id, or [ident.NoProducer].
func (v View) ProducerID() ident.ProducerID {
	return ident.ProducerID(binary.BigEndian.Uint64(v[atProducerID:]))
}

// ProducerEpoch returns the idempotent producer's epoch.
func (v View) ProducerEpoch() ident.ProducerEpoch {
	return ident.ProducerEpoch(binary.BigEndian.Uint16(v[atProducerEpoch:]))
}

// HasProducer reports whether an idempotent producer wrote the batch.
func (v View) HasProducer() bool { return v.ProducerID() > ident.NoProducer }

// BaseSequence returns the sequence number of the first record, or
// [NoSequence].
func (v View) BaseSequence() int32 {
	return int32(binary.BigEndian.Uint32(v[atBaseSequence:]))
}

// LastSequence returns the sequence number of the last record. Sequences
// continue at 0 after the largest int32.
func (v View) LastSequence() int32 {
	base := v.BaseSequence()
	if base == NoSequence {
		return NoSequence
	}
	return int32((int64(base) + int64(v.LastOffsetDelta())) & 0x7fffffff)
}

// NumRecords returns the count of records that the header claims.
func (v View) NumRecords() int32 {
	return int32(binary.BigEndian.Uint32(v[atNumRecords:]))
}

// payload returns the records as stored, compressed or not.
func (v View) payload() []byte { return v[HeaderLen:] }

// VerifyCRC compares the checksum with the bytes that it covers: all from the
// attributes to the end. It is ErrCorrupt when they differ.
func (v View) VerifyCRC() error {
	if want, got := v.CRC(), v.computeCRC(); want != got {
		return fmt.Errorf("%w: checksum is %08x, but the bytes sum to %08x", ErrCorrupt, want, got)
	}
	return nil
}

// computeCRC sums with CRC-32C. MakeTable returns the library's own table for
// that polynomial, so asking each time costs nothing.
func (v View) computeCRC() uint32 {
	return crc32.Checksum(v[atAttributes:], crc32.MakeTable(crc32.Castagnoli))
}

// SetMaxTimestamp sets whose clock the times come from and the highest of
// them in milliseconds, and computes the checksum anew.
func (v View) SetMaxTimestamp(t TimestampType, maxMs int64) {
	a := v.Attributes() &^ logAppendTimeBit
	if t == LogAppendTime {
		a |= logAppendTimeBit
	}
	binary.BigEndian.PutUint16(v[atAttributes:], uint16(a))
	binary.BigEndian.PutUint64(v[atMaxTimestamp:], uint64(maxMs))
	v.setCRC()
}

func (v View) setCRC() { binary.BigEndian.PutUint32(v[atCRC:], v.computeCRC()) }
