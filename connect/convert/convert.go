// Package convert turns the keys and values of connectors into the bytes of
// records, and back.
//
// Three converters are there, chosen by the settings key.converter and
// value.converter under a short name or under the class name that Kafka
// Connect uses for the same thing:
//
//	json    a JSON value without schema   org.apache.kafka.connect.json.JsonConverter
//	string  text as it is                 org.apache.kafka.connect.storage.StringConverter
//	bytes   bytes as they are             org.apache.kafka.connect.converters.ByteArrayConverter
//
// In all of them a null value is a record without a value (a tombstone), and
// never the four letters "null".
package convert

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/sdk/connector"
)

// Converter translates between a value and the bytes of a record's key or
// value. It holds no state, so goroutines may share it.
type Converter interface {
	// Encode returns the bytes for a record; nil means no value. The slice may
	// share memory with the value.
	Encode(v connector.Value) ([]byte, error)
	// Decode reads the bytes of a record, nil meaning null. The value may
	// share memory with data.
	Decode(data []byte) (connector.Value, error)
}

// Names are the short names of the converters, in the order to show them.
var Names = []string{"json", "string", "bytes"}

// Lookup returns the converter of a short name or of a Kafka class name.
func Lookup(name string) (Converter, error) {
	switch name {
	case "json", "org.apache.kafka.connect.json.JsonConverter":
		return JSON{}, nil
	case "string", "org.apache.kafka.connect.storage.StringConverter":
		return Text{}, nil
	case "bytes", "org.apache.kafka.connect.converters.ByteArrayConverter":
		return Bytes{}, nil
	}
	return nil, fmt.Errorf("there is no converter %q: expected %s, or its Kafka class name", name, strings.Join(Names, ", "))
}

// Text writes text and bytes as they are, documents and rows as JSON text, and
// reads everything as text.
type Text struct{}

// Encode implements [Converter].
func (Text) Encode(v connector.Value) ([]byte, error) {
	if v.Kind() == connector.KindRow {
		return JSON{}.Encode(v)
	}
	return raw(v), nil
}

// Decode implements [Converter].
func (Text) Decode(data []byte) (connector.Value, error) {
	if data == nil {
		return connector.Value{}, nil
	}
	return connector.TextValue(string(data)), nil
}

// Bytes writes text and bytes as they are, and reads everything as bytes. It
// refuses rows and documents, whose bytes nobody has chosen.
type Bytes struct{}

// Encode implements [Converter].
func (Bytes) Encode(v connector.Value) ([]byte, error) {
	switch v.Kind() {
	case connector.KindRow, connector.KindDocument:
		return nil, fmt.Errorf("the bytes converter cannot write a %s: use the json converter", v.Kind())
	}
	return raw(v), nil
}

// Decode implements [Converter].
func (Bytes) Decode(data []byte) (connector.Value, error) {
	if data == nil {
		return connector.Value{}, nil
	}
	return connector.BytesValue(data), nil
}

// raw returns a value's own bytes, keeping null and empty apart.
func raw(v connector.Value) []byte {
	if v.IsNull() {
		return nil
	}
	if b := v.Bytes(); b != nil {
		return b
	}
	return []byte{}
}
