package connector

import (
	"encoding/base64"
	"encoding/json"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// AppendJSON appends the value as JSON and returns the extended slice.
//
// Null is null, text a string, bytes a string in base64, and a document is as
// it is. A row is an object of its cells in the order of the columns; unset
// cells are left out. The error is that a text is not UTF-8, which JSON cannot
// hold; dst is returned as it was then.
func (v Value) AppendJSON(dst []byte) ([]byte, error) {
	switch v.kind {
	case KindNull:
		return append(dst, "null"...), nil
	case KindBytes:
		return appendBase64(dst, v.data), nil
	case KindText:
		return appendJSONText(dst, v.data)
	case KindDocument:
		return append(dst, v.data...), nil
	case KindRow:
		return v.row.AppendJSON(dst)
	}
	return dst, fmt.Errorf("writing JSON: unknown kind of value %d", v.kind)
}

// MarshalJSON returns what AppendJSON appends.
func (v Value) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil) }

// MarshalJSON returns what AppendJSON appends.
func (r Row) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// MarshalJSON returns what AppendJSON appends.
func (c Cell) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// MarshalJSON returns the number with all its digits. What JSON has no number
// for is a string, as in a [Cell].
func (d Decimal) MarshalJSON() ([]byte, error) { return Dec(d).AppendJSON(nil) }

// String returns the value for people to read: as JSON if it can be, otherwise
// its bytes in Go's quotes.
func (v Value) String() string { return jsonString(v.AppendJSON, v.data) }

// String returns the row for people to read, as JSON if it can be.
func (r Row) String() string { return jsonString(r.AppendJSON, nil) }

// String returns the cell for people to read: as JSON if it can be, otherwise
// its text in Go's quotes.
func (c Cell) String() string {
	if c.IsUnset() {
		return "unset"
	}
	return jsonString(c.AppendJSON, []byte(c.data))
}

func jsonString(appendJSON func([]byte) ([]byte, error), data []byte) string {
	text, err := appendJSON(nil)
	switch {
	case err == nil:
		return string(text)
	case data != nil:
		return strconv.Quote(string(data))
	}
	return err.Error()
}

// AppendJSON appends the row as a JSON object, as that of [Value] does.
func (r Row) AppendJSON(dst []byte) ([]byte, error) {
	out, separator := append(dst, '{'), ""
	for i, c := range r.cells {
		if c.IsUnset() {
			continue
		}
		name := r.schema.columns[i].Name
		out = append(out, separator...)
		separator = ","
		var err error
		if out, err = appendJSONText(out, name); err != nil {
			return dst, fmt.Errorf("column %q: %w", name, err)
		}
		out = append(out, ':')
		if out, err = c.AppendJSON(out); err != nil {
			return dst, fmt.Errorf("column %q: %w", name, err)
		}
	}
	return append(out, '}'), nil
}

// AppendJSON appends the cell as JSON: NULL and unset are null, decimals are
// numbers with all their digits, bytes are base64, timestamps are RFC 3339 in
// UTC with up to six digits behind the second. What JSON has no number or time
// for is a string: "NaN", "Infinity", "-Infinity".
func (c Cell) AppendJSON(dst []byte) ([]byte, error) {
	switch c.typ {
	case Int64:
		return strconv.AppendInt(dst, c.Int(), 10), nil
	case Float64:
		return appendJSONFloat(dst, c.Float())
	case DecimalType:
		if !c.Dec().IsFinite() {
			return appendJSONText(dst, c.data)
		}
		return append(dst, c.data...), nil
	case BoolType:
		return strconv.AppendBool(dst, c.Bool()), nil
	case TextType:
		return appendJSONText(dst, c.data)
	case BytesType:
		return appendBase64(dst, []byte(c.data)), nil
	case TimestampType:
		return appendJSONTime(dst, c.Timestamp()), nil
	case JSONType:
		return append(dst, c.data...), nil
	}
	return append(dst, "null"...), nil
}

func appendJSONFloat(dst []byte, f float64) ([]byte, error) {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...), nil
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...), nil
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...), nil
	}
	text, err := json.Marshal(f)
	return append(dst, text...), err
}

func appendJSONTime(dst []byte, m Micros) []byte {
	switch m {
	case Infinity:
		return append(dst, `"Infinity"`...)
	case NegativeInfinity:
		return append(dst, `"-Infinity"`...)
	}
	dst = append(dst, '"')
	dst = m.Time().AppendFormat(dst, "2006-01-02T15:04:05.999999Z07:00")
	return append(dst, '"')
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

func appendJSONText[T string | []byte](dst []byte, text T) ([]byte, error) {
	out, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		return dst, errors.New("the text is not UTF-8, which JSON cannot hold")
	}
	return out, nil
}
