// Package serde turns Go values into the bytes of a record's key or value and back.
//
// A [Serde] appends, so that a hot path encodes into a buffer that it owns and nothing is allocated:
//
//	buf, err = serde.Int64.Append(buf[:0], 42)
//	n, err := serde.Int64.Decode(buf)
//
// The plain ones, [String], [Bytes], [Int64], [Int32], [Float64] and [Bool], write what Apache Kafka's own
// serializers write, so that jobs and producers in other languages read each other's records; [JSON] is for structs.
// To write one for a format of your own, implement the two methods.
//
// A Serde never sees null: a record without a key or value (a tombstone) is the caller's matter, and an empty slice
// is a value, not an absent one.
package serde

// Serde encodes and decodes values of type T. Implementations are safe for use by several goroutines at once.
type Serde[T any] interface {
	// Append appends the encoding of v to dst and returns the extended slice, as append does. It does not keep dst.
	// On an error the returned slice is to be ignored.
	Append(dst []byte, v T) ([]byte, error)
	// Decode returns the value that src encodes. It must not keep src, which the caller reuses: what the value needs
	// of it is copied.
	Decode(src []byte) (T, error)
}

// Part tells which half of a record a serde is bound to.
type Part int8

// The two halves of a record.
const (
	Key Part = iota
	Value
)

// String returns "key" or "value".
func (p Part) String() string {
	if p == Key {
		return "key"
	}
	return "value"
}

// Binder is implemented, optionally, by a Serde that has to know where its bytes live: one that registers its schema
// under a topic's name, say.
type Binder[T any] interface {
	// For returns the serde to use for that part of that topic's records. It is called once for each source, sink
	// and store, when the topology is built, and does no I/O.
	For(topic string, part Part) Serde[T]
}

// Bind returns s bound to a part of a topic if s is a [Binder], and s itself otherwise.
func Bind[T any](s Serde[T], topic string, part Part) Serde[T] {
	if b, ok := s.(Binder[T]); ok {
		return b.For(topic, part)
	}
	return s
}

// Default returns the serde of a type whose encoding is beyond doubt: string, []byte, the integers, floats, bool and
// time.Time. It reports false for every other type, types derived from these included: what has a name of its own
// may want an encoding of its own.
func Default[T any]() (Serde[T], bool) {
	var zero T
	s, ok := defaultFor(any(zero)).(Serde[T])
	return s, ok
}
