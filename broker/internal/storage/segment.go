package storage

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// segment is one file of the log with its indexes. Sealed segments are opened
// when first used; only their name and size are known before.
type segment struct {
	fs   disk.FS
	base ident.Offset
	stem string

	// size is the bytes of whole batches. It changes under Log.mu.
	size atomic.Int64
	// synced is how many bytes are durable, indexed whether the indexes of a
	// sealed segment are too. Both are guarded by Log.mu.
	synced  int64
	indexed bool

	// opening serialises load and drop; open is nil before and after.
	opening sync.Mutex
	open    atomic.Pointer[openSegment]
	gone    bool        // guarded by opening: the segment was deleted
	used    atomic.Bool // since the last look for idle segments

	// sealed is the youngest mark of a sealed segment; nil when not known yet.
	sealed atomic.Pointer[mark]
}

// openSegment is a segment's open file and its indexes.
type openSegment struct {
	log     *handle
	offsets *offsetIndex
	times   *timeIndex
}

// errGone says that a segment was deleted while someone was about to read it.
var errGone = errors.New("segment was deleted")

func newSegment(fsys disk.FS, dir string, base ident.Offset) *segment {
	return &segment{fs: fsys, base: base, stem: stem(dir, base)}
}

func (s *segment) logPath() string { return s.stem + logSuffix }

// indexError says that the index of a segment names a batch that is not there.
type indexError struct{ segment *segment }

func (e *indexError) Error() string { return e.segment.stem + ": " + errIndex.Error() }

// damage makes an error of a bad batch in what was trusted to be sound.
func (s *segment) damage(pos int64, err error) error {
	if errors.Is(err, errIndex) {
		return &indexError{s}
	}
	if bad := (*badBatch)(nil); errors.As(err, &bad) {
		return &DamageError{File: s.logPath(), Position: pos, Cause: bad.cause}
	}
	return fmt.Errorf("reading %s at %d: %w", s.logPath(), pos, err)
}

// create makes the files of a new, empty segment. Files of its name can only
// be what a crash left of a segment that never counted, and are emptied.
func (s *segment) create(reserve int64) (*openSegment, error) {
	o, err := s.openFiles(s.fs.OpenWrite)
	if err != nil {
		return nil, err
	}
	o.offsets.clear()
	o.times.clear()
	err = o.log.file.Truncate(0)
	if err == nil && reserve > 0 {
		err = o.log.file.Reserve(reserve)
	}
	if err == nil {
		err = errors.Join(o.offsets.write(), o.times.write())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating segment: %w", err), o.close())
	}
	s.open.Store(o)
	return o, nil
}

// reopen opens a segment for writing that may have been opened for reading.
// Readers find it open at any moment.
func (s *segment) reopen() (*openSegment, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	o, err := s.openFiles(s.fs.OpenWrite)
	if err != nil {
		return nil, err
	}
	if old := s.open.Swap(o); old != nil {
		return o, old.close()
	}
	return o, nil
}

// openFiles opens the log and reads both indexes, unchecked.
func (s *segment) openFiles(open func(string) (disk.File, error)) (*openSegment, error) {
	file, err := open(s.logPath())
	if err != nil {
		return nil, fmt.Errorf("opening segment: %w", err)
	}
	o := &openSegment{log: newHandle(file), offsets: &offsetIndex{base: s.base}, times: &timeIndex{base: s.base}}
	err = errors.Join(o.offsets.read(s.fs, s.stem+offsetSuffix), o.times.read(s.fs, s.stem+timeSuffix))
	if err != nil {
		return nil, errors.Join(err, o.log.release())
	}
	return o, nil
}

// close lets go of all files without writing.
func (o *openSegment) close() error {
	return errors.Join(o.log.release(), o.offsets.close(), o.times.close())
}

// load opens a sealed segment of size bytes that ends before offset end, and
// returns it with its file acquired: the caller releases it. Indexes that do
// not check are made anew.
func (s *segment) load(size int64, end ident.Offset, interval int) (*openSegment, error) {
	s.used.Store(true)
	if o := s.open.Load(); o != nil && o.log.acquire() {
		return o, nil
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.gone {
		return nil, errGone
	}
	if o := s.open.Load(); o != nil && o.log.acquire() {
		return o, nil
	}
	o, err := s.openFiles(s.fs.Open)
	if err != nil {
		return nil, err
	}
	if err := s.mend(o, size, end, interval); err != nil {
		return nil, errors.Join(err, o.close())
	}
	m := o.times.last()
	s.sealed.Store(&m)
	o.log.acquire()
	s.open.Store(o)
	return o, nil
}

// mend makes the indexes of a sealed segment whole. An index that was cut
// short between two entries looks sound. With a short time index the segment
// would seem older than it is and be deleted early, so what follows the last
// entries is always looked at.
func (s *segment) mend(o *openSegment, size int64, end ident.Offset, interval int) error {
	x, from, _ := o.resume(size, end, end, interval)
	buf := make([]byte, walkBuffer)
	for {
		var wrong error
		stop, err := walk(o.log.file, from, size, buf, func(pos int64, header batch.View, length int) bool {
			wrong = x.add(pos, header, length)
			return wrong == nil
		})
		if wrong == nil && err == nil {
			break
		}
		if from == 0 && wrong == nil {
			return s.damage(stop, err)
		}
		x, from = o.restart(interval), 0
	}
	o.times.add(x.youngest)
	err := errors.Join(o.offsets.seal(), o.times.seal())
	if errors.Is(err, disk.ErrNoSpace) {
		// The indexes serve from memory until the segment is opened again.
		return errors.Join(o.offsets.close(), o.times.close())
	}
	return err
}

// walk is [walk] from a batch that the index named. It fails with errIndex if
// that is not there.
func (o *openSegment) walk(from offsetEntry, size int64, buf []byte, visit func(pos int64, header batch.View, length int) bool) (int64, error) {
	unseen, wrong := from != noEntry, false
	stop, err := walk(o.log.file, from.pos, size, buf, func(pos int64, h batch.View, length int) bool {
		wrong = unseen && h.LastOffset() != from.last
		unseen = false
		return !wrong && visit(pos, h, length)
	})
	if bad := (*badBatch)(nil); wrong || (unseen && errors.As(err, &bad)) {
		return stop, errIndex
	}
	return stop, err
}

// forgetIndexes closes a sealed segment and removes its indexes, so that they
// are made anew when it is next used.
func (s *segment) forgetIndexes() error {
	s.opening.Lock()
	defer s.opening.Unlock()
	var err error
	if o := s.open.Swap(nil); o != nil {
		err = o.close()
	}
	return errors.Join(err, removeIfThere(s.fs, s.stem+offsetSuffix), removeIfThere(s.fs, s.stem+timeSuffix))
}

// drop closes a segment's files. It is opened again when used, unless it is
// gone for good.
func (s *segment) drop(gone bool) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.gone = s.gone || gone
	if o := s.open.Swap(nil); o != nil {
		return o.close()
	}
	return nil
}

