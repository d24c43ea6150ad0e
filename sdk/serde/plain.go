package serde

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// The serdes of plain types. Numbers are big-endian; all but Time are the formats of Kafka's serializers of these
// types (org.apache.kafka.common.serialization).
var (
	// String writes the string's bytes, UTF-8 by convention; bytes that are not UTF-8 pass unchanged.
	String Serde[string] = stringSerde{}
	// Bytes writes the bytes as they are. Decode copies. A nil slice is written as an empty value.
	Bytes Serde[[]byte] = bytesSerde{}
	// Int64 writes eight bytes, two's complement.
	Int64 Serde[int64] = integer[int64]{size: 8}
	// Int32 writes four bytes, two's complement.
	Int32 Serde[int32] = integer[int32]{size: 4}
	// Float64 writes the eight bytes of the IEEE 754 bits; NaNs keep their bits.
	Float64 Serde[float64] = float64Serde{}
	// Bool writes one byte, 1 or 0.
	Bool Serde[bool] = boolSerde{}
	// Time writes an instant exactly, of any year: eight bytes of seconds since 1970 and four of nanoseconds. The
	// location is not kept: Decode returns UTC.
	Time Serde[time.Time] = timeSerde{}
)

// defaultFor returns, as any, the Serde of zero's type, or nil. A switch and not a map: it runs a few times a program.
func defaultFor(zero any) any {
	switch zero.(type) {
	case string:
		return String
	case []byte:
		return Bytes
	case int64:
		return Int64
	case int32:
		return Int32
	case int:
		return integer[int]{size: 8}
	case int16:
		return integer[int16]{size: 2}
	case int8:
		return integer[int8]{size: 1}
	case uint:
		return integer[uint]{size: 8}
	case uint64:
		return integer[uint64]{size: 8}
	case uint32:
		return integer[uint32]{size: 4}
	case uint16:
		return integer[uint16]{size: 2}
	case uint8:
		return integer[uint8]{size: 1}
	case float64:
		return Float64
	case float32:
		return float32Serde{}
	case bool:
		return Bool
	case time.Time:
		return Time
	}
	return nil
}

type stringSerde struct{}

func (stringSerde) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (stringSerde) Decode(src []byte) (string, error)           { return string(src), nil }

type bytesSerde struct{}

func (bytesSerde) Append(dst []byte, v []byte) ([]byte, error) { return append(dst, v...), nil }
func (bytesSerde) Decode(src []byte) ([]byte, error)           { return append([]byte{}, src...), nil }

// integer writes size bytes, whatever the machine's own size of T is: int is eight bytes on every machine.
type integer[T int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64] struct{ size int }

func (s integer[T]) Append(dst []byte, v T) ([]byte, error) {
	for shift := (s.size - 1) * 8; shift >= 0; shift -= 8 {
		dst = append(dst, byte(uint64(v)>>shift))
	}
	return dst, nil
}

func (s integer[T]) Decode(src []byte) (T, error) {
	if err := wantLen(src, s.size, "an integer"); err != nil {
		return 0, err
	}
	var u uint64
	for _, b := range src {
		u = u<<8 | uint64(b)
	}
	v := T(u)
	if s.size == 8 && uint64(v) != u {
		return 0, fmt.Errorf("%d does not fit into this machine's %T", u, v)
	}
	return v, nil
}

type float64Serde struct{}

func (float64Serde) Append(dst []byte, v float64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)), nil
}

func (float64Serde) Decode(src []byte) (float64, error) {
	if err := wantLen(src, 8, "a float64"); err != nil {
		return 0, err
	}
	return math.Float64frombits(binary.BigEndian.Uint64(src)), nil
}

type float32Serde struct{}

func (float32Serde) Append(dst []byte, v float32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, math.Float32bits(v)), nil
}

func (float32Serde) Decode(src []byte) (float32, error) {
	if err := wantLen(src, 4, "a float32"); err != nil {
		return 0, err
	}
	return math.Float32frombits(binary.BigEndian.Uint32(src)), nil
}

type boolSerde struct{}

func (boolSerde) Append(dst []byte, v bool) ([]byte, error) {
	if v {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

func (boolSerde) Decode(src []byte) (bool, error) {
	if err := wantLen(src, 1, "a bool"); err != nil {
		return false, err
	}
	if src[0] > 1 {
		return false, fmt.Errorf("a bool is 0 or 1, this byte is %d", src[0])
	}
	return src[0] == 1, nil
}

type timeSerde struct{}

func (timeSerde) Append(dst []byte, v time.Time) ([]byte, error) {
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.Unix()))
	return binary.BigEndian.AppendUint32(dst, uint32(v.Nanosecond())), nil
}

func (timeSerde) Decode(src []byte) (time.Time, error) {
	if err := wantLen(src, 12, "a time"); err != nil {
		return time.Time{}, err
	}
	ns := binary.BigEndian.Uint32(src[8:])
	if ns >= uint32(time.Second) {
		return time.Time{}, errors.New("a time's nanoseconds are a second or more")
	}
	return time.Unix(int64(binary.BigEndian.Uint64(src)), int64(ns)).UTC(), nil
}

func wantLen(src []byte, n int, what string) error {
	if len(src) != n {
		return fmt.Errorf("%s has %d bytes, this has %d", what, n, len(src))
	}
	return nil
}
