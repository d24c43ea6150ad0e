package convert

import (
	"fmt"

	"github.com/millrace/millrace/sdk/connector"
)

// JSON writes every value as JSON without a schema, in the form of
// [connector.Value.AppendJSON], and reads JSON as documents, whose numbers are
// exact. Text that is not UTF-8 is an error: the string converter takes it.
type JSON struct{}

// Encode implements [Converter].
func (JSON) Encode(v connector.Value) ([]byte, error) {
	if v.IsNull() {
		return nil, nil
	}
	text, err := v.AppendJSON(nil)
	if err != nil {
		return nil, fmt.Errorf("%w (the string converter can)", err)
	}
	return text, nil
}

// Decode implements [Converter].
func (JSON) Decode(data []byte) (connector.Value, error) {
	if data == nil {
		return connector.Value{}, nil
	}
	doc, err := connector.ParseDocument(data)
	if err != nil {
		return connector.Value{}, fmt.Errorf("%w (the json converter reads JSON only; string and bytes read everything)", err)
	}
	if doc.Kind() == 'n' {
		return connector.Value{}, nil // as Kafka Connect reads it
	}
	return connector.DocumentValue(doc), nil
}
