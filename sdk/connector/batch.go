package connector

import "iter"

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

// size estimates what the record takes on the wire, in bytes: its texts and
// bytes, and fixed sums for the rest.
func (r *Record) size() int {
	const envelope = 40
	n := envelope + len(r.Topic) + len(r.Origin.Partition) + len(r.Origin.Position)
	n += r.Key.size() + r.Value.size()
	for _, h := range r.Headers {
		n += 8 + len(h.Name) + len(h.Value)
	}
	return n
}

func (v Value) size() int {
	const cell = 8
	n := len(v.data) + cell*len(v.row.cells)
	for _, c := range v.row.cells {
		n += len(c.data)
	}
	return n
}
