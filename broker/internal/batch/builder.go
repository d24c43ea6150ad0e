package batch

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace/millrace/broker/internal/ident"
)

// Builder makes a batch of records. It is not safe for concurrent use. Make
// one with [NewBuilder].
type Builder struct {
	codecs *Codecs
	codec  Codec

	baseOffset    ident.Offset
	leaderEpoch   ident.LeaderEpoch
	producerID    ident.ProducerID
	producerEpoch ident.ProducerEpoch
	baseSequence  int32
	attributes    Attributes // without the codec

	payload []byte // records, not compressed
	count   int32
	baseMs  int64 // of the first record
	maxMs   int64
}

// NewBuilder returns a builder of batches that are compressed with codec. The
// batches have base offset 0, no leader epoch, create time and no producer
// unless set otherwise.
func NewBuilder(codecs *Codecs, codec Codec) *Builder {
	return &Builder{
		codecs:        codecs,
		codec:         codec,
		leaderEpoch:   ident.NoLeaderEpoch,
		producerID:    ident.NoProducer,
		producerEpoch: ident.NoProducerEpoch,
		baseSequence:  NoSequence,
	}
}

// SetBaseOffset sets the offset of the first record.
func (b *Builder) SetBaseOffset(o ident.Offset) { b.baseOffset = o }

// SetLeaderEpoch stamps the batch.
func (b *Builder) SetLeaderEpoch(e ident.LeaderEpoch) { b.leaderEpoch = e }

// SetProducer makes the batch idempotent; firstSequence is that of its first
// record.
func (b *Builder) SetProducer(id ident.ProducerID, epoch ident.ProducerEpoch, firstSequence int32) {
	b.producerID, b.producerEpoch, b.baseSequence = id, epoch, firstSequence
}

// SetTransactional makes the batch part of its producer's transaction.
func (b *Builder) SetTransactional() { b.attributes |= transactionalBit }

// SetControl makes the records markers that consumers skip.
func (b *Builder) SetControl() { b.attributes |= controlBit }

// Append adds a record at the next offset; r.Offset is ignored. Nothing of r
// is kept.
func (b *Builder) Append(r Record) {
	if b.count == 0 {
		b.baseMs, b.maxMs = r.Timestamp, r.Timestamp
	}
	b.maxMs = max(b.maxMs, r.Timestamp)
	timeDelta := r.Timestamp - b.baseMs
	b.payload = binary.AppendVarint(b.payload, int64(bodyLen(r, timeDelta, b.count)))
	b.payload = append(b.payload, 0) // attributes
	b.payload = binary.AppendVarint(b.payload, timeDelta)
	b.payload = binary.AppendVarint(b.payload, int64(b.count))
	b.payload = appendNullable(b.payload, r.Key)
	b.payload = appendNullable(b.payload, r.Value)
	b.payload = binary.AppendVarint(b.payload, int64(len(r.Headers)))
	for _, h := range r.Headers {
		b.payload = binary.AppendVarint(b.payload, int64(len(h.Key)))
		b.payload = append(b.payload, h.Key...)
		b.payload = appendNullable(b.payload, h.Value)
	}
	b.count++
}

func appendNullable(dst, field []byte) []byte {
	if field == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(field)))
	return append(dst, field...)
}

// bodyLen is the size of a record without its length field.
func bodyLen(r Record, timeDelta int64, offsetDelta int32) int {
	n := 1 + varintLen(timeDelta) + varintLen(int64(offsetDelta))
	n += nullableLen(r.Key) + nullableLen(r.Value)
	n += varintLen(int64(len(r.Headers)))
	for _, h := range r.Headers {
		n += varintLen(int64(len(h.Key))) + len(h.Key) + nullableLen(h.Value)
	}
	return n
}

func nullableLen(field []byte) int {
	if field == nil {
		return varintLen(-1)
	}
	return varintLen(int64(len(field))) + len(field)
}

func varintLen(n int64) int {
	size := 1
	for u := uint64(n)<<1 ^ uint64(n>>63); u >= 0x80; u >>= 7 {
		size++
	}
	return size
}

// SizeEstimate returns the size of the batch in bytes if it were not
// compressed.
func (b *Builder) SizeEstimate() int { return HeaderLen + len(b.payload) }

// Build returns the batch. It fails when no record was appended or the codec
// is unknown. The batch is the caller's; the builder may be used on after
// Reset.
func (b *Builder) Build() (View, error) {
	if b.count == 0 {
		return nil, fmt.Errorf("building a batch: it has no records")
	}
	out := make([]byte, HeaderLen, HeaderLen+len(b.payload))
	out, err := b.codecs.Compress(b.codec, out, b.payload)
	if err != nil {
		return nil, fmt.Errorf("building a batch: %w", err)
	}
	v := View(out)
	v.SetBaseOffset(b.baseOffset)
	binary.BigEndian.PutUint32(v[atLength:], uint32(len(v)-PrefixLen))
	v.SetLeaderEpoch(b.leaderEpoch)
	v[atMagic] = Magic
	binary.BigEndian.PutUint16(v[atAttributes:], uint16(b.attributes|Attributes(b.codec)))
	binary.BigEndian.PutUint32(v[atLastDelta:], uint32(b.count-1))
	binary.BigEndian.PutUint64(v[atBaseTimestamp:], uint64(b.baseMs))
	binary.BigEndian.PutUint64(v[atMaxTimestamp:], uint64(b.maxMs))
	binary.BigEndian.PutUint64(v[atProducerID:], uint64(b.producerID))
	binary.BigEndian.PutUint16(v[atProducerEpoch:], uint16(b.producerEpoch))
	binary.BigEndian.PutUint32(v[atBaseSequence:], uint32(b.baseSequence))
	binary.BigEndian.PutUint32(v[atNumRecords:], uint32(b.count))
	v.setCRC()
	return v, nil
}

// Reset removes the records. All that was set remains.
func (b *Builder) Reset() { b.payload, b.count = b.payload[:0], 0 }
