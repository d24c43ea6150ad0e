package connector

// Value is a record's key or value. The zero Value is null.
type Value struct {
	kind Kind
	data []byte // of KindBytes, KindText and KindDocument
	row  Row    // of KindRow
}

// Kind says which of its forms a [Value] has.
type Kind uint8

const (
	// KindNull is no value at all: a tombstone, or a missing key. A row whose
	// cells are all NULL is something else.
	KindNull Kind = iota
	// KindBytes is bytes that nobody has looked into.
	KindBytes
	// KindText is text. It should be UTF-8, but bytes that are not pass
	// unchanged.
	KindText
	// KindRow is a row of typed cells with a schema.
	KindRow
	// KindDocument is a JSON value without a schema.
	KindDocument
)

// String returns the kind's name in lower case.
func (k Kind) String() string { return kindName(k) }

// BytesValue returns a value of bytes, which may be empty. It keeps b.
func BytesValue(b []byte) Value { return Value{kind: KindBytes, data: b} }

// TextValue returns a value of text.
func TextValue(s string) Value { return Value{kind: KindText, data: []byte(s)} }

// RowValue returns a row as a value. The row must have a schema.
func RowValue(r Row) Value { return Value{kind: KindRow, row: r} }

// DocumentValue returns a document as a value. It keeps d.
func DocumentValue(d Document) Value { return Value{kind: KindDocument, data: d} }

// Kind returns which form the value has.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether the value is null.
func (v Value) IsNull() bool { return v.kind == KindNull }

// Bytes returns the bytes of a value of KindBytes, KindText or KindDocument,
// without copying, and nil for the other kinds.
func (v Value) Bytes() []byte { return v.data }

// Text returns what Bytes returns as a string.
func (v Value) Text() string { return string(v.data) }

// Row returns the row of a value of KindRow, and an empty row without schema
// for the other kinds.
func (v Value) Row() Row { return v.row }

// Document returns the document of a value of KindDocument, and nil for the
// other kinds.
func (v Value) Document() Document {
	if v.kind != KindDocument {
		return nil
	}
	return Document(v.data)
}

// Document is one JSON value: UTF-8 text, with its members in the order and
// its numbers with the digits that they had. It is kept as text, so that
// passing it on loses nothing and costs nothing.
type Document []byte

// NewDocument makes a document of a Go value as encoding/json does.
// json.Number and json.RawMessage keep numbers exact.
func NewDocument(v any) (Document, error) { return newDocument(v) }

// ParseDocument checks that text is one JSON value and returns it as a
// document, which keeps text.
func ParseDocument(text []byte) (Document, error) { return parseDocument(text) }

// Decode returns the document as nil, bool, string, json.Number, []any or
// map[string]any, numbers being exact.
func (d Document) Decode() (any, error) { return d.decode() }

// Members returns the members of a JSON object in their order. It is an error
// if the document is not an object. A name that occurs twice is returned
// once, at its first place with its last value.
func (d Document) Members() ([]Member, error) { return d.members() }

// Kind returns the first byte that tells the JSON kinds apart: '{', '[', '"',
// 't', 'f', 'n' or '0' for any number. It is 0 for text that is not JSON.
func (d Document) Kind() byte { return d.kind() }

// Member is one name and value of a JSON object.
type Member struct {
	Name  string
	Value Document
}
