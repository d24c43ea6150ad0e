package protocol

import "github.com/apache/arrow/go/v15/arrow"

// Envelope is one row of the envelope table.
type Envelope struct {
	Topic           string
	Partition       int32
	Offset          int64
	Timestamp       int64 // microseconds since 1970 UTC, if HasTimestamp
	HasTimestamp    bool
	Operation       uint8
	OriginPartition string
	OriginPosition  string
	Headers         []Header
	Key, Value      Ref
}

// Header is one header of a record. A nil Value is null.
type Header struct {
	Name  string
	Value []byte
}

// Ref is a key or value: its bytes, or the table and row where it is.
type Ref struct {
	Kind  ValueKind
	Data  []byte // of bytes, text and documents
	Table uint32 // of rows
	Row   uint32 // of rows
}

// Columns of the envelope table, by index. The refs take four each.
const (
	colTopic = iota
	colPartition
	colOffset
	colTimestamp
	colOperation
	colOriginPartition
	colOriginPosition
	colHeaders
	colKey
	colValue = colKey + refColumns

	refColumns      = 4
	envelopeColumns = colValue + refColumns
)

func headerType() *arrow.StructType {
	return arrow.StructOf(
		arrow.Field{Name: "name", Type: arrow.BinaryTypes.Binary},
		arrow.Field{Name: "value", Type: arrow.BinaryTypes.Binary, Nullable: true},
	)
}

func envelopeSchema() *arrow.Schema {
	fields := []arrow.Field{
		{Name: "topic", Type: arrow.BinaryTypes.String},
		{Name: "partition", Type: arrow.PrimitiveTypes.Int32},
		{Name: "offset", Type: arrow.PrimitiveTypes.Int64},
		{Name: "timestamp", Type: arrow.FixedWidthTypes.Timestamp_us, Nullable: true},
		{Name: "operation", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "origin_partition", Type: arrow.BinaryTypes.String},
		{Name: "origin_position", Type: arrow.BinaryTypes.String},
		{Name: "headers", Type: arrow.ListOf(headerType()), Nullable: true},
	}
	for _, of := range []string{"key", "value"} {
		fields = append(fields,
			arrow.Field{Name: of + "_kind", Type: arrow.PrimitiveTypes.Uint8},
			arrow.Field{Name: of + "_data", Type: arrow.BinaryTypes.Binary, Nullable: true},
			arrow.Field{Name: of + "_table", Type: arrow.PrimitiveTypes.Uint32, Nullable: true},
			arrow.Field{Name: of + "_row", Type: arrow.PrimitiveTypes.Uint32, Nullable: true},
		)
	}
	return arrow.NewSchema(fields, nil)
}
