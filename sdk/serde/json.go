package serde

import (
	"encoding/json"
	"fmt"
)

// JSON returns a serde that writes T as encoding/json does, with its struct tags. Decode ignores fields that T does not
// have, so that a producer may add some, and refuses bytes after the value.
func JSON[T any]() Serde[T] { return jsonSerde[T]{} }

type jsonSerde[T any] struct{}

func (jsonSerde[T]) Append(dst []byte, v T) ([]byte, error) {
	enc, err := json.Marshal(v)
	if err != nil {
		return dst, fmt.Errorf("encoding %T as JSON: %w", v, err)
	}
	return append(dst, enc...), nil
}

func (jsonSerde[T]) Decode(src []byte) (T, error) {
	var v T
	if err := json.Unmarshal(src, &v); err != nil {
		return v, fmt.Errorf("decoding JSON into %T: %w", v, err)
	}
	return v, nil
}
