package protocol

import (
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
)

// ColumnType is the logical type of a column. The table in
// docs/format/connector-protocol.md says how each travels.
type ColumnType uint8

const (
	TypeInt64 ColumnType = iota + 1
	TypeFloat64
	TypeDecimal
	TypeBool
	TypeText
	TypeBytes
	TypeTimestamp
	TypeJSON
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

// TableSchema is the type of the rows of one table.
type TableSchema struct {
	Name    string
	Columns []Column
}

// Column is one column of a table.
type Column struct {
	Name             string
	Type             ColumnType
	Required         bool
	Key              bool
	Precision, Scale int
	Native           string
}

// Names of the metadata of Arrow schemas and fields.
const (
	metaSchema    = "millrace.schema"
	metaType      = "millrace.type"
	metaRequired  = "millrace.required"
	metaKey       = "millrace.key"
	metaPrecision = "millrace.precision"
	metaScale     = "millrace.scale"
	metaNative    = "millrace.native"
)

// logicalType pairs a column type with its name and its Arrow type.
type logicalType struct {
	name  string
	arrow arrow.DataType
}

// logical returns how a column type travels; ok is false for unknown types.
// Text is binary as it may hold bytes that are not UTF-8, decimals are text as
// Arrow's have a fixed scale and no NaN.
func (t ColumnType) logical() (l logicalType, ok bool) {
	switch t {
	case TypeInt64:
		return logicalType{"int64", arrow.PrimitiveTypes.Int64}, true
	case TypeFloat64:
		return logicalType{"float64", arrow.PrimitiveTypes.Float64}, true
	case TypeDecimal:
		return logicalType{"decimal", arrow.BinaryTypes.String}, true
	case TypeBool:
		return logicalType{"bool", arrow.FixedWidthTypes.Boolean}, true
	case TypeText:
		return logicalType{"text", arrow.BinaryTypes.Binary}, true
	case TypeBytes:
		return logicalType{"bytes", arrow.BinaryTypes.Binary}, true
	case TypeTimestamp:
		return logicalType{"timestamp", arrow.FixedWidthTypes.Timestamp_us}, true
	case TypeJSON:
		return logicalType{"json", arrow.BinaryTypes.Binary}, true
	}
	return logicalType{}, false
}

func columnTypeNamed(name string) (ColumnType, bool) {
	for t := TypeInt64; t <= TypeJSON; t++ {
		if l, _ := t.logical(); l.name == name {
			return t, true
		}
	}
	return 0, false
}

// unsetField is the last column of every table: for rows with unset cells, a
// bit for each column, the lowest bit of the first byte being column 0.
func unsetField() arrow.Field {
	return arrow.Field{Name: "", Type: arrow.BinaryTypes.Binary, Nullable: true,
		Metadata: arrow.NewMetadata([]string{metaType}, []string{"unset"})}
}

func (s TableSchema) arrow() (*arrow.Schema, error) {
	fields := make([]arrow.Field, 0, len(s.Columns)+1)
	for _, c := range s.Columns {
		l, ok := c.Type.logical()
		if !ok {
			return nil, fmt.Errorf("describing table %q: column %q has the unknown type %d", s.Name, c.Name, c.Type)
		}
		meta := map[string]string{metaType: l.name}
		if c.Required {
			meta[metaRequired] = "true"
		}
		if c.Key {
			meta[metaKey] = "true"
		}
		if c.Precision != 0 {
			meta[metaPrecision] = strconv.Itoa(c.Precision)
			meta[metaScale] = strconv.Itoa(c.Scale)
		}
		if c.Native != "" {
			meta[metaNative] = c.Native
		}
		fields = append(fields, arrow.Field{Name: c.Name, Type: l.arrow, Nullable: true, Metadata: arrow.MetadataFrom(meta)})
	}
	meta := arrow.NewMetadata([]string{metaSchema}, []string{s.Name})
	return arrow.NewSchema(append(fields, unsetField()), &meta), nil
}

// tableSchemaOf checks an Arrow schema that came over the wire.
func tableSchemaOf(a *arrow.Schema) (TableSchema, error) {
	name, _ := a.Metadata().GetValue(metaSchema)
	s := TableSchema{Name: name}
	last := a.NumFields() - 1
	if last < 0 || !a.Field(last).Equal(unsetField()) {
		return s, fmt.Errorf("reading the schema of table %q: its last column is not the one for unset cells", name)
	}
	for _, f := range a.Fields()[:last] {
		c, err := columnOf(f)
		if err != nil {
			return s, fmt.Errorf("reading the schema of table %q: column %q: %w", name, f.Name, err)
		}
		s.Columns = append(s.Columns, c)
	}
	return s, nil
}

func columnOf(f arrow.Field) (Column, error) {
	get := func(key string) string {
		v, _ := f.Metadata.GetValue(key)
		return v
	}
	t, ok := columnTypeNamed(get(metaType))
	if !ok {
		return Column{}, fmt.Errorf("unknown type %q", get(metaType))
	}
	if l, _ := t.logical(); !arrow.TypeEqual(l.arrow, f.Type) {
		return Column{}, fmt.Errorf("%s travels as %v, not %v", l.name, l.arrow, f.Type)
	}
	c := Column{Name: f.Name, Type: t, Required: get(metaRequired) == "true", Key: get(metaKey) == "true", Native: get(metaNative)}
	if text := get(metaPrecision); text != "" {
		var err error
		if c.Precision, err = strconv.Atoi(text); err != nil {
			return c, fmt.Errorf("reading its precision: %w", err)
		}
		if c.Scale, err = strconv.Atoi(get(metaScale)); err != nil {
			return c, fmt.Errorf("reading its scale: %w", err)
		}
	}
	return c, nil
}
