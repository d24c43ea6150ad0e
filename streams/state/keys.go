package state

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace/millrace/streams/window"
)

const (
	windowTailLen  = 8 + 4 // start, sequence
	sessionTailLen = 8 + 8 // end, start
)

// AppendWindowKey appends the key that a window store and its changelog use
// for a key's window: key, start, sequence. Sequence is 0 unless several
// values share key and start.
func AppendWindowKey(dst, key []byte, start window.Instant, sequence int32) []byte {
	dst = append(dst, key...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(start))
	return binary.BigEndian.AppendUint32(dst, uint32(sequence))
}

// SplitWindowKey takes the key of a window store apart. The key returned
// aliases b.
func SplitWindowKey(b []byte) (key []byte, start window.Instant, sequence int32, err error) {
	n := len(b) - windowTailLen
	if n < 0 {
		return nil, 0, 0, fmt.Errorf("window key of %d bytes is shorter than its tail of %d", len(b), windowTailLen)
	}
	start = window.Instant(binary.BigEndian.Uint64(b[n:]))
	sequence = int32(binary.BigEndian.Uint32(b[n+8:]))
	if start < 0 {
		return nil, 0, 0, fmt.Errorf("window key has the negative start %d", start)
	}
	return b[:n:n], start, sequence, nil
}

// AppendSessionKey appends the key that a session store and its changelog use
// for a key's session: key, time of the last record, time of the first. The
// span is half-open as everywhere; only the bytes hold the inclusive end.
func AppendSessionKey(dst, key []byte, span window.Span) []byte {
	dst = append(dst, key...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(span.Last()))
	return binary.BigEndian.AppendUint64(dst, uint64(span.Start))
}

// SplitSessionKey takes the key of a session store apart. The key returned
// aliases b.
func SplitSessionKey(b []byte) (key []byte, span window.Span, err error) {
	n := len(b) - sessionTailLen
	if n < 0 {
		return nil, window.Span{}, fmt.Errorf("session key of %d bytes is shorter than its tail of %d", len(b), sessionTailLen)
	}
	last := window.Instant(binary.BigEndian.Uint64(b[n:]))
	start := window.Instant(binary.BigEndian.Uint64(b[n+8:]))
	if start < 0 || last < start || last+1 < last {
		return nil, window.Span{}, fmt.Errorf("session key has its first record at %d and its last at %d", start, last)
	}
	return b[:n:n], window.Span{Start: start, End: last + 1}, nil
}
