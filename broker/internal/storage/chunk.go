package storage

import "io"

// Chunk is a run of whole batches in a segment's file. Its bytes are read when
// they are asked for, so that they can go from file to socket; Close must be
// called once afterwards. A Chunk is a value; its copies share that Close. The
// zero Chunk is empty.
type Chunk struct {
	n int
}

// Len returns the number of bytes.
func (c Chunk) Len() int { return c.n }

// ReadAt reads from offset off of the chunk, as [io.ReaderAt].
func (c Chunk) ReadAt(p []byte, off int64) (int, error) { panic("being written") }

// Append appends all bytes of the chunk to dst.
func (c Chunk) Append(dst []byte) ([]byte, error) { panic("being written") }

// WriteTo writes all bytes of the chunk to w.
func (c Chunk) WriteTo(w io.Writer) (int64, error) { panic("being written") }

// Close releases the segment. The chunk must not be used afterwards.
func (c Chunk) Close() error { panic("being written") }
