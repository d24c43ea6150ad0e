package batch

import "errors"

// The kinds of fault that a batch can have. Errors of this package wrap one of
// them, and each corresponds to one error code of the Kafka protocol.
var (
	// ErrShort says that the input ends before the batch does. Reading more
	// may help.
	ErrShort = errors.New("batch is incomplete")
	// ErrCorrupt says that the bytes are not what some writer wrote: a wrong
	// checksum, an impossible length (CORRUPT_MESSAGE).
	ErrCorrupt = errors.New("batch is corrupt")
	// ErrMagic says that the batch has a format version other than 2
	// (UNSUPPORTED_FOR_MESSAGE_FORMAT; removed from Kafka by KIP-724).
	ErrMagic = errors.New("record format is not version 2")
	// ErrInvalid says that the batch arrived as it was written, but breaks a
	// rule (INVALID_RECORD).
	ErrInvalid = errors.New("batch is invalid")
	// ErrCodec says that the compression codec is unknown
	// (UNSUPPORTED_COMPRESSION_TYPE).
	ErrCodec = errors.New("compression codec is not supported")
	// ErrTimestamp says that a record's time is outside the bounds that the
	// topic sets (INVALID_TIMESTAMP).
	ErrTimestamp = errors.New("timestamp is out of bounds")
)
