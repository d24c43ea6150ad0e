package batch

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/broker/internal/ident"
)

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
// returns. It does not verify the checksum. Errors are ErrInvalid or ErrCodec;
// records before the fault have been yielded by then.
//
// Compressed batches are decoded as a stream, so that memory is bounded by the
// largest record, which in turn is bounded by RawBytesMaxDefault. The decoder is
// on loan until Records returns: yield must not decode another batch.
func Records(v View, c *Codecs, yield func(Record) bool) error {
	return eachRecord(v, c, RawBytesMaxDefault, true, func(_ int32, r *rawRecord) (bool, error) {
		return yield(Record{
			Offset:    v.BaseOffset() + ident.Offset(r.offsetDelta),
			Timestamp: r.timestamp,
			Key:       r.key,
			Value:     r.value,
			Headers:   r.headers,
		}), nil
	})
}

// Times is Records for those who need offset and time in milliseconds only:
// keys, values and headers are passed over, so that memory is bounded whatever
// the batch holds. The same goes for yield.
func Times(v View, c *Codecs, yield func(offset ident.Offset, ms int64) bool) error {
	return eachRecord(v, c, RawBytesMaxDefault, false, func(_ int32, r *rawRecord) (bool, error) {
		return yield(v.BaseOffset()+ident.Offset(r.offsetDelta), r.timestamp), nil
	})
}

// rawRecord is a record as its batch has it, with the time already resolved.
type rawRecord struct {
	timestamp   int64
	offsetDelta int32
	hasKey      bool

	// The rest is filled in only when contents are kept.
	key, value []byte
	headers    []Header
}

// eachRecord decodes the records of v and calls do with index and record,
// until it returns false or an error. The record is reused by the next call.
// Without keep, contents are passed over. Bytes after the last record are an
// error, as in Kafka's DefaultRecordBatch.
func eachRecord(v View, c *Codecs, rawMax int64, keep bool, do func(int32, *rawRecord) (bool, error)) error {
	p, err := newParser(v, c, rawMax)
	if err != nil {
		return err
	}
	defer p.close()
	var r rawRecord
	for i := range v.NumRecords() {
		if err := p.record(v, &r, keep); err != nil {
			return &RecordError{Index: i, Err: err}
		}
		if more, err := do(i, &r); err != nil || !more {
			return err
		}
	}
	end, err := p.atEnd()
	if err != nil {
		return err
	}
	if !end {
		return fmt.Errorf("%w: bytes follow the last of %d records", ErrInvalid, v.NumRecords())
	}
	return nil
}

// record reads the next record.
func (p *parser) record(v View, r *rawRecord, keep bool) error {
	length, err := p.varint32()
	if err != nil {
		return err
	}
	if length < 0 {
		return fmt.Errorf("%w: record has length %d", ErrInvalid, length)
	}
	if keep {
		// With the whole record in the window, and room for the longest integer
		// that the fields' reading may ask for beyond it, the window does not
		// move and slices into it stay valid until the next record.
		if err := p.fill(int(length) + varint64LenMax); err != nil {
			return err
		}
	}
	start := p.offset()
	if err := p.recordBody(v, r, keep); err != nil {
		return err
	}
	if used := p.offset() - start; used != int64(length) {
		return fmt.Errorf("%w: record says it has %d bytes, but its fields have %d", ErrInvalid, length, used)
	}
	return nil
}

// recordBody reads the fields after the length.
func (p *parser) recordBody(v View, r *rawRecord, keep bool) error {
	if err := p.skip(1); err != nil { // attributes, of which none is in use
		return err
	}
	timeDelta, err := p.varint64()
	if err != nil {
		return err
	}
	if r.timestamp, err = recordTime(v, timeDelta); err != nil {
		return err
	}
	if r.offsetDelta, err = p.varint32(); err != nil {
		return err
	}
	if r.key, r.hasKey, err = p.nullable(keep); err != nil {
		return err
	}
	if r.value, _, err = p.nullable(keep); err != nil {
		return err
	}
	return p.headers(r, keep)
}

func recordTime(v View, delta int64) (int64, error) {
	if v.TimestampType() == LogAppendTime {
		return v.MaxTimestamp(), nil
	}
	base := v.BaseTimestamp()
	t := base + delta
	if (delta > 0 && t < base) || (delta < 0 && t > base) {
		return 0, fmt.Errorf("%w: base time %d plus %d overflows", ErrTimestamp, base, delta)
	}
	return t, nil
}

// nullable reads a length and as many bytes; ok is false when the field is
// null.
func (p *parser) nullable(keep bool) (b []byte, ok bool, err error) {
	n, err := p.varint32()
	if err != nil {
		return nil, false, err
	}
	if n < 0 {
		if n != -1 {
			return nil, false, fmt.Errorf("%w: field has length %d", ErrInvalid, n)
		}
		return nil, false, nil
	}
	if !keep {
		return nil, true, p.skip(int(n))
	}
	b, err = p.take(int(n))
	return b, true, err
}

func (p *parser) headers(r *rawRecord, keep bool) error {
	count, err := p.varint32()
	if err != nil {
		return err
	}
	if count < 0 || count == math.MaxInt32 {
		return fmt.Errorf("%w: record has %d headers", ErrInvalid, count)
	}
	r.headers = r.headers[:0]
	for range count {
		key, ok, err := p.nullable(keep)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: header without a key", ErrInvalid)
		}
		value, _, err := p.nullable(keep)
		if err != nil {
			return err
		}
		if keep {
			r.headers = append(r.headers, Header{Key: string(key), Value: value})
		}
	}
	return nil
}
