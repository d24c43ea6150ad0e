package connector

import (
	"iter"
	"time"
)

// Record is one message: an envelope and a value.
type Record struct {
	// Topic is where the record comes from, in a sink. In a source it is
	// where it is to go; empty means the topic that the user configured for
	// the connector.
	Topic string

	// Partition of the topic. A source sets it to [AnyPartition] to have it
	// chosen by the key's hash, as [NewRecord] does.
	Partition int32

	// Offset of the record in its partition, in a sink. A source leaves it.
	Offset int64

	// Key decides the partition, and names the row or document that the
	// value is about. The zero Value is a null key.
	Key Value

	// Value is what the record says. The zero Value is null: a tombstone,
	// which asks sinks to delete what Key names.
	Value Value

	// Timestamp is event time, kept to the millisecond in topics. The zero
	// time means that there is none; a source's record then gets the time at
	// which it is produced.
	Timestamp time.Time

	// Headers are in order, and names may repeat.
	Headers []Header

	// Operation is what happened at a change-capture source.
	Operation Operation

	// Origin says where a source found the record, so that the task can
	// resume behind it. It is zero in a sink.
	Origin Origin
}

// AnyPartition leaves the choice of the partition to the key's hash.
const AnyPartition int32 = -1

// NewRecord returns a record of a source, to go to the connector's topic and
// any partition of it.
func NewRecord(origin Origin, key, value Value) Record {
	return Record{Partition: AnyPartition, Offset: -1, Key: key, Value: value, Origin: origin}
}

// Header is a named piece of bytes beside a record's value. A nil Value is a
// null, which is not the same as an empty one.
type Header struct {
	Name  string
	Value []byte
}

// Origin is a place in what a source reads. Both parts are texts of the
// source's own making; JSON is a good choice if there is more than one thing
// to say, as users can see and reset positions.
type Origin struct {
	// Partition names a part of the source that has an order of its own, such
	// as a file or a table. Positions are kept for each.
	Partition string
	// Position is the record's place in that part. Records of a partition
	// must be appended in order. Records may share a position if they can
	// only be read again together; the host then takes it as passed once the
	// last of them in the batch was taken.
	Position string
}

// Operation says what a change-capture source saw happen.
type Operation uint8

const (
	// OperationNone is for sources to which the question does not apply.
	OperationNone Operation = iota
	// OperationSnapshot is a row that was there when reading began.
	OperationSnapshot
	OperationInsert
	OperationUpdate
	OperationDelete
	OperationTruncate
)

// String returns the operation's name in lower case, such as "insert".
func (o Operation) String() string { return operationName(o) }

// Batch is an ordered run of records. A source appends to it, a sink reads
// it. Its records may have values of different schemas.
//
// A Batch must not be copied, and not be used by two goroutines at once.
type Batch struct {
	records []Record
	size    int // estimate of the wire size, in bytes
	limit   int // size at which Full reports true; 0 means defaultBatchBytes
}

// Append adds a record at the end. The batch keeps the record's slices; see
// [Source].Read for how long they must stay as they are.
func (b *Batch) Append(r Record) {
	b.records = append(b.records, r)
	b.size += r.size()
}

// Full reports whether the batch has reached the size at which a source
// should return it: 1 MiB unless the host chose another, or 10,000 records.
// Appending beyond that is allowed, and how a larger record passes.
func (b *Batch) Full() bool { return b.size >= b.byteLimit() || len(b.records) >= maxBatchRecords }

// Len returns the number of records.
func (b *Batch) Len() int { return len(b.records) }

// Size returns about how many bytes the records take on the wire.
func (b *Batch) Size() int { return b.size }

// At returns the record at index i, from 0. It points into the batch.
func (b *Batch) At(i int) *Record { return &b.records[i] }

// Rows iterates over the records in order, each with its index, which is what
// [RecordErrors] are keyed by.
func (b *Batch) Rows() iter.Seq2[int, *Record] {
	return func(yield func(int, *Record) bool) {
		for i := range b.records {
			if !yield(i, &b.records[i]) {
				return
			}
		}
	}
}

// Reset empties the batch, to be filled anew. Hosts and tests call it.
func (b *Batch) Reset() {
	clear(b.records)
	b.records = b.records[:0]
	b.size = 0
}

// SetLimit sets the size in bytes at which Full reports true; 0 means 1 MiB.
// Hosts and tests call it.
func (b *Batch) SetLimit(bytes int) { b.limit = bytes }

const (
	defaultBatchBytes = 1 << 20
	maxBatchRecords   = 10_000
)

func (b *Batch) byteLimit() int {
	if b.limit > 0 {
		return b.limit
	}
	return defaultBatchBytes
}
