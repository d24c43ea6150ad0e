package convert

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/millrace/millrace/sdk/connector"
)

// JSON writes every value as JSON without a schema, and reads JSON as
// documents, whose numbers are exact.
//
// A row becomes an object with its columns in order: NULL cells are null,
// unset ones are left out, decimals are numbers with all their digits, bytes
// are base64, timestamps are RFC 3339 in UTC with microseconds. What JSON has
// no number for (NaN, infinities) is a text of that name.
type JSON struct{}

var errNotUTF8 = errors.New("the text is not UTF-8, which JSON cannot hold: use the string converter")

// Encode implements [Converter].
func (JSON) Encode(v connector.Value) ([]byte, error) {
	switch v.Kind() {
	case connector.KindNull:
		return nil, nil
	case connector.KindDocument:
		return v.Document(), nil
	case connector.KindText:
		return appendText(nil, v.Text())
	case connector.KindBytes:
		return appendBytes(nil, v.Bytes()), nil
	case connector.KindRow:
		return appendRow(nil, v.Row())
	}
	return nil, fmt.Errorf("writing JSON: a value of kind %s is not known", v.Kind())
}

// Decode implements [Converter].
func (JSON) Decode(data []byte) (connector.Value, error) {
	if data == nil {
		return connector.Value{}, nil
	}
	doc, err := connector.ParseDocument(data)
	if err != nil {
		return connector.Value{}, err
	}
	return connector.DocumentValue(doc), nil
}

func appendRow(dst []byte, r connector.Row) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for i := range r.Len() {
		cell := r.Cell(i)
		if cell.IsUnset() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		name := r.Schema().Column(i).Name
		var err error
		if dst, err = appendText(dst, name); err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
		dst = append(dst, ':')
		if dst, err = appendCell(dst, cell); err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
	}
	return append(dst, '}'), nil
}

func appendCell(dst []byte, c connector.Cell) ([]byte, error) {
	if c.IsNull() {
		return append(dst, "null"...), nil
	}
	switch c.Type() {
	case connector.Int64:
		return strconv.AppendInt(dst, c.Int(), 10), nil
	case connector.Float64:
		return appendFloat(dst, c.Float())
	case connector.DecimalType:
		if d := c.Dec(); !d.IsFinite() {
			return appendText(dst, d.String())
		}
		return append(dst, c.Text()...), nil
	case connector.BoolType:
		return strconv.AppendBool(dst, c.Bool()), nil
	case connector.TextType:
		return appendText(dst, c.Text())
	case connector.BytesType:
		return appendBytes(dst, c.Bytes()), nil
	case connector.TimestampType:
		return appendTimestamp(dst, c.Timestamp()), nil
	case connector.JSONType:
		return append(dst, c.Text()...), nil
	}
	return nil, fmt.Errorf("a cell of %s is not known", c.Type())
}

func appendFloat(dst []byte, f float64) ([]byte, error) {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...), nil
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...), nil
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...), nil
	}
	b, err := json.Marshal(f)
	return append(dst, b...), err
}

func appendTimestamp(dst []byte, t connector.Micros) []byte {
	switch t {
	case connector.Infinity:
		return append(dst, `"infinity"`...)
	case connector.NegativeInfinity:
		return append(dst, `"-infinity"`...)
	}
	dst = append(dst, '"')
	dst = t.Time().AppendFormat(dst, "2006-01-02T15:04:05.999999Z07:00")
	return append(dst, '"')
}

func appendBytes(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// appendText quotes without the escapes that encoding/json adds for HTML.
func appendText(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errNotUTF8
	}
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"'), nil
}
