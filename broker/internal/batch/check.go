package batch

// Level says how much of a produced batch is checked (setting
// batch.validation).
type Level int8

const (
	// LevelFull checks the header and decodes every record, as Kafka does.
	LevelFull Level = iota
	// LevelHeader checks checksum and header only, and trusts the client that
	// the records are sound.
	LevelHeader
)

// RawBytesMaxDefault is how many bytes the records of one compressed batch may
// have when decompressed: 1 GiB.
const RawBytesMaxDefault int64 = 1 << 30

// Rules are what a produced batch must keep to. The zero value is the full
// level without restrictions of a topic.
type Rules struct {
	Level Level
	// RequireKeys refuses records without a key, which compaction cannot
	// handle. It needs every record decoded, whatever Level says.
	RequireKeys bool
	// CheckTimestamps refuses records whose time is not NoTimestamp and lies
	// outside [TimestampMin, TimestampMax], in milliseconds. At LevelHeader
	// only the times in the header are looked at.
	CheckTimestamps            bool
	TimestampMin, TimestampMax int64
	// RawBytesMax bounds the decompressed size; 0 means RawBytesMaxDefault.
	RawBytesMax int64
}

// Facts is what a check learned about a batch.
type Facts struct {
	// MaxTimestamp is the highest time of any record in milliseconds, or
	// NoTimestamp: true at LevelFull, the header's claim at LevelHeader.
	MaxTimestamp int64
	// Records is the count of records.
	Records int32
	// RawBytes is the decompressed size of the records; at LevelHeader it is
	// the size as stored.
	RawBytes int64
}

// RecordError is a fault of one record. It wraps ErrInvalid or ErrTimestamp.
type RecordError struct {
	// Index counts from 0 within the batch.
	Index int32
	Err   error
}

func (e *RecordError) Error() string { panic("being written") }

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// Check verifies checksum and header of v and, at LevelFull, every record. The
// batch must have been framed by [Next]. It changes nothing and keeps nothing.
func (r Rules) Check(v View, c *Codecs) (Facts, error) { panic("being written") }

// Validate is Rules.Check without restrictions of a topic.
func Validate(v View, level Level, c *Codecs) error {
	_, err := Rules{Level: level}.Check(v, c)
	return err
}
