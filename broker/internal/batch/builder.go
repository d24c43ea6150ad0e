package batch

import "github.com/millrace/millrace/broker/internal/ident"

// Builder makes a batch of records. It is not safe for concurrent use. The
// zero value is not usable: call [NewBuilder].
type Builder struct {
	codecs *Codecs
	codec  Codec
}

// NewBuilder returns a builder of batches that are compressed with codec. The
// batches have base offset 0, no leader epoch, create time and no producer
// unless set otherwise.
func NewBuilder(codecs *Codecs, codec Codec) *Builder { return &Builder{codecs: codecs, codec: codec} }

// SetBaseOffset sets the offset of the first record.
func (b *Builder) SetBaseOffset(o ident.Offset) { panic("being written") }

// SetLeaderEpoch stamps the batch.
func (b *Builder) SetLeaderEpoch(e ident.LeaderEpoch) { panic("being written") }

// SetProducer makes the batch idempotent; firstSequence is that of its first
// record.
func (b *Builder) SetProducer(id ident.ProducerID, epoch ident.ProducerEpoch, firstSequence int32) {
	panic("being written")
}

// SetTransactional makes the batch part of its producer's transaction.
func (b *Builder) SetTransactional() { panic("being written") }

// SetControl makes the records markers that consumers skip.
func (b *Builder) SetControl() { panic("being written") }

// SetLogAppendTime gives all records the time ms, whatever theirs are.
func (b *Builder) SetLogAppendTime(ms int64) { panic("being written") }

// Append adds a record at the next offset; r.Offset is ignored. Nothing of r
// is kept.
func (b *Builder) Append(r Record) { panic("being written") }

// NumRecords returns the count of records appended.
func (b *Builder) NumRecords() int { panic("being written") }

// SizeEstimate returns the size of the batch in bytes if it were not
// compressed.
func (b *Builder) SizeEstimate() int { panic("being written") }

// Build returns the batch. It fails when no record was appended or the codec
// is unknown. The batch is the caller's; the builder may be used on after
// Reset.
func (b *Builder) Build() (View, error) { panic("being written") }

// Reset removes the records. All that was set remains.
func (b *Builder) Reset() { panic("being written") }
