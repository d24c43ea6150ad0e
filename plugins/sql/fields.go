package sql

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace/millrace/sdk/connector"
)

// field is one column's name, type and value of a record. A nil value is NULL;
// its type is then unknown, and empty, unless a schema told it.
type field struct {
	name  string
	typ   columnType
	value any
}

// fieldsOf takes a record's value apart into fields.
func fieldsOf(v connector.Value) ([]field, error) {
	switch v.Kind() {
	case connector.KindDocument:
		members, err := v.Document().Members()
		if err != nil {
			return nil, fmt.Errorf("the value is JSON, but no object, so it has no columns: %w", err)
		}
		return documentFields(members)
	case connector.KindRow:
		return rowFields(v.Row()), nil
	}
	return nil, fmt.Errorf("the value is %s, which has no columns: a JSON object or a row is needed; is value.converter=json?", v.Kind())
}

func documentFields(members []connector.Member) ([]field, error) {
	fields := make([]field, 0, len(members))
	for _, m := range members {
		f, err := documentField(m.Name, m.Value)
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// documentField gives one JSON value its column type: integers BIGINT, as far
// as 64 bits reach, other numbers exact decimals, nested values JSON.
func documentField(name string, d connector.Document) (field, error) {
	switch d.Kind() {
	case 'n':
		return field{name: name}, nil
	case 't', 'f':
		return field{name, typeBool, d.Kind() == 't'}, nil
	case '0':
		return numberField(name, strings.TrimSpace(string(d)))
	case '"':
		v, err := d.Decode()
		if err != nil {
			return field{}, fmt.Errorf("field %q: %w", name, err)
		}
		return field{name, typeText, v.(string)}, nil // the decoder makes nothing else of it
	case '{', '[':
		return field{name, typeJSON, string(d)}, nil
	}
	return field{}, fmt.Errorf("field %q is not JSON", name)
}

// numberField keeps a number exact. 1e3 and 5.0 are whole numbers, and yet
// those who wrote them so mean fractions: only plain digits are integers.
func numberField(name, text string) (field, error) {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return field{name, typeInteger, n}, nil
		}
	}
	d, err := connector.ParseDecimal(text)
	if err != nil {
		return field{}, fmt.Errorf("field %q: %w", name, err)
	}
	return field{name, typeDecimal, d.String()}, nil
}

var rowTypes = map[connector.Type]columnType{
	connector.Int64: typeInteger, connector.Float64: typeFloat, connector.DecimalType: typeDecimal, connector.BoolType: typeBool,
	connector.TextType: typeText, connector.BytesType: typeBytes, connector.TimestampType: typeTimestamp, connector.JSONType: typeJSON,
}

// rowFields leaves out unset cells: their columns stay as they are.
func rowFields(r connector.Row) []field {
	fields := make([]field, 0, r.Len())
	for i := range r.Len() {
		cell, column := r.Cell(i), r.Schema().Column(i)
		if cell.IsUnset() {
			continue
		}
		fields = append(fields, field{column.Name, rowTypes[column.Type], cellValue(cell)})
	}
	return fields
}

// timestampLayout has a fixed width, so that the texts sort as the times do.
const timestampLayout = "2006-01-02T15:04:05.000000Z"

func cellValue(c connector.Cell) any {
	switch v := c.Any().(type) {
	case connector.Decimal:
		return v.String()
	case connector.Document:
		return string(v)
	case connector.Micros:
		switch v {
		case connector.Infinity:
			return "infinity"
		case connector.NegativeInfinity:
			return "-infinity"
		}
		return v.Time().UTC().Format(timestampLayout)
	default:
		return v
	}
}

// keyFields takes a record's key apart into the columns of the primary key:
// those of names, or all fields of the key if there are no names.
func keyFields(v connector.Value, names []string) ([]field, error) {
	var fields []field
	var err error
	switch {
	case v.IsNull():
		return nil, errors.New("the record has no key, which is to say which row it is about")
	case v.Kind() == connector.KindRow:
		fields = rowFields(v.Row())
	case v.Kind() == connector.KindDocument && v.Document().Kind() == '{':
		fields, err = fieldsOf(v)
	default:
		fields, err = scalarKey(v, names)
	}
	if err != nil {
		return nil, fmt.Errorf("the key: %w", err)
	}
	return chosen(fields, names)
}

func scalarKey(v connector.Value, names []string) ([]field, error) {
	name := "key"
	if len(names) > 0 {
		name = names[0]
	}
	switch v.Kind() {
	case connector.KindDocument:
		f, err := documentField(name, v.Document())
		return []field{f}, err
	case connector.KindText:
		return []field{{name, typeText, v.Text()}}, nil
	}
	return []field{{name, typeBytes, v.Bytes()}}, nil
}

// chosen picks the named fields, in the order of the names.
func chosen(fields []field, names []string) ([]field, error) {
	if len(names) > 0 {
		byName := make(map[string]field, len(fields))
		for _, f := range fields {
			byName[f.name] = f
		}
		fields = fields[:0:0]
		for _, name := range names {
			f, ok := byName[name]
			if !ok {
				return nil, fmt.Errorf("the key has no field %q, which pk.fields names", name)
			}
			fields = append(fields, f)
		}
	}
	if len(fields) == 0 {
		return nil, errors.New("the key has no fields")
	}
	for _, f := range fields {
		if f.value == nil {
			return nil, fmt.Errorf("field %q of the key is NULL, which no row's key can be", f.name)
		}
	}
	return fields, nil
}
