package batch

import "github.com/millrace/millrace/broker/internal/ident"

// Record is one record of a batch, decoded.
type Record struct {
	// Offset is the record's position in its partition.
	Offset ident.Offset
	// Timestamp is in milliseconds since the Unix epoch, or NoTimestamp.
	Timestamp int64
	// Key is nil when the record has none; an empty key is not nil.
	Key []byte
	// Value is nil for a tombstone; an empty value is not nil.
	Value []byte
	// Headers may repeat a key.
	Headers []Header
}

// Header is a named value that goes with a record.
type Header struct {
	Key   string
	Value []byte // nil is allowed and differs from empty
}

// Records calls yield with each record of v in order, until yield returns
// false. Key, value, headers and their bytes are valid only until yield
// returns. It does not verify the checksum. Errors are ErrCorrupt, ErrInvalid
// or ErrCodec; records before the fault have been yielded by then.
//
// Compressed batches are decoded as a stream, so that memory is bounded by the
// largest record, which in turn is bounded by RawBytesMaxDefault.
func Records(v View, c *Codecs, yield func(Record) bool) error { panic("being written") }
