package connector

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/millrace/millrace/sdk/connector/protocol"
)

// Encoder turns the batches of one task and direction into bytes for the wire.
// A schema goes with the first batch that uses it and is only named
// afterwards, so an Encoder's output is for one [Decoder], in order. Hosts and
// Serve use it; authors have no need of it. It is for one goroutine.
type Encoder struct {
	writer *protocol.BatchWriter // made with the first batch
	tables map[*Schema]uint32
}

// NewEncoder returns an encoder for one task and direction.
func NewEncoder() *Encoder {
	return &Encoder{tables: make(map[*Schema]uint32)}
}

// Encode encodes the records of b from index begin on, as many as fit into
// about limitBytes (0 means 1 MiB), and at least one. It returns the bytes,
// which belong to the caller, and the index of the first record left over.
// After an error the encoder is of no more use.
func (e *Encoder) Encode(b *Batch, begin, limitBytes int) (frame []byte, end int, err error) {
	if limitBytes <= 0 {
		limitBytes = defaultBatchBytes
	}
	if e.writer == nil {
		if e.writer, err = protocol.NewBatchWriter(); err != nil {
			return nil, begin, err
		}
	}
	end = begin
	for size := 0; end < b.Len(); end++ {
		r := b.At(end)
		size += r.size()
		if end > begin && size > limitBytes {
			break
		}
		if err := e.append(r); err != nil {
			return nil, begin, fmt.Errorf("encoding record %d of a batch: %w", end, err)
		}
	}
	message, err := e.writer.Finish()
	if err != nil {
		return nil, begin, err
	}
	if frame, err = proto.Marshal(message); err != nil {
		return nil, begin, fmt.Errorf("encoding a batch: %w", err)
	}
	if len(frame) > protocol.MaxMessageBytes-1024 { // leaves room for the message around it
		return nil, begin, fmt.Errorf("encoding a batch: %d bytes are more than a connector may send or be sent at once, %d", len(frame), protocol.MaxMessageBytes)
	}
	return frame, end, nil
}

func (e *Encoder) append(r *Record) error {
	key, err := e.ref(r.Key)
	if err != nil {
		return fmt.Errorf("its key: %w", err)
	}
	value, err := e.ref(r.Value)
	if err != nil {
		return fmt.Errorf("its value: %w", err)
	}
	envelope := protocol.Envelope{
		Topic:           r.Topic,
		Partition:       r.Partition,
		Offset:          r.Offset,
		Operation:       uint8(r.Operation),
		OriginPartition: r.Origin.Partition,
		OriginPosition:  r.Origin.Position,
		Key:             key,
		Value:           value,
	}
	if !r.Timestamp.IsZero() {
		envelope.HasTimestamp, envelope.Timestamp = true, r.Timestamp.UnixMicro()
	}
	for _, h := range r.Headers {
		envelope.Headers = append(envelope.Headers, protocol.Header(h))
	}
	return e.writer.Append(&envelope)
}

func (e *Encoder) ref(v Value) (protocol.Ref, error) {
	ref := protocol.Ref{Kind: protocol.ValueKind(v.kind), Data: v.data}
	if v.kind != KindRow {
		return ref, nil
	}
	schema := v.row.schema
	if schema == nil {
		return ref, fmt.Errorf("it is a row without a schema")
	}
	table, ok := e.tables[schema]
	if !ok {
		var err error
		if table, err = e.writer.AddTable(tableOf(schema)); err != nil {
			return ref, err
		}
		e.tables[schema] = table
	}
	ref.Table = table
	ref.Row = appendRow(e.writer.Table(table), v.row)
	return ref, nil
}

func tableOf(s *Schema) *protocol.Schema {
	t := &protocol.Schema{Name: validText(s.name)}
	for _, c := range s.columns {
		t.Columns = append(t.Columns, &protocol.Column{
			Name: c.Name, Type: protocol.Column_Type(c.Type), Required: c.Required, Key: c.Key,
			Precision: int32(c.Precision), Scale: int32(c.Scale), Native: validText(c.Native),
		})
	}
	return t
}

func appendRow(t *protocol.TableWriter, row Row) uint32 {
	for i, c := range row.cells {
		switch {
		case c.IsUnset():
			t.AppendUnset(i)
		case c.IsNull():
			t.AppendNull(i)
		case c.typ == Int64:
			t.AppendInt64(i, c.Int())
		case c.typ == Float64:
			t.AppendFloat64(i, c.Float())
		case c.typ == BoolType:
			t.AppendBool(i, c.Bool())
		case c.typ == TimestampType:
			t.AppendTimestamp(i, int64(c.Timestamp()))
		default:
			t.AppendText(i, c.data)
		}
	}
	return t.EndRow()
}

