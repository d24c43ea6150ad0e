package wire

import "encoding/binary"

// Encoder appends the primitive types of the protocol to a reply that is built
// by hand. Flexible says whether lengths are compact and structs end in tags
// (KIP-482).
type Encoder struct {
	*Reply
	Flexible bool
}

// Int8 appends a number of one byte.
func (e Encoder) Int8(v int8) { e.buf = append(e.buf, byte(v)) }

// Int16 appends a number of two bytes.
func (e Encoder) Int16(v int16) { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(v)) }

// Int32 appends a number of four bytes.
func (e Encoder) Int32(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }

// Int64 appends a number of eight bytes.
func (e Encoder) Int64(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

// Uvarint appends a number of varying length.
func (e Encoder) Uvarint(v int) { e.buf = binary.AppendUvarint(e.buf, uint64(v)) }

// UUID appends an id of 16 bytes.
func (e Encoder) UUID(v [16]byte) { e.buf = append(e.buf, v[:]...) }

// String appends a string.
func (e Encoder) String(s string) {
	if e.Flexible {
		e.Uvarint(len(s) + 1)
	} else {
		e.Int16(int16(len(s)))
	}
	e.buf = append(e.buf, s...)
}

// NullableString appends a string, or null.
func (e Encoder) NullableString(s *string) {
	switch {
	case s != nil:
		e.String(*s)
	case e.Flexible:
		e.Uvarint(0)
	default:
		e.Int16(-1)
	}
}

// Len appends the length of an array, or of bytes.
func (e Encoder) Len(n int) {
	if e.Flexible {
		e.Uvarint(n + 1)
	} else {
		e.Int32(int32(n))
	}
}

// NoTags ends a struct that has no tagged fields.
func (e Encoder) NoTags() {
	if e.Flexible {
		e.Uvarint(0)
	}
}

// Tag appends a tagged field, whose value f appends. The number of tags goes
// before the first.
func (e Encoder) Tag(number int, f func(Encoder)) {
	value := Encoder{&Reply{}, true}
	f(value)
	e.Uvarint(number)
	e.Uvarint(len(value.buf))
	e.buf = append(e.buf, value.buf...)
}
