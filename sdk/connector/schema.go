package connector

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"
)

// Type is the type of a column. Behind each is what makes a [Cell] of it.
type Type uint8

const (
	// Int64 is a signed integer of 64 bits: [Int].
	Int64 Type = iota + 1
	// Float64 is an IEEE 754 double, NaN and infinities included: [Float].
	Float64
	// DecimalType is an exact decimal number, a [Decimal]: [Dec].
	DecimalType
	// BoolType is true or false: [Bool].
	BoolType
	// TextType is text. It should be UTF-8, but other bytes pass unchanged:
	// [Text].
	TextType
	// BytesType is bytes: [Bytes].
	BytesType
	// TimestampType is a moment in microseconds, a [Micros]: [Timestamp].
	TimestampType
	// JSONType is a JSON value, a [Document]: [JSON].
	JSONType
)

// String returns the type's name in lower case, such as "int64".
func (t Type) String() string {
	switch t {
	case Int64:
		return "int64"
	case Float64:
		return "float64"
	case DecimalType:
		return "decimal"
	case BoolType:
		return "bool"
	case TextType:
		return "text"
	case BytesType:
		return "bytes"
	case TimestampType:
		return "timestamp"
	case JSONType:
		return "json"
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// MarshalText returns the type's name, for logs.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Column describes one cell of each row.
type Column struct {
	// Name is unique in its schema, and not empty.
	Name string
	// Type is what the cells hold when they are neither NULL nor unset.
	Type Type
	// Required promises that no cell of the column is NULL. Sinks that make
	// tables declare it so.
	Required bool
	// Key marks the columns that together identify the row.
	Key bool
	// Precision is the largest number of digits of a decimal, and Scale how
	// many of them are behind the point, as the source declares them. A
	// Precision of 0 means that the source sets no bounds. They describe; the
	// cells are exact in any case.
	Precision, Scale int
	// Native is the source's own name of the type, such as "timestamptz", or
	// empty. Sinks of the same kind of database may use it.
	Native string
}

// Schema is the type of a row. It does not change once it is made, so rows,
// batches and goroutines share it. Make one for a table and keep it: schemas
// are told apart by identity when they travel, and one is sent only once.
type Schema struct {
	name    string
	columns []Column
	index   map[string]int
}

// NewSchema makes a schema; name is that of the table or the like. It is an
// error if a column has no name, a name is not UTF-8 or occurs twice, or a
// type is unknown.
func NewSchema(name string, columns ...Column) (*Schema, error) {
	s := &Schema{name: name, columns: slices.Clone(columns), index: make(map[string]int, len(columns))}
	for i, c := range columns {
		switch {
		case c.Name == "":
			return nil, fmt.Errorf("making schema %q: column %d has no name", name, i)
		case !utf8.ValidString(c.Name):
			return nil, fmt.Errorf("making schema %q: column name %q is not UTF-8", name, c.Name)
		case c.Type < Int64 || c.Type > JSONType:
			return nil, fmt.Errorf("making schema %q: column %q has no known type", name, c.Name)
		case c.Precision < 0:
			return nil, fmt.Errorf("making schema %q: column %q has precision %d", name, c.Name, c.Precision)
		}
		if _, ok := s.index[c.Name]; ok {
			return nil, fmt.Errorf("making schema %q: two columns are called %q", name, c.Name)
		}
		s.index[c.Name] = i
	}
	return s, nil
}

// Name returns the schema's name.
func (s *Schema) Name() string { return s.name }

// Len returns the number of columns.
func (s *Schema) Len() int { return len(s.columns) }

// Column returns the column at index i, from 0.
func (s *Schema) Column(i int) Column { return s.columns[i] }

// Index returns the index of the column of that name, or -1.
func (s *Schema) Index(name string) int {
	if i, ok := s.index[name]; ok {
		return i
	}
	return -1
}

// Row makes a row of the schema. It keeps cells. It is an error if their
// number or the type of one does not fit; NULL fits wherever the column is not
// Required, and unset everywhere.
func (s *Schema) Row(cells ...Cell) (Row, error) {
	if len(cells) != len(s.columns) {
		return Row{}, fmt.Errorf("making a row of %q: %d cells for %d columns", s.name, len(cells), len(s.columns))
	}
	for i, c := range cells {
		if err := s.columns[i].fits(c); err != nil {
			return Row{}, fmt.Errorf("making a row of %q: column %q: %w", s.name, s.columns[i].Name, err)
		}
	}
	return Row{schema: s, cells: cells}, nil
}

func (c Column) fits(cell Cell) error {
	switch {
	case cell.HasValue() && cell.typ != c.Type:
		return fmt.Errorf("the cell is %s, the column %s", cell.typ, c.Type)
	case cell.IsNull() && c.Required:
		return errors.New("the cell is NULL, which the column does not allow")
	}
	return nil
}

// Row is one value for each column of a schema.
type Row struct {
	schema *Schema
	cells  []Cell
}

// Schema returns the row's schema; it is nil for the zero Row.
func (r Row) Schema() *Schema { return r.schema }

// Len returns the number of cells.
func (r Row) Len() int { return len(r.cells) }

// Cell returns the cell at column index i, from 0.
func (r Row) Cell(i int) Cell { return r.cells[i] }

// Get returns the cell of the column of that name, and unset if there is none.
func (r Row) Get(name string) Cell {
	if r.schema == nil {
		return Unset
	}
	if i := r.schema.Index(name); i >= 0 {
		return r.cells[i]
	}
	return Unset
}

// Cell is a value, [Null], or [Unset]. The zero Cell is unset.
type Cell struct {
	state cellState
	typ   Type
	bits  uint64 // of Int64, Float64, BoolType and TimestampType
	data  string // of TextType, BytesType, DecimalType and JSONType
}

type cellState uint8

const (
	cellUnset cellState = iota
	cellNull
	cellValue
)

// Null is a cell that the source says has no value; Unset is one about which
// the source says nothing, such as an unchanged large column in an update. A
// sink leaves an unset column as it is.
var (
	Null  = Cell{state: cellNull}
	Unset = Cell{}
)

// Int returns a cell of type Int64.
func Int(v int64) Cell { return Cell{state: cellValue, typ: Int64, bits: uint64(v)} }

// Float returns a cell of type Float64.
func Float(v float64) Cell {
	return Cell{state: cellValue, typ: Float64, bits: math.Float64bits(v)}
}

// Dec returns a cell of type DecimalType.
func Dec(v Decimal) Cell { return Cell{state: cellValue, typ: DecimalType, data: v.String()} }

// Bool returns a cell of type BoolType.
func Bool(v bool) Cell {
	c := Cell{state: cellValue, typ: BoolType}
	if v {
		c.bits = 1
	}
	return c
}

// Text returns a cell of type TextType.
func Text(v string) Cell { return Cell{state: cellValue, typ: TextType, data: v} }

// Bytes returns a cell of type BytesType. It copies v.
func Bytes(v []byte) Cell { return Cell{state: cellValue, typ: BytesType, data: string(v)} }

// Timestamp returns a cell of type TimestampType.
func Timestamp(v Micros) Cell { return Cell{state: cellValue, typ: TimestampType, bits: uint64(v)} }

// JSON returns a cell of type JSONType. It copies v.
func JSON(v Document) Cell { return Cell{state: cellValue, typ: JSONType, data: string(v)} }

// IsNull reports whether the cell is NULL.
func (c Cell) IsNull() bool { return c.state == cellNull }

// IsUnset reports whether the cell is unset.
func (c Cell) IsUnset() bool { return c.state == cellUnset }

// HasValue reports whether the cell is neither NULL nor unset.
func (c Cell) HasValue() bool { return c.state == cellValue }

// Type returns the type of the cell's value, and 0 if it has none.
func (c Cell) Type() Type { return c.typ }

// Int returns the value of a cell of type Int64, and 0 otherwise.
func (c Cell) Int() int64 {
	if c.typ != Int64 {
		return 0
	}
	return int64(c.bits)
}

// Float returns the value of a cell of type Float64, and 0 otherwise.
func (c Cell) Float() float64 {
	if c.typ != Float64 {
		return 0
	}
	return math.Float64frombits(c.bits)
}

// Dec returns the value of a cell of type DecimalType, and 0 otherwise.
func (c Cell) Dec() Decimal {
	if c.typ != DecimalType || c.data == "0" {
		return Decimal{}
	}
	return Decimal{c.data} // canonical, as it came from a Decimal
}

// Bool returns the value of a cell of type BoolType, and false otherwise.
func (c Cell) Bool() bool { return c.typ == BoolType && c.bits != 0 }

// Text returns the value of a cell of type TextType, BytesType, DecimalType or
// JSONType as text, and "" otherwise.
func (c Cell) Text() string { return c.data }

// Bytes returns what Text returns, as a new slice.
func (c Cell) Bytes() []byte { return []byte(c.data) }

// Timestamp returns the value of a cell of type TimestampType, and 0 otherwise.
func (c Cell) Timestamp() Micros {
	if c.typ != TimestampType {
		return 0
	}
	return Micros(c.bits)
}

// JSON returns the value of a cell of type JSONType, and nil otherwise.
func (c Cell) JSON() Document {
	if c.typ != JSONType {
		return nil
	}
	return Document(c.data)
}

// Any returns the value as int64, float64, Decimal, bool, string, []byte,
// Micros or Document, and nil if the cell is NULL or unset.
func (c Cell) Any() any {
	switch c.typ {
	case Int64:
		return c.Int()
	case Float64:
		return c.Float()
	case DecimalType:
		return c.Dec()
	case BoolType:
		return c.Bool()
	case TextType:
		return c.data
	case BytesType:
		return []byte(c.data)
	case TimestampType:
		return c.Timestamp()
	case JSONType:
		return Document(c.data)
	}
	return nil
}

// Micros is a moment: microseconds since 1970-01-01 00:00 UTC, before it when
// negative. It reaches about 292,000 years either way.
type Micros int64

// Infinity and NegativeInfinity are the moments after and before all others,
// which some databases have.
const (
	Infinity         Micros = 1<<63 - 1
	NegativeInfinity Micros = -1 << 63
)

// MicrosOf returns t, cut to the microsecond below it. t must be within the
// years -290308 to 294246.
func MicrosOf(t time.Time) Micros { return Micros(t.UnixMicro()) }

// Time returns the moment in UTC. The infinities become the moments at the
// ends of its range.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)).UTC() }

// IsInfinite reports whether the moment is Infinity or NegativeInfinity.
func (m Micros) IsInfinite() bool { return m == Infinity || m == NegativeInfinity }