// Decoder turns the bytes of one [Encoder] back into batches. Hosts and Serve
// use it. It is for one goroutine.
type Decoder struct {
	reader  *protocol.BatchReader // made with the first batch
	schemas []*Schema
}

// NewDecoder returns a decoder for one task and direction.
func NewDecoder() *Decoder { return &Decoder{} }

// Decode appends the records in frame to into. They do not refer to frame. An
// error means that frame is malformed, and that neither into nor the decoder
// is of any more use.
func (d *Decoder) Decode(frame []byte, into *Batch) error {
	var message protocol.Batch
	if err := proto.Unmarshal(frame, &message); err != nil {
		return fmt.Errorf("decoding a batch: %w", err)
	}
	if d.reader == nil {
		var err error
		if d.reader, err = protocol.NewBatchReader(); err != nil {
			return err
		}
	}
	return d.reader.Read(&message, func(e *protocol.Envelope) error {
		r, err := d.record(e)
		if err != nil {
			return fmt.Errorf("decoding record %d of a batch: %w", into.Len(), err)
		}
		into.Append(r)
		return nil
	})
}

func (d *Decoder) record(e *protocol.Envelope) (Record, error) {
	key, err := d.value(e.Key)
	if err != nil {
		return Record{}, fmt.Errorf("its key: %w", err)
	}
	value, err := d.value(e.Value)
	if err != nil {
		return Record{}, fmt.Errorf("its value: %w", err)
	}
	r := Record{
		Topic:     e.Topic,
		Partition: e.Partition,
		Offset:    e.Offset,
		Key:       key,
		Value:     value,
		Operation: Operation(e.Operation),
		Origin:    Origin{Partition: e.OriginPartition, Position: e.OriginPosition},
	}
	if e.HasTimestamp {
		r.Timestamp = time.UnixMicro(e.Timestamp).UTC()
	}
	for _, h := range e.Headers {
		r.Headers = append(r.Headers, Header(h))
	}
	return r, nil
}

func (d *Decoder) value(ref protocol.Ref) (Value, error) {
	if ref.Kind != protocol.ValueRow {
		return Value{kind: Kind(ref.Kind), data: ref.Data}, nil
	}
	schema, err := d.schema(ref.Table)
	if err != nil {
		return Value{}, err
	}
	row, err := readRow(schema, d.reader.Table(ref.Table), int(ref.Row))
	if err != nil {
		return Value{}, err
	}
	return RowValue(row), nil
}

func (d *Decoder) schema(table uint32) (*Schema, error) {
	for int(table) >= len(d.schemas) {
		d.schemas = append(d.schemas, nil)
	}
	if s := d.schemas[table]; s != nil {
		return s, nil
	}
	wire := d.reader.Table(table).Schema()
	columns := make([]Column, len(wire.GetColumns()))
	for i, c := range wire.GetColumns() {
		columns[i] = Column{
			Name: c.GetName(), Type: Type(c.GetType()), Required: c.GetRequired(), Key: c.GetKey(),
			Precision: int(c.GetPrecision()), Scale: int(c.GetScale()), Native: c.GetNative(),
		}
	}
	s, err := NewSchema(wire.GetName(), columns...)
	if err != nil {
		return nil, err
	}
	d.schemas[table] = s
	return s, nil
}

func readRow(s *Schema, t *protocol.TableReader, row int) (Row, error) {
	cells := make([]Cell, len(s.columns))
	for i, c := range s.columns {
		switch {
		case t.IsUnset(i, row):
			cells[i] = Unset
		case t.IsNull(i, row):
			cells[i] = Null
		case c.Type == Int64:
			cells[i] = Int(t.Int64(i, row))
		case c.Type == Float64:
			cells[i] = Float(t.Float64(i, row))
		case c.Type == BoolType:
			cells[i] = Bool(t.Bool(i, row))
		case c.Type == TimestampType:
			cells[i] = Timestamp(Micros(t.Timestamp(i, row)))
		case c.Type == DecimalType:
			d, err := ParseDecimal(t.Text(i, row))
			if err != nil {
				return Row{}, fmt.Errorf("column %q: %w", c.Name, err)
			}
			cells[i] = Dec(d)
		default:
			cells[i] = Cell{state: cellValue, typ: c.Type, data: t.Text(i, row)}
		}
	}
	return Row{schema: s, cells: cells}, nil
}
