package storage

import (
	"fmt"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
)

// Stamp names a record by time.
type Stamp struct {
	Offset ident.Offset
	// Timestamp is the record's, in milliseconds since the Unix epoch.
	Timestamp int64
	// Epoch is that of the record's batch.
	Epoch ident.LeaderEpoch
}

// OffsetForTime returns the first record at or above the log's start whose
// timestamp is at least ms; ok is false when there is none.
func (l *Log) OffsetForTime(ms int64) (s Stamp, ok bool, err error) {
	for {
		w, err := l.look()
		if err != nil {
			return Stamp{}, false, err
		}
		s, ok, err := l.offsetForTime(w, ms)
		if err == nil || !l.lookAgain(w, err) {
			return s, ok, err
		}
	}
}

func (l *Log) offsetForTime(w view, ms int64) (Stamp, bool, error) {
	for i := w.find(w.start); i < len(w.segments); i++ {
		m, err := l.youngestOf(w, i)
		if err != nil {
			return Stamp{}, false, err
		}
		if m.timestamp < ms {
			continue
		}
		s, ok, err := l.firstInSegment(w, i, func(o *openSegment) ident.Offset { return o.times.offset(ms) }, ms)
		if ok || err != nil {
			return s, ok, err
		}
	}
	return Stamp{}, false, nil
}

// MaxTimestamp returns the first record that has the highest timestamp; ok is
// false when the log has no record with one.
func (l *Log) MaxTimestamp() (s Stamp, ok bool, err error) {
	for {
		w, err := l.look()
		if err != nil {
			return Stamp{}, false, err
		}
		s, ok, err := l.maxTimestamp(w)
		if err == nil || !l.lookAgain(w, err) {
			return s, ok, err
		}
	}
}

func (l *Log) maxTimestamp(w view) (best Stamp, ok bool, err error) {
	first := w.find(w.start)
	found, in := noMark, -1
	for i := first; i < len(w.segments); i++ {
		m, err := l.youngestOf(w, i)
		if err == nil && w.segments[i].base < w.start {
			m, err = l.youngestFrom(w, i, w.start)
		}
		if err != nil {
			return Stamp{}, false, err
		}
		if m.timestamp > found.timestamp {
			found, in = m, i
		}
	}
	// The highest time of a batch is taken from its records: its header may
	// promise more than they hold, and of the batch that the log's start lies
	// in some are deleted.
	take := func(v batch.View, r batch.Record) bool {
		if r.Offset >= w.start && r.Timestamp >= 0 && (!ok || r.Timestamp > best.Timestamp) {
			best, ok = Stamp{r.Offset, r.Timestamp, v.LeaderEpoch()}, true
		}
		return true
	}
	if w.segments[first].base < w.start {
		holds := func(h batch.View) bool { return h.LastOffset() >= w.start }
		if err := l.decodeFrom(w, first, w.start, holds, take, true); err != nil {
			return Stamp{}, false, err
		}
	}
	if in >= 0 {
		holds := func(h batch.View) bool { return h.LastOffset() >= found.offset }
		err = l.decodeFrom(w, in, found.offset, holds, take, true)
	}
	return best, ok, err
}

// youngestOf returns the mark of segment i: its highest timestamp as the headers
// of its batches have it, and the first batch that has it.
func (l *Log) youngestOf(w view, i int) (mark, error) {
	s := w.segments[i]
	if i == len(w.segments)-1 {
		return w.youngest, nil
	}
	if m := s.sealed.Load(); m != nil {
		return *m, nil
	}
	_, end := w.bounds(i)
	// An index whose last entry names the segment's last offset is whole.
	if m, ok := peekLast(l.cfg.FS, s.stem+timeSuffix, s.base); ok && m.timestamp >= 0 && m.offset == end-1 {
		s.sealed.Store(&m)
		return m, nil
	}
	o, _, err := l.load(w, i)
	if err != nil {
		return noMark, err
	}
	defer o.log.release()
	return o.times.last(), nil
}

// youngestFrom returns the mark of segment i's batches that begin at or after
// offset from.
func (l *Log) youngestFrom(w view, i int, from ident.Offset) (mark, error) {
	o, size, err := l.load(w, i)
	if err != nil {
		return noMark, err
	}
	defer o.log.release()
	buf := l.buffer()
	defer l.buffers.Put(buf)
	m := noMark
	pos, err := o.walk(o.offsets.floor(from), size, *buf, func(_ int64, h batch.View, _ int) bool {
		if h.BaseOffset() >= from && h.MaxTimestamp() > m.timestamp {
			m = mark{h.MaxTimestamp(), h.LastOffset()}
		}
		return true
	})
	if err != nil {
		return noMark, w.segments[i].damage(pos, err)
	}
	return m, nil
}

// firstInSegment returns the first record of segment i at or above the log's
// start whose time is at least ms. from says where to begin.
func (l *Log) firstInSegment(w view, i int, from func(*openSegment) ident.Offset, ms int64) (s Stamp, ok bool, err error) {
	o, _, err := l.load(w, i)
	if err != nil {
		return Stamp{}, false, err
	}
	first := max(from(o), w.start)
	o.log.release()
	err = l.decodeFrom(w, i, first,
		func(h batch.View) bool { return h.LastOffset() >= w.start && h.MaxTimestamp() >= ms },
		func(v batch.View, r batch.Record) bool {
			if r.Offset >= w.start && r.Timestamp >= ms {
				s, ok = Stamp{r.Offset, r.Timestamp, v.LeaderEpoch()}, true
			}
			return !ok
		}, false)
	return s, ok, err
}

// decodeFrom walks over the headers of segment i, from the batch that holds
// offset from, and yields the records of those batches that candidate accepts,
// until yield returns false or, with one, after the first such batch.
func (l *Log) decodeFrom(w view, i int, from ident.Offset, candidate func(header batch.View) bool, yield func(batch.View, batch.Record) bool, one bool) error {
	o, size, err := l.load(w, i)
	if err != nil {
		return err
	}
	defer o.log.release()
	buf := l.buffer()
	defer l.buffers.Put(buf)
	var failed error
	stop, err := o.walk(o.offsets.floor(from), size, *buf, func(pos int64, h batch.View, length int) bool {
		if !candidate(h) {
			return true
		}
		v, more := make(batch.View, length), true
		if failed = readFull(o.log.file, v, pos); failed == nil {
			failed = batch.Records(v, l.cfg.Codecs, func(r batch.Record) bool {
				more = yield(v, r)
				return more
			})
		}
		if failed != nil {
			failed = fmt.Errorf("looking for a time in %s at %d: %w", w.segments[i].logPath(), pos, failed)
		}
		return failed == nil && more && !one
	})
	if err != nil {
		return w.segments[i].damage(stop, err)
	}
	return failed
}