// remove deletes the segment's files, the log first: a segment without an
// index is whole, an index without a log is litter.
func (s *segment) remove() error {
	err := s.fs.Remove(s.logPath())
	for _, suffix := range []string{offsetSuffix, timeSuffix, txnSuffix} {
		err = errors.Join(err, removeIfThere(s.fs, s.stem+suffix))
	}
	return err
}

// resume removes the index entries of batches at or above trusted, checks the
// rest against a segment of size bytes that ends before offset end, and returns
// an indexer and the position from which it must see all batches: those before
// are known to both indexes. rebuilt says that the indexes were no good.
func (o *openSegment) resume(size int64, end, trusted ident.Offset, interval int) (x *indexer, from int64, rebuilt bool) {
	missing := o.offsets.written < 0 || o.times.written < 0
	o.offsets.truncate(trusted)
	o.times.truncate(trusted)
	if missing || o.offsets.check(size) != nil || o.times.check(end) != nil {
		return o.restart(interval), 0, true
	}
	x = &indexer{files: o, interval: interval, youngest: o.times.last(), known: o.offsets.count()}
	from = o.offsets.floor(x.youngest.offset).pos
	for x.at < x.known && o.offsets.get(x.at).pos < from {
		x.at++
	}
	return x, from, false
}

// restart empties the indexes and returns an indexer that makes them anew.
func (o *openSegment) restart(interval int) *indexer {
	o.offsets.clear()
	o.times.clear()
	return &indexer{files: o, interval: interval, youngest: noMark}
}

// indexer decides which batches get an index entry. It sees the batches of a
// segment in order and belongs to the segment's writer.
type indexer struct {
	files    *openSegment
	interval int
	// The first known entries of the offset index were there at the start; at
	// is the next of them that will be met.
	at, known int
	// sinceEntry is the bytes of batches since the last entry.
	sinceEntry int
	youngest   mark
}

// errIndex says that an index names a batch that is not there.
var errIndex = errors.New("index does not match its segment")

// add takes a batch into account that lies at pos, and makes entries for it if
// the last ones are more than an interval back. Like Kafka's LogSegment, it
// counts the batch for the time index but not yet for the interval.
func (x *indexer) add(pos int64, v batch.View, length int) error {
	if ms := v.MaxTimestamp(); ms > x.youngest.timestamp {
		x.youngest = mark{ms, v.LastOffset()}
	}
	if x.at < x.known {
		return x.meet(pos, v, length)
	}
	if x.sinceEntry > x.interval {
		x.files.offsets.add(v.LastOffset(), pos)
		x.files.times.add(x.youngest)
		x.sinceEntry = 0
	}
	x.sinceEntry += length
	return nil
}

// meet compares a batch with the next known entry. The time index may lack
// what belongs to it.
func (x *indexer) meet(pos int64, v batch.View, length int) error {
	e := x.files.offsets.get(x.at)
	if pos < e.pos {
		return nil
	}
	if pos > e.pos || v.LastOffset() != e.last {
		return errIndex
	}
	x.files.times.add(x.youngest)
	x.at++
	x.sinceEntry = length
	return nil
}

// tail is what the writer knows about the active segment.
type tail struct {
	*segment
	*indexer
	// firstTime is the maximum timestamp of the first batch in milliseconds,
	// or -1; created is when the segment was begun.
	firstTime int64
	created   time.Time
	// jitter is taken off the age at which the segment is rolled.
	jitter time.Duration
}

func (t *tail) offsets() *offsetIndex { return t.files.offsets }
func (t *tail) times() *timeIndex     { return t.files.times }

// waited returns, for records up to timestampMax, the time since the segment's first record in terms of the
// records' own times, as Kafka counts it, or of the clock where those say
// nothing. A first record from the future would put off the roll for as long,
// so it counts as of now.
func (t *tail) waited(timestampMax int64, now time.Time) time.Duration {
	if t.firstTime < 0 || t.firstTime > t.created.UnixMilli() {
		return now.Sub(t.created)
	}
	ms := max(timestampMax, t.firstTime) - t.firstTime
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
