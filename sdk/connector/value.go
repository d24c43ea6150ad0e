package connector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

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
func (k Kind) String() string {
	switch k {
	case KindNull:
		return "null"
	case KindBytes:
		return "bytes"
	case KindText:
		return "text"
	case KindRow:
		return "row"
	case KindDocument:
		return "document"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText returns the kind's name, for logs.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// BytesValue returns a value of bytes, which may be empty. It keeps b.
func BytesValue(b []byte) Value { return Value{kind: KindBytes, data: b} }

// TextValue returns a value of text.
func TextValue(s string) Value { return Value{kind: KindText, data: []byte(s)} }

// TextBytesValue returns a value of the text in b, which it keeps.
func TextBytesValue(b []byte) Value { return Value{kind: KindText, data: b} }

// RowValue returns a row as a value. The row must have a schema.
func RowValue(r Row) Value { return Value{kind: KindRow, row: r} }

// DocumentValue returns a document as a value. It keeps d, and does not check
// that it is JSON: [ParseDocument] does.
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
func NewDocument(v any) (Document, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("making a document: %w", err)
	}
	return Document(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

// ParseDocument checks that text is one JSON value and returns it as a
// document, which keeps text.
func ParseDocument(text []byte) (Document, error) {
	if json.Valid(text) {
		return Document(text), nil
	}
	var v json.RawMessage
	err := json.Unmarshal(text, &v) // says where and what
	if err == nil {
		err = errors.New("not one JSON value")
	}
	return nil, fmt.Errorf("reading a document: %w", err)
}

// MarshalJSON returns the document itself, and null if it is empty, so that
// encoding/json takes it for the JSON that it is.
func (d Document) MarshalJSON() ([]byte, error) {
	if len(d) == 0 {
		return []byte("null"), nil
	}
	return d, nil
}

// UnmarshalJSON keeps a copy of the text.
func (d *Document) UnmarshalJSON(text []byte) error {
	*d = append(Document(nil), text...)
	return nil
}

// String returns the document's text.
func (d Document) String() string { return string(d) }

// Decode returns the document as nil, bool, string, json.Number, []any or
// map[string]any, numbers being exact.
func (d Document) Decode() (any, error) {
	dec := json.NewDecoder(bytes.NewReader(d))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("decoding a document: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("decoding a document: more than one JSON value")
	}
	return v, nil
}

// Members returns the members of a JSON object in their order. It is an error
// if the document is not an object. A name that occurs twice is returned
// once, at its first place with its last value.
func (d Document) Members() ([]Member, error) {
	if d.Kind() != '{' {
		return nil, errors.New("reading a document's members: it is not a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(d))
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("reading a document's members: %w", err)
	}
	var members []Member
	place := make(map[string]int)
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("reading a document's members: %w", err)
		}
		name := token.(string) // the decoder allows nothing else here
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("reading a document's member %q: %w", name, err)
		}
		if i, ok := place[name]; ok {
			members[i].Value = Document(value)
			continue
		}
		place[name] = len(members)
		members = append(members, Member{Name: name, Value: Document(value)})
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("reading a document's members: %w", err)
	}
	return members, nil
}

// Kind returns the first byte that tells the JSON kinds apart: '{', '[', '"',
// 't', 'f', 'n' or '0' for any number. It is 0 for text that is not JSON.
func (d Document) Kind() byte {
	for _, c := range d {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '{', '[', '"', 't', 'f', 'n':
			return c
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			return '0'
		}
		return 0
	}
	return 0
}

// Member is one name and value of a JSON object.
type Member struct {
	Name  string
	Value Document
}
