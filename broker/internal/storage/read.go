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
		if err == nil || !l.lookAgain(w, err) {
			return c, err
		}
	}
}

// lookAgain reports whether err may be due to a deletion or truncation since
// w, or was due to an index that has been made anew, so that looking again is
// worth while.
func (l *Log) lookAgain(w view, err error) bool {
	if wrong := (*indexError)(nil); errors.As(err, &wrong) {
		if err := l.reindex(wrong.segment); err != nil {
			l.cfg.Logger.Warn("index could not be made anew", "segment", wrong.segment.stem, "error", err)
			return false
		}
		l.cfg.Logger.Warn("index did not match its segment and was made anew", "segment", wrong.segment.stem)
		return true
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return !l.closed && (l.cuts != w.cuts || (errors.Is(err, errGone) && l.segments[0] != w.segments[0]))
}

// reindex makes the indexes of a segment anew, if it is still there.
func (l *Log) reindex(s *segment) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if s != l.tail.segment {
		return s.forgetIndexes()
	}
	x := l.tail.files.restart(l.settings.Load().IndexInterval)
	buf := l.buffer()
	defer l.buffers.Put(buf)
	stop, err := walk(x.files.log.file, 0, s.size.Load(), *buf, func(pos int64, h batch.View, length int) bool {
		return x.add(pos, h, length) == nil
	})
	l.tail.indexer = x
	if err != nil {
		return s.damage(stop, err)
	}
	return nil
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

// place is where a batch lies in a segment's file.
type place struct {
	pos    int64
	length int64
	last   ident.Offset
}

// place returns the first batch that ends at or after offset from; ok is false
// when the segment ends before.
func (o *openSegment) place(from ident.Offset, size int64, buf []byte) (p place, ok bool, err error) {
	stop, err := o.walk(o.offsets.floor(from), size, buf, func(pos int64, h batch.View, length int) bool {
		ok = h.LastOffset() >= from
		p = place{pos, int64(length), h.LastOffset()}
		return !ok
	})
	if err != nil {
		p.pos = stop
	}
	return p, ok, err
}

// extent returns the range of a segment's file that answers r; on an error,
// stop is where it was met. whole says that no batch of the segment ends
// beyond r.end.
func extent(o *openSegment, size int64, buf []byte, r readRequest, whole bool) (begin, stop int64, found bool, err error) {
	first, found, err := o.place(r.from, size, buf)
	begin = first.pos
	switch {
	case err != nil || !found || first.last >= r.end:
		return begin, begin, found, err
	case first.length > r.maxBytes && !r.atLeastOne:
		return begin, begin, true, nil
	case first.length >= r.maxBytes:
		return begin, begin + first.length, true, nil
	case whole && size-begin <= r.maxBytes:
		return begin, size, true, nil
	}
	// The index knows a batch near the limit; look for the last one from
	// there.
	limit := min(size, begin+r.maxBytes)
	near := o.offsets.boundary(limit, r.end)
	if near.pos < begin {
		near = offsetEntry{first.last, begin}
	}
	stop, err = o.walk(near, size, buf, func(pos int64, h batch.View, length int) bool {
		return pos+int64(length) <= limit && h.LastOffset() < r.end
	})
	return begin, stop, true, err
}

// Replay calls f with every batch that ends after from, in order, up to the
// end of the log. The view is valid until f returns. It stops at the first
// error and returns it.
func (l *Log) Replay(from ident.Offset, f func(batch.View) error) error {
	next := from
	visit := func(_ int64, v batch.View) error {
		if err := f(v); err != nil {
			return err
		}
		next = v.NextOffset()
		return nil
	}
	for {
		w, err := l.look()
		if err != nil {
			return err
		}
		for i := w.find(next); err == nil && i < len(w.segments); i++ {
			err = l.replaySegment(w, i, next, visit)
		}
		if err == nil || !l.lookAgain(w, err) {
			return err
		}
	}
}

func (l *Log) replaySegment(w view, i int, from ident.Offset, visit func(int64, batch.View) error) error {
	o, size, err := l.load(w, i)
	if err != nil {
		return err
	}
	defer o.log.release()
	buf := l.buffer()
	defer l.buffers.Put(buf)
	first, found, err := o.place(from, size, *buf)
	stop := first.pos
	if err == nil && found {
		stop, err = scan(o.log.file, stop, size, visit)
	}
	if bad := (*badBatch)(nil); errors.As(err, &bad) || errors.Is(err, errIndex) {
		return w.segments[i].damage(stop, err)
	}
	return err
}
