package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Run is a stretch of bytes that is written to the socket without passing
// through a reply's own memory, such as record batches of a segment file.
// storage.Chunk is one.
type Run interface {
	// Len returns how many bytes WriteTo will write.
	Len() int
	// WriteTo writes all bytes. It is called at most once.
	WriteTo(w io.Writer) (int64, error)
	// Close releases what the run holds. It is called exactly once, written
	// or not.
	Close() error
}

// Reply is a whole reply frame on its way to the socket: bytes, and runs
// between them. Build one with [NewReply], hand it over, and the receiver
// writes and closes it. Not safe for concurrent use.
type Reply struct {
	// buf holds the frame's own bytes; runs[i] goes in before buf[cuts[i]:].
	buf     []byte
	runs    []Run
	cuts    []int
	runSize int
}

// NewReply begins the reply to a request: length, correlation id and, for
// flexible versions, empty header tags.
func NewReply(h Header, flexible bool) *Reply {
	r := &Reply{buf: make([]byte, 8, 128)}
	binary.BigEndian.PutUint32(r.buf[4:], uint32(h.CorrelationID))
	if flexible && h.Key != keyApiVersions {
		r.buf = append(r.buf, 0)
	}
	return r
}

// Encode returns the reply that carries a kmsg response. The response's
// version must be set.
func Encode(h Header, resp kmsg.Response) *Reply {
	r := NewReply(h, resp.IsFlexible())
	r.buf = resp.AppendTo(r.buf)
	return r
}

// Append lets f append to the reply's bytes.
func (r *Reply) Append(f func([]byte) []byte) { r.buf = f(r.buf) }

// AppendRun places a run after what was appended so far. The reply owns it
// from then on.
func (r *Reply) AppendRun(run Run) {
	r.runs = append(r.runs, run)
	r.cuts = append(r.cuts, len(r.buf))
	r.runSize += run.Len()
}

// Size returns the number of bytes that WriteTo will write.
func (r *Reply) Size() int { return len(r.buf) + r.runSize }

// Held returns how many bytes of memory the reply holds, runs excluded.
func (r *Reply) Held() int { return len(r.buf) }

// ErrReplyTooLarge says that a frame cannot hold a reply, such as one with the
// subscriptions of thousands of members of a megabyte each.
var ErrReplyTooLarge = errors.New("a reply of 2 GiB or more")

// WriteTo writes the frame. It writes nothing if that would be too large.
func (r *Reply) WriteTo(w io.Writer) (int64, error) {
	size := r.Size() - 4
	if size > math.MaxInt32 {
		return 0, ErrReplyTooLarge
	}
	binary.BigEndian.PutUint32(r.buf, uint32(size))
	var total int64
	from := 0
	for i, run := range r.runs {
		n, err := w.Write(r.buf[from:r.cuts[i]])
		total += int64(n)
		if err != nil {
			return total, err
		}
		from = r.cuts[i]
		wrote, err := run.WriteTo(w)
		total += wrote
		if err != nil {
			return total, err
		}
	}
	n, err := w.Write(r.buf[from:])
	return total + int64(n), err
}

// Close releases the runs. The first error is returned.
func (r *Reply) Close() error {
	var first error
	for _, run := range r.runs {
		if err := run.Close(); err != nil && first == nil {
			first = err
		}
	}
	r.runs = nil
	return first
}
