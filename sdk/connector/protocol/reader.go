package protocol

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// BatchReader reads the batches of one task and direction, all of them, in
// their order. It is for one goroutine.
type BatchReader struct {
	envelopes *recordReader
	tables    []*TableReader
}

// NewBatchReader returns a reader for the batches of one [BatchWriter].
func NewBatchReader() (*BatchReader, error) {
	envelopes, err := newRecordReader(envelopeSchema())
	if err != nil {
		return nil, fmt.Errorf("preparing to decode batches: %w", err)
	}
	return &BatchReader{envelopes: envelopes}, nil
}

// Read calls each for every record of the batch, in order; the rows that an
// envelope refers to are at hand by Table during the call. The envelope is
// reused, but the bytes in it are not. A batch that is malformed in any way is
// an error, and the reader is of no more use then.
func (r *BatchReader) Read(b *Batch, each func(*Envelope) error) (err error) {
	defer func() {
		// Arrow trusts offsets and lengths within a record batch, and indexes
		// with them out of range.
		if p := recover(); p != nil {
			err = fmt.Errorf("decoding a batch: malformed: %v", p)
		}
	}()
	rec, err := r.envelopes.read(b.GetEnvelopes())
	if err != nil {
		return fmt.Errorf("decoding the envelopes: %w", err)
	}
	if err := r.readTables(b); err != nil {
		return err
	}
	cols := newEnvelopeColumns(rec)
	var e Envelope
	for i := range int(rec.NumRows()) {
		cols.get(i, &e)
		for _, ref := range []Ref{e.Key, e.Value} {
			if err := r.check(ref); err != nil {
				return fmt.Errorf("decoding record %d: %w", i, err)
			}
		}
		if err := each(&e); err != nil {
			return err
		}
	}
	return nil
}

func (r *BatchReader) readTables(b *Batch) error {
	for _, t := range r.tables {
		t.rec = nil
	}
	for _, table := range b.GetTables() {
		id := int(table.GetId())
		switch {
		case id == len(r.tables) && table.GetSchema() != nil:
			t, err := newTableReader(table.GetSchema())
			if err != nil {
				return fmt.Errorf("decoding table %d: %w", id, err)
			}
			r.tables = append(r.tables, t)
		case id >= len(r.tables):
			return fmt.Errorf("decoding a batch: table %d came without a schema, or before table %d", id, len(r.tables))
		case table.GetSchema() != nil:
			return fmt.Errorf("decoding a batch: table %d came with a schema again", id)
		case r.tables[id].rec != nil:
			return fmt.Errorf("decoding a batch: table %d came twice", id)
		}
		rec, err := r.tables[id].stream.read(table.GetRows())
		if err != nil {
			return fmt.Errorf("decoding table %d: %w", id, err)
		}
		r.tables[id].rec = rec
	}
	return nil
}

func (r *BatchReader) check(ref Ref) error {
	if ref.Kind > ValueDocument {
		return fmt.Errorf("unknown kind of value %d", ref.Kind)
	}
	if ref.Kind != ValueRow {
		return nil
	}
	if int(ref.Table) >= len(r.tables) || r.tables[ref.Table].rec == nil {
		return fmt.Errorf("its row is in table %d, which is not in the batch", ref.Table)
	}
	if int64(ref.Row) >= r.tables[ref.Table].rec.NumRows() {
		return fmt.Errorf("its row is %d of table %d, which has only %d", ref.Row, ref.Table, r.tables[ref.Table].rec.NumRows())
	}
	return nil
}

// Table returns the table of that id, as of the batch that is being read.
func (r *BatchReader) Table(id uint32) *TableReader { return r.tables[id] }

// TableReader gives the cells of one table.
type TableReader struct {
	schema *Schema
	stream *recordReader
	rec    arrow.Record // nil if the table is not in the batch
}

func newTableReader(s *Schema) (*TableReader, error) {
	schema, err := arrowSchema(s)
	if err != nil {
		return nil, err
	}
	stream, err := newRecordReader(schema)
	if err != nil {
		return nil, err
	}
	return &TableReader{schema: s, stream: stream}, nil
}

// Schema returns the table's schema, which never changes.
func (t *TableReader) Schema() *Schema { return t.schema }

// IsUnset reports whether a cell is unset; NULL is something else.
func (t *TableReader) IsUnset(col, row int) bool {
	bits := t.rec.Column(len(t.schema.GetColumns())).(*array.Binary)
	if bits.IsNull(row) {
		return false
	}
	return bits.Value(row)[col/8]&(1<<(col%8)) != 0
}

// IsNull reports whether a cell is NULL or unset.
func (t *TableReader) IsNull(col, row int) bool { return t.rec.Column(col).IsNull(row) }

