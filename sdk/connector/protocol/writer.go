package protocol

import (
	"fmt"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// BatchWriter makes the batches of one task and direction. For each record,
// first append its rows to the tables, then its envelope; Finish then returns
// the batch. It is for one goroutine.
type BatchWriter struct {
	envelopes *array.RecordBuilder
	stream    *recordWriter // of envelopes
	tables    []*TableWriter
}

// NewBatchWriter returns a writer whose first batch will carry the schemas.
func NewBatchWriter() (*BatchWriter, error) {
	schema := envelopeSchema()
	stream, err := newRecordWriter(schema)
	if err != nil {
		return nil, fmt.Errorf("preparing to encode batches: %w", err)
	}
	return &BatchWriter{envelopes: array.NewRecordBuilder(memory.NewGoAllocator(), schema), stream: stream}, nil
}

// AddTable begins a table and returns the id that names it from then on. The
// writer keeps s.
func (w *BatchWriter) AddTable(s *Schema) (id uint32, err error) {
	schema, err := arrowSchema(s)
	if err != nil {
		return 0, fmt.Errorf("encoding rows: %w", err)
	}
	stream, err := newRecordWriter(schema)
	if err != nil {
		return 0, fmt.Errorf("preparing to encode rows: %w", err)
	}
	w.tables = append(w.tables, &TableWriter{
		schema: s,
		stream: stream,
		rows:   array.NewRecordBuilder(memory.NewGoAllocator(), schema),
		unset:  make([]byte, (len(s.GetColumns())+7)/8),
	})
	return uint32(len(w.tables) - 1), nil
}

// Table returns a table that AddTable began.
func (w *BatchWriter) Table(id uint32) *TableWriter { return w.tables[id] }

// Append adds the envelope of the next record. It copies what it is given.
func (w *BatchWriter) Append(e *Envelope) error {
	if !utf8.ValidString(e.Topic) || !utf8.ValidString(e.OriginPartition) || !utf8.ValidString(e.OriginPosition) {
		return fmt.Errorf("encoding a record of %q at %q: topic and origin must be UTF-8", e.OriginPartition, e.OriginPosition)
	}
	cols := w.envelopes
	cols.Field(colTopic).(*array.StringBuilder).Append(e.Topic)
	cols.Field(colPartition).(*array.Int32Builder).Append(e.Partition)
	cols.Field(colOffset).(*array.Int64Builder).Append(e.Offset)
	times := cols.Field(colTimestamp).(*array.TimestampBuilder)
	if e.HasTimestamp {
		times.Append(arrow.Timestamp(e.Timestamp))
	} else {
		times.AppendNull()
	}
	cols.Field(colOperation).(*array.Uint8Builder).Append(e.Operation)
	cols.Field(colOriginPartition).(*array.StringBuilder).Append(e.OriginPartition)
	cols.Field(colOriginPosition).(*array.StringBuilder).Append(e.OriginPosition)
	appendHeaders(cols.Field(colHeaders).(*array.ListBuilder), e.Headers)
	appendRef(cols, colKey, e.Key)
	appendRef(cols, colValue, e.Value)
	return nil
}

func appendHeaders(list *array.ListBuilder, headers []Header) {
	if len(headers) == 0 {
		list.AppendNull()
		return
	}
	list.Append(true)
	items := list.ValueBuilder().(*array.StructBuilder)
	for _, h := range headers {
		items.Append(true)
		items.FieldBuilder(0).(*array.BinaryBuilder).Append([]byte(h.Name))
		value := items.FieldBuilder(1).(*array.BinaryBuilder)
		if h.Value == nil {
			value.AppendNull()
		} else {
			value.Append(h.Value)
		}
	}
}

func appendRef(cols *array.RecordBuilder, first int, r Ref) {
	cols.Field(first).(*array.Uint8Builder).Append(uint8(r.Kind))
	data := cols.Field(first + 1).(*array.BinaryBuilder)
	table := cols.Field(first + 2).(*array.Uint32Builder)
	row := cols.Field(first + 3).(*array.Uint32Builder)
	switch r.Kind {
	case ValueBytes, ValueText, ValueDocument:
		data.Append(r.Data)
		table.AppendNull()
		row.AppendNull()
	case ValueRow:
		data.AppendNull()
		table.Append(r.Table)
		row.Append(r.Row)
	default:
		data.AppendNull()
		table.AppendNull()
		row.AppendNull()
	}
}

// Finish returns the batch of all records appended since the last call.
func (w *BatchWriter) Finish() (*Batch, error) {
	envelopes, err := w.stream.write(w.envelopes.NewRecord())
	if err != nil {
		return nil, fmt.Errorf("encoding the envelopes: %w", err)
	}
	batch := &Batch{Envelopes: envelopes}
	for id, t := range w.tables {
		if t.length == 0 {
			continue
		}
		rows, err := t.stream.write(t.rows.NewRecord())
		if err != nil {
			return nil, fmt.Errorf("encoding table %d: %w", id, err)
		}
		batch.Tables = append(batch.Tables, &Table{Id: uint32(id), Schema: t.schema, Rows: rows})
		t.schema, t.length = nil, 0
	}
	return batch, nil
}

// TableWriter takes the rows of one table. For each row, append one cell to
// each column, then call EndRow.
type TableWriter struct {
	schema *Schema // until it has been sent
	stream *recordWriter
	rows   *array.RecordBuilder
	length uint32

	unset    []byte // bits of the row that is being appended
	hasUnset bool
}

// AppendNull appends a NULL to column col.
func (t *TableWriter) AppendNull(col int) { t.rows.Field(col).AppendNull() }

// AppendUnset appends an unset cell to column col.
func (t *TableWriter) AppendUnset(col int) {
	t.rows.Field(col).AppendNull()
	t.unset[col/8] |= 1 << (col % 8)
	t.hasUnset = true
}

// AppendInt64 appends to a column of type INT64.
func (t *TableWriter) AppendInt64(col int, v int64) {
	t.rows.Field(col).(*array.Int64Builder).Append(v)
}

// AppendFloat64 appends to a column of type FLOAT64.
func (t *TableWriter) AppendFloat64(col int, v float64) {
	t.rows.Field(col).(*array.Float64Builder).Append(v)
}

// AppendBool appends to a column of type BOOL.
func (t *TableWriter) AppendBool(col int, v bool) {
	t.rows.Field(col).(*array.BooleanBuilder).Append(v)
}

// AppendTimestamp appends microseconds to a column of type TIMESTAMP.
func (t *TableWriter) AppendTimestamp(col int, v int64) {
	t.rows.Field(col).(*array.TimestampBuilder).Append(arrow.Timestamp(v))
}

// AppendText appends to a column of type TEXT, BYTES, DECIMAL or
// JSON.
func (t *TableWriter) AppendText(col int, v string) {
	switch b := t.rows.Field(col).(type) {
	case *array.StringBuilder:
		b.Append(v)
	case *array.BinaryBuilder:
		b.AppendString(v)
	default:
		panic(fmt.Sprintf("protocol: column %d does not hold text", col))
	}
}

// EndRow ends a row and returns its number in the batch.
func (t *TableWriter) EndRow() uint32 {
	unset := t.rows.Field(len(t.rows.Fields()) - 1).(*array.BinaryBuilder)
	if t.hasUnset {
		unset.Append(t.unset)
		clear(t.unset)
		t.hasUnset = false
	} else {
		unset.AppendNull()
	}
	t.length++
	return t.length - 1
}
