package batch

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync"
)

const (
	varint32LenMax = 5
	varint64LenMax = 10
	// readBytesMin is how much is asked of a decompressor at once.
	readBytesMin = 4 << 10
	// windowBytesMax is the largest window that is kept for reuse.
	windowBytesMax = 64 << 10
)

// parser reads the fields of records from a batch's payload. Uncompressed
// payloads are read in place; compressed ones come through a window that is
// refilled from the decompressor and needs to hold no more than the caller
// asks to keep.
type parser struct {
	src    reader // nil when buf is the whole payload, or its end
	buf    []byte
	pos    int
	base   int64 // position of buf[0] in the decompressed payload
	rawMax int64
	pool   *sync.Pool // where the window came from, or nil
}

// newParser returns a parser over the records of v. The caller closes it.
func newParser(v View, c *Codecs, rawMax int64) (*parser, error) {
	if v.Codec() == None {
		return &parser{buf: v.payload(), rawMax: rawMax}, nil
	}
	src, err := c.decompress(v.Codec(), v.payload())
	if err != nil {
		return nil, err
	}
	p, ok := c.parsers.Get().(*parser)
	if !ok {
		p = &parser{}
	}
	*p = parser{src: src, buf: p.buf[:0], rawMax: rawMax, pool: &c.parsers}
	return p, nil
}

// close gives decompressor and window back. Nothing that take returned is valid
// after it.
func (p *parser) close() {
	p.releaseSource()
	if p.pool != nil && cap(p.buf) <= windowBytesMax {
		p.pool.Put(p)
	}
}

func (p *parser) releaseSource() {
	if p.src != nil {
		p.src.release()
		p.src = nil
	}
}

// offset is the position of the next byte in the decompressed payload.
func (p *parser) offset() int64 { return p.base + int64(p.pos) }

// fill tries to have n bytes at buf[pos:]. Fewer at the end of the payload
// are no error.
func (p *parser) fill(n int) error {
	for len(p.buf)-p.pos < n {
		if p.src == nil {
			return nil
		}
		p.makeRoom()
		got, err := p.src.Read(p.buf[len(p.buf):cap(p.buf)])
		p.buf = p.buf[:len(p.buf)+got]
		if p.base+int64(len(p.buf)) > p.rawMax {
			return fmt.Errorf("%w: records have more than %d bytes when decompressed", ErrInvalid, p.rawMax)
		}
		if err == io.EOF {
			p.releaseSource()
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeRoom moves the unread bytes to the front, and doubles the buffer when
// that frees less than a read's worth. So the buffer grows with what really
// comes, not with what a length field claims.
func (p *parser) makeRoom() {
	if cap(p.buf)-len(p.buf) >= readBytesMin {
		return
	}
	unread := p.buf[p.pos:]
	next := p.buf[:0]
	if cap(p.buf)-len(unread) < readBytesMin {
		next = make([]byte, 0, max(2*cap(p.buf), 2*readBytesMin))
	}
	p.base += int64(p.pos)
	p.buf = append(next, unread...)
	p.pos = 0
}

// take returns the next n bytes, valid until the next call of fill.
func (p *parser) take(n int) ([]byte, error) {
	if err := p.fill(n); err != nil {
		return nil, err
	}
	if len(p.buf)-p.pos < n {
		return nil, errTruncated()
	}
	b := p.buf[p.pos : p.pos+n : p.pos+n]
	p.pos += n
	return b, nil
}

// skip passes over n bytes and keeps none of them.
func (p *parser) skip(n int) error {
	for n > 0 {
		if err := p.fill(1); err != nil {
			return err
		}
		have := min(n, len(p.buf)-p.pos)
		if have == 0 {
			return errTruncated()
		}
		p.pos += have
		n -= have
	}
	return nil
}

// atEnd reports whether the payload is used up.
func (p *parser) atEnd() (bool, error) {
	err := p.fill(1)
	return len(p.buf) == p.pos, err
}

// varint64 reads a zigzag-encoded integer.
func (p *parser) varint64() (int64, error) { return p.varint(varint64LenMax) }

// varint32 reads a zigzag-encoded integer that must fit 32 bits.
func (p *parser) varint32() (int32, error) {
	n, err := p.varint(varint32LenMax)
	if err == nil && (n < math.MinInt32 || n > math.MaxInt32) {
		err = fmt.Errorf("%w: integer %d does not fit 32 bits", ErrInvalid, n)
	}
	return int32(n), err
}

func (p *parser) varint(lenMax int) (int64, error) {
	if err := p.fill(lenMax); err != nil {
		return 0, err
	}
	window := p.buf[p.pos:min(len(p.buf), p.pos+lenMax)]
	n, size := binary.Varint(window)
	if size <= 0 {
		if len(window) < lenMax {
			return 0, errTruncated()
		}
		return 0, fmt.Errorf("%w: integer is longer than %d bytes", ErrInvalid, lenMax)
	}
	p.pos += size
	return n, nil
}

func errTruncated() error { return fmt.Errorf("%w: records end early", ErrInvalid) }
