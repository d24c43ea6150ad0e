package protocol

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
)

// ValueKind says which form a key or value has.
type ValueKind uint8

const (
	ValueNull ValueKind = iota
	ValueBytes
	ValueText
	ValueRow
	ValueDocument
)

// arrowType returns how cells of a column travel. Text is binary as it may
// hold bytes that are not UTF-8; decimals are text as Arrow's have a fixed
// scale and no NaN.
func arrowType(t Column_Type) (arrow.DataType, bool) {
	switch t {
	case Column_INT64:
		return arrow.PrimitiveTypes.Int64, true
	case Column_FLOAT64:
		return arrow.PrimitiveTypes.Float64, true
	case Column_DECIMAL:
		return arrow.BinaryTypes.String, true
	case Column_BOOL:
		return arrow.FixedWidthTypes.Boolean, true
	case Column_TEXT, Column_BYTES, Column_JSON:
		return arrow.BinaryTypes.Binary, true
	case Column_TIMESTAMP:
		return arrow.FixedWidthTypes.Timestamp_us, true
	}
	return nil, false
}

// arrowSchema returns the Arrow schema of a table. Behind the columns comes one
// for unset cells: for rows that have some, a bit for each column, the lowest
// bit of the first byte being column 0.
func arrowSchema(s *Schema) (*arrow.Schema, error) {
	fields := make([]arrow.Field, 0, len(s.GetColumns())+1)
	for _, c := range s.GetColumns() {
		t, ok := arrowType(c.GetType())
		if !ok {
			return nil, fmt.Errorf("schema %q: column %q has the unknown type %d", s.GetName(), c.GetName(), c.GetType())
		}
		fields = append(fields, arrow.Field{Name: c.GetName(), Type: t, Nullable: true})
	}
	fields = append(fields, arrow.Field{Name: "", Type: arrow.BinaryTypes.Binary, Nullable: true})
	return arrow.NewSchema(fields, nil), nil
}
