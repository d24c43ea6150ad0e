package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sort"
	"sync"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

const (
	offsetEntrySize = 8  // relative offset int32, position int32
	timeEntrySize   = 12 // timestamp int64, relative offset int32
)

// indexFile is an index in memory, in the format of its file, and how much of
// it the file holds already. Entries are appended in memory and written later
// in one piece: an index can always be made anew from its segment.
type indexFile struct {
	fs   disk.FS
	path string

	// mu lets readers search while the writer appends.
	mu   sync.RWMutex
	data []byte
	// written is how much of data the file holds, synced how much of it is
	// durable. Both are -1 when the file holds something else.
	written, synced int
	// file is open while the index grows.
	file disk.File
}

// read fills the index from its file. A missing file is an empty index.
func (x *indexFile) read(fsys disk.FS, path string) error {
	x.fs, x.path = fsys, path
	b, err := readFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		x.clear()
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading index %s: %w", path, err)
	}
	x.data, x.written, x.synced = b, len(b), len(b)
	return nil
}

// clear empties the index. The file follows at the next write.
func (x *indexFile) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.data, x.written, x.synced = nil, -1, -1
}

// cut keeps the first n bytes. The file follows at the next write. The caller
// holds mu.
func (x *indexFile) cut(n int) {
	if n < len(x.data) {
		x.data = x.data[:n]
		x.written, x.synced = -1, -1
	}
}

// write brings the file up to date.
func (x *indexFile) write() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.writeLocked()
}

func (x *indexFile) writeLocked() (err error) {
	if x.written == len(x.data) {
		return nil
	}
	if x.file == nil {
		if x.file, err = x.fs.OpenWrite(x.path); err != nil {
			return fmt.Errorf("opening index for writing: %w", err)
		}
	}
	if x.written < 0 {
		if err := x.file.Truncate(0); err != nil {
			return fmt.Errorf("emptying index %s: %w", x.path, err)
		}
		x.written = 0
	}
	if _, err := x.file.WriteAt(x.data[x.written:], int64(x.written)); err != nil {
		return fmt.Errorf("writing index %s: %w", x.path, err)
	}
	x.written = len(x.data)
	return nil
}

// seal writes the index, makes it durable and closes its file.
func (x *indexFile) seal() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.writeLocked(); err != nil {
		return err
	}
	if x.synced != len(x.data) {
		if x.file == nil {
			var err error
			if x.file, err = x.fs.OpenWrite(x.path); err != nil {
				return fmt.Errorf("opening index to sync it: %w", err)
			}
		}
		if err := x.file.Sync(); err != nil {
			return fmt.Errorf("syncing index: %w", err)
		}
		x.synced = len(x.data)
	}
	return x.closeLocked()
}

// close lets go of the file.
func (x *indexFile) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.closeLocked()
}

func (x *indexFile) closeLocked() error {
	if x.file == nil {
		return nil
	}
	f := x.file
	x.file = nil
	return f.Close()
}

// offsetIndex finds the position of a batch in its segment. An entry names a
// batch by its last offset, relative to the segment's base, and says where
// the batch begins.
type offsetIndex struct {
	indexFile
	base ident.Offset
}

func (x *offsetIndex) entry(i int) (rel, pos int32) {
	b := x.data[i*offsetEntrySize:]
	return int32(binary.BigEndian.Uint32(b)), int32(binary.BigEndian.Uint32(b[4:]))
}

func (x *offsetIndex) count() int { return len(x.data) / offsetEntrySize }

// add appends an entry for the batch that ends with offset last and begins at
// position pos.
func (x *offsetIndex) add(last ident.Offset, pos int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.data = binary.BigEndian.AppendUint32(x.data, uint32(last-x.base))
	x.data = binary.BigEndian.AppendUint32(x.data, uint32(pos))
}

// offsetEntry names a batch by its last offset and says where it begins.
type offsetEntry struct {
	last ident.Offset
	pos  int64
}

// floor returns the last entry not above offset o: no batch before its
// position ends at or after o. It is noEntry when there is none.
func (x *offsetIndex) floor(o ident.Offset) offsetEntry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.before(func(rel, _ int32) bool { return ident.Offset(rel) > o-x.base })
}

// boundary returns the last entry whose batch begins at or before pos and ends
// before offset end.
func (x *offsetIndex) boundary(pos int64, end ident.Offset) offsetEntry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.before(func(rel, p int32) bool { return int64(p) > pos || ident.Offset(rel) >= end-x.base })
}

// before returns the last entry before the first for which beyond is true.
func (x *offsetIndex) before(beyond func(rel, pos int32) bool) offsetEntry {
	i := sort.Search(x.count(), func(i int) bool { return beyond(x.entry(i)) })
	if i == 0 {
		return noEntry
	}
	return x.getLocked(i - 1)
}

// noEntry stands for the beginning of a segment.
var noEntry = offsetEntry{last: ident.NoOffset}

func (x *offsetIndex) get(i int) offsetEntry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.getLocked(i)
}

