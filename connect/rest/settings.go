package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// settings is a configuration in JSON. Numbers and booleans are taken for the
// texts that were written, as Kafka Connect does; null means no value.
type settings map[string]*string

// UnmarshalJSON implements [json.Unmarshaler].
func (s *settings) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	*s = make(settings, len(raw))
	for name, value := range raw {
		switch value = bytes.TrimSpace(value); value[0] {
		case '{', '[':
			return fmt.Errorf("setting %s must be a text, number or boolean", name)
		case '"':
			var v string
			if err := json.Unmarshal(value, &v); err != nil {
				return fmt.Errorf("setting %s: %w", name, err)
			}
			(*s)[name] = &v
		case 'n':
			(*s)[name] = nil
		default:
			v := string(value)
			(*s)[name] = &v
		}
	}
	return nil
}

// texts returns the settings that have a value.
func (s settings) texts() map[string]string {
	texts := make(map[string]string, len(s))
	for name, value := range s {
		if value != nil {
			texts[name] = *value
		}
	}
	return texts
}
