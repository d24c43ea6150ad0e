package wire

import "fmt"

// Limits bounds the size of request frames, in bytes without the length.
type Limits struct {
	// Produce bounds Produce requests: Kafka's socket.request.max.bytes.
	// Zero means 100 MiB.
	Produce int
	// Other bounds all other requests. Zero means 1 MiB.
	Other int
}

// WithDefaults returns the limits with zeros replaced.
func (l Limits) WithDefaults() Limits {
	if l.Produce == 0 {
		l.Produce = 100 << 20
	}
	if l.Other == 0 {
		l.Other = 1 << 20
	}
	return l
}

// Check fails with [ErrMalformed] when no request of this key may be as large,
// or as small, as size.
func (l Limits) Check(key int16, size int) error {
	limit := l.Other
	if key == keyProduce {
		limit = l.Produce
	}
	if size > limit {
		return fmt.Errorf("%w: a frame of %d bytes for API key %d, the limit is %d", ErrMalformed, size, key, limit)
	}
	return nil
}

// Factors between a frame and the memory that it takes with all that is
// decoded from it. kmsg refuses counts that cannot fit the frame, yet a small
// element becomes a larger struct. A produce request is nearly all record
// bytes, which are not copied.
const (
	costProduce = 2
	costOther   = 16
)

// Cost is how many bytes to reserve for a request before decoding it.
func Cost(key int16, size int) int64 {
	if key == keyProduce {
		return int64(size) * costProduce
	}
	return int64(size) * costOther
}
