package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// recordWriter writes record batches of one schema, each as one encapsulated
// message of the Arrow IPC format.
//
// The Go library only writes whole streams, which begin with the schema. So a
// stream is begun with an empty batch, and what that wrote is thrown away.
type recordWriter struct {
	buf    bytes.Buffer
	stream *ipc.Writer
}

func newRecordWriter(schema *arrow.Schema) (*recordWriter, error) {
	w := &recordWriter{}
	w.stream = ipc.NewWriter(&w.buf, ipc.WithSchema(schema))
	if _, err := w.write(emptyRecord(schema)); err != nil {
		return nil, err
	}
	return w, nil
}

func emptyRecord(schema *arrow.Schema) arrow.Record {
	b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
	defer b.Release()
	return b.NewRecord()
}

// write returns rec as bytes that belong to the caller, and releases it.
func (w *recordWriter) write(rec arrow.Record) ([]byte, error) {
	defer rec.Release()
	w.buf.Reset()
	if err := w.stream.Write(rec); err != nil {
		return nil, err
	}
	return bytes.Clone(w.buf.Bytes()), nil
}

// recordReader reads what a recordWriter wrote. It begins its stream with the
// schema that it expects, so that none is taken from the wire: the library
// trusts the lengths that a schema claims, and allocates as much.
type recordReader struct {
	feed   bytes.Reader
	limit  boundedAllocator
	stream *ipc.Reader
}

func newRecordReader(schema *arrow.Schema) (*recordReader, error) {
	var buf bytes.Buffer
	begin := ipc.NewWriter(&buf, ipc.WithSchema(schema))
	rec := emptyRecord(schema)
	defer rec.Release()
	if err := begin.Write(rec); err != nil {
		return nil, err
	}
	r := &recordReader{limit: boundedAllocator{bytesMax: buf.Len()}}
	r.feed.Reset(buf.Bytes())
	stream, err := ipc.NewReader(&r.feed, ipc.WithAllocator(&r.limit))
	if err != nil {
		return nil, err
	}
	r.stream = stream
	if !stream.Next() {
		return nil, errors.Join(errors.New("arrow does not read what it wrote"), stream.Err())
	}
	return r, nil
}

// read returns the record batch in message.
func (r *recordReader) read(message []byte) (arrow.Record, error) {
	const prefix = 8 // a marker and the length of the metadata
	if len(message) < prefix || binary.LittleEndian.Uint32(message) != 0xffffffff {
		return nil, errors.New("it is not an Arrow message")
	}
	if n := binary.LittleEndian.Uint32(message[4:]); int64(n) > int64(len(message)-prefix) {
		return nil, fmt.Errorf("an Arrow message of %d bytes claims %d bytes of metadata", len(message), n)
	}
	r.feed.Reset(message)
	r.limit.bytesMax = len(message)
	if !r.stream.Next() {
		return nil, errors.Join(errors.New("it is not an Arrow record batch"), r.stream.Err())
	}
	rec := r.stream.Record()
	rec.Retain() // the stream releases it at the next one; it lives until it is collected
	if rec.NumRows() < 0 || rec.NumRows() > int64(8*len(message)) {
		return nil, fmt.Errorf("an Arrow message of %d bytes claims %d rows", len(message), rec.NumRows())
	}
	return rec, nil
}

// boundedAllocator refuses to allocate more than the message holds, whatever
// lengths it claims; the panic is recovered by BatchReader.
type boundedAllocator struct {
	memory.GoAllocator
	bytesMax int
}

func (a *boundedAllocator) Allocate(size int) []byte {
	a.check(size)
	return a.GoAllocator.Allocate(size)
}

func (a *boundedAllocator) Reallocate(size int, b []byte) []byte {
	a.check(size)
	return a.GoAllocator.Reallocate(size, b)
}

func (a *boundedAllocator) check(size int) {
	const rounding = 64 // Arrow rounds lengths up
	if size < 0 || size > a.bytesMax+rounding {
		panic(fmt.Sprintf("an Arrow message of %d bytes claims a buffer of %d", a.bytesMax, size))
	}
}