// Int64 returns a cell of a column of type INT64.
func (t *TableReader) Int64(col, row int) int64 { return t.rec.Column(col).(*array.Int64).Value(row) }

// Float64 returns a cell of a column of type FLOAT64.
func (t *TableReader) Float64(col, row int) float64 {
	return t.rec.Column(col).(*array.Float64).Value(row)
}

// Bool returns a cell of a column of type BOOL.
func (t *TableReader) Bool(col, row int) bool { return t.rec.Column(col).(*array.Boolean).Value(row) }

// Timestamp returns the microseconds in a cell of a column of type TIMESTAMP.
func (t *TableReader) Timestamp(col, row int) int64 {
	return int64(t.rec.Column(col).(*array.Timestamp).Value(row))
}

// Text returns a cell of a column of type TEXT, BYTES, DECIMAL or
// JSON.
func (t *TableReader) Text(col, row int) string {
	switch c := t.rec.Column(col).(type) {
	case *array.String:
		return c.Value(row)
	case *array.Binary:
		return c.ValueString(row)
	}
	panic(fmt.Sprintf("protocol: column %d does not hold text", col))
}

// envelopeColumnSet is the envelope table of one batch, its columns cast.
type envelopeColumnSet struct {
	topic, originPartition, originPosition *array.String
	partition                              *array.Int32
	offset                                 *array.Int64
	timestamp                              *array.Timestamp
	operation                              *array.Uint8
	headers                                *array.List
	headerNames, headerValues              *array.Binary
	key, value                             refColumnSet
}

type refColumnSet struct {
	kind       *array.Uint8
	data       *array.Binary
	table, row *array.Uint32
}

func newEnvelopeColumns(rec arrow.Record) *envelopeColumnSet {
	headers := rec.Column(colHeaders).(*array.List)
	items := headers.ListValues().(*array.Struct)
	refs := func(first int) refColumnSet {
		return refColumnSet{
			kind:  rec.Column(first).(*array.Uint8),
			data:  rec.Column(first + 1).(*array.Binary),
			table: rec.Column(first + 2).(*array.Uint32),
			row:   rec.Column(first + 3).(*array.Uint32),
		}
	}
	return &envelopeColumnSet{
		topic:           rec.Column(colTopic).(*array.String),
		partition:       rec.Column(colPartition).(*array.Int32),
		offset:          rec.Column(colOffset).(*array.Int64),
		timestamp:       rec.Column(colTimestamp).(*array.Timestamp),
		operation:       rec.Column(colOperation).(*array.Uint8),
		originPartition: rec.Column(colOriginPartition).(*array.String),
		originPosition:  rec.Column(colOriginPosition).(*array.String),
		headers:         headers,
		headerNames:     items.Field(0).(*array.Binary),
		headerValues:    items.Field(1).(*array.Binary),
		key:             refs(colKey),
		value:           refs(colValue),
	}
}

func (c *envelopeColumnSet) get(i int, e *Envelope) {
	*e = Envelope{
		Topic:           c.topic.Value(i),
		Partition:       c.partition.Value(i),
		Offset:          c.offset.Value(i),
		Operation:       c.operation.Value(i),
		OriginPartition: c.originPartition.Value(i),
		OriginPosition:  c.originPosition.Value(i),
		Headers:         c.getHeaders(i),
		Key:             c.key.get(i),
		Value:           c.value.get(i),
	}
	if c.timestamp.IsValid(i) {
		e.HasTimestamp, e.Timestamp = true, int64(c.timestamp.Value(i))
	}
}

func (c *envelopeColumnSet) getHeaders(i int) []Header {
	if c.headers.IsNull(i) {
		return nil
	}
	begin, end := c.headers.ValueOffsets(i)
	if begin < 0 || end < begin || end > int64(c.headerNames.Len()) {
		panic("the headers of a record are out of range")
	}
	headers := make([]Header, 0, end-begin)
	for k := int(begin); k < int(end); k++ {
		h := Header{Name: c.headerNames.ValueString(k)}
		if c.headerValues.IsValid(k) {
			h.Value = c.headerValues.Value(k)
			if h.Value == nil {
				h.Value = []byte{} // empty, not null
			}
		}
		headers = append(headers, h)
	}
	return headers
}

func (c refColumnSet) get(i int) Ref {
	ref := Ref{Kind: ValueKind(c.kind.Value(i))}
	switch ref.Kind {
	case ValueBytes, ValueText, ValueDocument:
		ref.Data = c.data.Value(i)
	case ValueRow:
		ref.Table, ref.Row = c.table.Value(i), c.row.Value(i)
	}
	return ref
}
