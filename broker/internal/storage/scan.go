package storage

import (
	"errors"
	"fmt"
	"io"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
)

const (
	// scanBuffer is how much of a segment is read at once when all of it is.
	scanBuffer = 1 << 20
	// walkBuffer is how much is read at once when only headers are looked at.
	// It spans the batches between two index entries.
	walkBuffer = indexIntervalDefault
)

// badBatch says that no sound batch lies where one was expected. It is told
// from errors of reading, which say nothing about what the disk holds.
type badBatch struct{ cause error }

func (e *badBatch) Error() string { return e.cause.Error() }
func (e *badBatch) Unwrap() error { return e.cause }

// readFull fills p from off. Running into the end of the file, which the
// caller knows to be further off, is a fault of the file.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == io.EOF:
		return &badBatch{io.ErrUnexpectedEOF}
	}
	return err
}

// scan calls visit with each whole batch in [pos, size) of a segment, in
// order, and returns where it stopped. A *badBatch error says that the bytes
// there are no batch; visit may return one too. The view is valid until visit
// returns.
func scan(r io.ReaderAt, pos, size int64, visit func(pos int64, v batch.View) error) (int64, error) {
	buf := make([]byte, min(scanBuffer, size-pos))
	for pos < size {
		window := buf[:min(int64(len(buf)), size-pos)]
		if err := readFull(r, window, pos); err != nil {
			return pos, err
		}
		rest := window
		for {
			v, after, err := batch.Next(rest)
			if errors.Is(err, batch.ErrShort) {
				break
			}
			if err != nil {
				return pos, &badBatch{err}
			}
			if err := visit(pos, v); err != nil {
				return pos, err
			}
			pos += int64(v.Size())
			rest = after
		}
		if len(rest) < len(window) {
			continue
		}
		// Not even one batch fitted.
		need, err := sizeOf(rest, size-pos)
		if err != nil {
			return pos, err
		}
		if need > len(buf) {
			buf = make([]byte, need)
		}
	}
	return pos, nil
}

// sizeOf returns the size of the batch that prefix begins, which must not be
// larger than what is left of the file.
func sizeOf(prefix []byte, left int64) (int, error) {
	need, err := batch.SizeOf(prefix)
	if err != nil {
		return 0, &badBatch{err}
	}
	if int64(need) > left {
		return 0, &badBatch{fmt.Errorf("%w: it claims %d bytes, but %d are left", batch.ErrShort, need, left)}
	}
	return need, nil
}

// walk calls visit with the header of each batch in [pos, size) until visit
// returns false, and returns where it stopped. The header is a view of
// batch.HeaderLen bytes, valid until visit returns; length is the whole
// batch's. buf holds walkBuffer bytes.
func walk(r io.ReaderAt, pos, size int64, buf []byte, visit func(pos int64, header batch.View, length int) bool) (int64, error) {
	var window []byte // bytes of the file from pos on
	for pos < size {
		if len(window) < batch.HeaderLen {
			window = buf[:min(int64(len(buf)), size-pos)]
			if err := readFull(r, window, pos); err != nil {
				return pos, err
			}
			if len(window) < batch.HeaderLen {
				return pos, &badBatch{batch.ErrShort}
			}
		}
		header := batch.View(window[:batch.HeaderLen:batch.HeaderLen])
		length, err := sizeOf(header, size-pos)
		if err != nil {
			return pos, err
		}
		if header.Magic() != batch.Magic {
			return pos, &badBatch{batch.ErrMagic}
		}
		if !visit(pos, header, length) {
			return pos, nil
		}
		pos += int64(length)
		window = window[min(length, len(window)):]
	}
	return pos, nil
}

// successor holds what a batch must keep to that follows others in a log.
type successor struct {
	// next is the smallest offset that the batch may have.
	next ident.Offset
	// epoch is the smallest leader epoch that it may have.
	epoch ident.LeaderEpoch
}

// admit checks that v continues the log and moves on to what follows it.
func (s *successor) admit(v batch.View) error {
	if v.BaseOffset() < s.next || v.LastOffset() < v.BaseOffset() {
		return fmt.Errorf("%w: offsets %d to %d, expected from %d", ErrOutOfOrder, v.BaseOffset(), v.LastOffset(), s.next)
	}
	if v.LeaderEpoch() < s.epoch {
		return fmt.Errorf("%w: leader epoch %d comes after %d", ErrOutOfOrder, v.LeaderEpoch(), s.epoch)
	}
	s.next, s.epoch = v.NextOffset(), v.LeaderEpoch()
	return nil
}

// hasBatch reports whether a whole, sound batch that s would admit
// lies anywhere in [pos, size): what a disk leaves behind that
// wrote a later part of the file and not an earlier one.
func hasBatch(r io.ReaderAt, pos, size int64, s successor) (bool, error) {
	const step = scanBuffer
	buf := make([]byte, min(step+batch.HeaderLen, size-pos))
	for ; pos < size; pos += step {
		window := buf[:min(int64(len(buf)), size-pos)]
		if err := readFull(r, window, pos); err != nil {
			return false, err
		}
		for i := 0; i+batch.HeaderLen <= len(window); i++ {
			header := batch.View(window[i : i+batch.HeaderLen])
			if header.Magic() != batch.Magic || header.BaseOffset() < s.next || header.LeaderEpoch() < s.epoch {
				continue
			}
			length, err := sizeOf(header, size-pos-int64(i))
			if err != nil || header.LastOffset() < header.BaseOffset() {
				continue
			}
			v := make(batch.View, length)
			if err := readFull(r, v, pos+int64(i)); err != nil {
				return false, err
			}
			if v.VerifyCRC() == nil {
				return true, nil
			}
		}
	}
	return false, nil
}
