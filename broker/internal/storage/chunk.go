package storage

import (
	"fmt"
	"io"
	"slices"
)

// Chunk is a run of whole batches in a segment's file. Its bytes are read when
// they are asked for, so that they can go from file to socket; Close must be
// called once afterwards. A Chunk is a value; its copies share that Close. The
// zero Chunk is empty. Methods may be called concurrently, but for Close.
//
// The bytes are there as long as the chunk is not closed, also when the segment
// is deleted. If the log's tail is truncated below the chunk's end meanwhile,
// reading fails or gives what was appended in its place; no offset below the
// high watermark is ever truncated.
type Chunk struct {
	log *handle
	pos int64
	n   int
}

// Len returns the number of bytes.
func (c Chunk) Len() int { return c.n }

// ReadAt reads from offset off of the chunk, as [io.ReaderAt].
func (c Chunk) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("reading chunk at negative offset %d", off)
	}
	left := int64(c.n) - off
	if left <= 0 {
		return 0, io.EOF
	}
	short := int64(len(p)) > left
	if short {
		p = p[:left]
	}
	n, err := c.log.file.ReadAt(p, c.pos+off)
	switch {
	case n < len(p) && err == io.EOF:
		err = io.ErrUnexpectedEOF
	case n == len(p) && short:
		err = io.EOF
	case n == len(p):
		err = nil
	}
	return n, err
}

// Append appends all bytes of the chunk to dst. On an error it returns dst as
// it was.
func (c Chunk) Append(dst []byte) ([]byte, error) {
	if c.n == 0 {
		return dst, nil
	}
	old := len(dst)
	dst = slices.Grow(dst, c.n)[:old+c.n]
	if n, err := c.ReadAt(dst[old:], 0); n < c.n {
		return dst[:old], fmt.Errorf("reading %d bytes of a segment at %d: %w", c.n, c.pos, err)
	}
	return dst, nil
}

// WriteTo writes all bytes of the chunk to w.
func (c Chunk) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, io.NewSectionReader(c, 0, int64(c.n)))
}

// Close releases the segment. The chunk must not be used afterwards.
func (c Chunk) Close() error {
	if c.log == nil {
		return nil
	}
	return c.log.release()
}