func (x *offsetIndex) getLocked(i int) offsetEntry {
	rel, pos := x.entry(i)
	return offsetEntry{x.base + ident.Offset(rel), int64(pos)}
}

// truncate removes the entries of batches that end at or after end.
func (x *offsetIndex) truncate(end ident.Offset) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := sort.Search(x.count(), func(i int) bool { rel, _ := x.entry(i); return ident.Offset(rel) >= end-x.base })
	x.cut(n * offsetEntrySize)
}

// check says whether the index can belong to a segment of logSize bytes:
// offsets and positions increase, and no position lies beyond. An index that
// passes may have lost entries at its end, which costs time only.
func (x *offsetIndex) check(logSize int64) error {
	if len(x.data)%offsetEntrySize != 0 {
		return fmt.Errorf("size %d is not a multiple of %d", len(x.data), offsetEntrySize)
	}
	lastRel, lastPos := int32(-1), int32(-1)
	for i := range x.count() {
		rel, pos := x.entry(i)
		if rel <= lastRel || pos <= lastPos {
			return fmt.Errorf("entry %d (offset +%d at %d) does not follow (+%d at %d)", i, rel, pos, lastRel, lastPos)
		}
		lastRel, lastPos = rel, pos
	}
	if int64(lastPos) >= logSize {
		return fmt.Errorf("position %d lies beyond the segment's %d bytes", lastPos, logSize)
	}
	return nil
}

// timeIndex finds where in its segment times are first reached. An entry
// (timestamp, offset) says that all records before that offset's batch are
// older, and none up to the entry's writing was younger.
type timeIndex struct {
	indexFile
	base ident.Offset
}

// mark is the youngest time seen and the last offset of the batch that had it
// first. Its zero value is not useful: see noMark.
type mark struct {
	timestamp int64
	offset    ident.Offset
}

// noMark stands for "no record with a time yet".
var noMark = mark{timestamp: -1, offset: ident.NoOffset}

func (x *timeIndex) entry(i int) mark {
	b := x.data[i*timeEntrySize:]
	return mark{int64(binary.BigEndian.Uint64(b)), x.base + ident.Offset(int32(binary.BigEndian.Uint32(b[8:])))}
}

func (x *timeIndex) count() int { return len(x.data) / timeEntrySize }

// last returns the latest entry, or noMark.
func (x *timeIndex) last() mark {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.lastLocked()
}

func (x *timeIndex) lastLocked() mark {
	if n := x.count(); n > 0 {
		return x.entry(n - 1)
	}
	return noMark
}

// add appends m if it is younger than the last entry.
func (x *timeIndex) add(m mark) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if m.timestamp <= x.lastLocked().timestamp {
		return
	}
	x.data = binary.BigEndian.AppendUint64(x.data, uint64(m.timestamp))
	x.data = binary.BigEndian.AppendUint32(x.data, uint32(m.offset-x.base))
}

// offset returns where to begin looking for a record at least as young as ms:
// all batches that end before that offset are older.
func (x *timeIndex) offset(ms int64) ident.Offset {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i := sort.Search(x.count(), func(i int) bool { return x.entry(i).timestamp > ms })
	if i == 0 {
		return x.base
	}
	return x.entry(i - 1).offset
}

// truncate removes the entries at or after end.
func (x *timeIndex) truncate(end ident.Offset) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := sort.Search(x.count(), func(i int) bool { return x.entry(i).offset >= end })
	x.cut(n * timeEntrySize)
}

// check says whether the index can belong to a segment that ends before
// offset end: times and offsets increase, and no offset lies beyond.
func (x *timeIndex) check(end ident.Offset) error {
	if len(x.data)%timeEntrySize != 0 {
		return fmt.Errorf("size %d is not a multiple of %d", len(x.data), timeEntrySize)
	}
	last := mark{timestamp: -1, offset: x.base - 1}
	for i := range x.count() {
		m := x.entry(i)
		if m.timestamp <= last.timestamp || m.offset <= last.offset {
			return fmt.Errorf("entry %d (time %d at %d) does not follow (%d at %d)", i, m.timestamp, m.offset, last.timestamp, last.offset)
		}
		last = m
	}
	if last.offset >= end {
		return fmt.Errorf("offset %d lies beyond the segment's end %d", last.offset, end)
	}
	return nil
}

// peekLast reads the last entry of a time index without reading the rest. ok
// is false when the file does not look like an index.
func peekLast(fsys disk.FS, path string, base ident.Offset) (m mark, ok bool) {
	f, err := fsys.Open(path)
	if err != nil {
		return noMark, false
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size < timeEntrySize || size%timeEntrySize != 0 {
		return noMark, false
	}
	x := timeIndex{base: base}
	x.data = make([]byte, timeEntrySize)
	if n, err := f.ReadAt(x.data, size-timeEntrySize); n < timeEntrySize && err != io.EOF {
		return noMark, false
	}
	return x.entry(0), true
}

// fits reports whether o can be stored relative to base.
func fits(base, o ident.Offset) bool { return o >= base && o-base <= math.MaxInt32 }
