package storage

import (
	"errors"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
)

// Read returns whole batches from the one that holds offset from, or the next
// one if from lies in a gap, up to maxBytes or the exclusive offset end,
// whichever comes first. The first batch may begin below from. The chunk ends
// at the latest with a segment; it is empty when nothing lies before end. With
// atLeastOne a first batch larger than maxBytes is returned alone.
//
// The error is an [OutOfRangeError] when from is not in [Start, End].
func (l *Log) Read(from, end ident.Offset, maxBytes int, atLeastOne bool) (Chunk, error) {
	for {
		w, err := l.look()
		if err != nil {
			return Chunk{}, err
		}
		if from < w.start || from > w.end {
			return Chunk{}, &OutOfRangeError{Offset: from, Start: w.start, End: w.end}
		}
		c, err := l.read(w, readRequest{from, min(end, w.end), int64(maxBytes), atLeastOne})
		if err == nil || !l.changedSince(w, err) {
			return c, err
		}
	}
}

// changedSince reports whether err may be due to a deletion or truncation
// since w, so that looking again is worth while.
func (l *Log) changedSince(w view, err error) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return !l.closed && (l.cuts != w.cuts || (errors.Is(err, errGone) && l.segments[0] != w.segments[0]))
}

type readRequest struct {
	from, end  ident.Offset
	maxBytes   int64
	atLeastOne bool
}

func (l *Log) read(w view, r readRequest) (Chunk, error) {
	if r.from >= r.end {
		return Chunk{}, nil
	}
	for i := w.find(r.from); i < len(w.segments); i++ {
		c, found, err := l.readSegment(w, i, r)
		if found || err != nil {
			return c, err
		}
		// All that the segment holds ends before from: it lies in a gap.
	}
	return Chunk{}, nil
}

// readSegment looks for the batches in segment i. found is false when the
// segment ends before the first of them.
func (l *Log) readSegment(w view, i int, r readRequest) (c Chunk, found bool, err error) {
	o, size, err := l.load(w, i)
	if err != nil {
		return Chunk{}, false, err
	}
	buf := l.buffer()
	defer l.buffers.Put(buf)
	begin, stop, found, err := extent(o, size, *buf, r, w.endsBefore(i, r.end))
	if err != nil || begin == stop {
		o.log.release()
		if err != nil {
			err = w.segments[i].damage(stop, err)
		}
		return Chunk{}, found, err
	}
	return Chunk{log: o.log, pos: begin, n: int(stop - begin)}, true, nil
}

// endsBefore reports whether all batches of segment i end at or before end.
func (w view) endsBefore(i int, end ident.Offset) bool {
	_, segmentEnd := w.bounds(i)
	return segmentEnd <= end
}

// extent returns the range of a segment's file that answers r. whole says that
// no batch of the segment ends beyond r.end.
func extent(o *openSegment, size int64, buf []byte, r readRequest, whole bool) (begin, stop int64, found bool, err error) {
	var firstLength int64
	firstFits := false
	begin, err = walk(o.log.file, o.offsets.position(r.from), size, buf, func(_ int64, h batch.View, length int) bool {
		if h.LastOffset() < r.from {
			return true
		}
		found = true
		firstLength, firstFits = int64(length), h.NextOffset() <= r.end
		return false
	})
	switch {
	case err != nil || !found:
		return begin, begin, found, err
	case !firstFits:
		return begin, begin, true, nil
	case firstLength >= r.maxBytes:
		if r.atLeastOne || firstLength == r.maxBytes {
			return begin, begin + firstLength, true, nil
		}
		return begin, begin, true, nil
	case whole && size-begin <= r.maxBytes:
		return begin, size, true, nil
	}
	// The index knows a boundary near the limit; look for the last one from
	// there.
	limit := min(size, begin+r.maxBytes)
	stop = max(begin, o.offsets.boundary(limit, r.end))
	stop, err = walk(o.log.file, stop, size, buf, func(pos int64, h batch.View, length int) bool {
		return pos+int64(length) <= limit && h.NextOffset() <= r.end
	})
	return begin, stop, true, err
}

// Replay calls f with every batch that ends after from, in order, up to the
// end of the log. The view is valid until f returns. It stops at the first
// error and returns it.
func (l *Log) Replay(from ident.Offset, f func(batch.View) error) error {
	w, err := l.look()
	if err != nil {
		return err
	}
	for i := w.find(from); i < len(w.segments); i++ {
		o, size, err := l.load(w, i)
		if err != nil {
			return err
		}
		stop, err := scan(o.log.file, o.offsets.position(from), size, func(_ int64, v batch.View) error {
			if v.LastOffset() < from {
				return nil
			}
			return f(v)
		})
		o.log.release()
		if bad := (*badBatch)(nil); errors.As(err, &bad) {
			return w.segments[i].damage(stop, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
