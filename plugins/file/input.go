package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// input is one file that is being read.
type input struct {
	path  string // where it was seen last
	file  *os.File
	info  fs.FileInfo // as of the last look
	place place       // of what was read; filename is empty until it has a first line

	halfSize   int64     // size of the file at which its last line was found incomplete; 0 if not
	isSuspect  bool      // what was read is not there any more; look must see why
	isGone     bool      // its path, if any, now belongs to another file, or is in no pattern
	quietSince time.Time // when it was last seen to grow
}

func openInput(path string, now time.Time) (*input, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening a file to read: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("looking at %s: %w", path, err), file.Close())
	}
	return &input{path: path, file: file, info: info, place: place{path: path, inode: inodeOf(info)}, quietSince: now}, nil
}

// resume goes to where p says.
func (in *input) resume(p place) {
	inode := in.place.inode
	in.place = p
	in.place.inode = inode
}

// look notices what has happened to the file since the last look. wasCut is
// the place in what it held before, if it was cut short or written anew.
func (in *input) look(now time.Time) (wasCut *place, err error) {
	info, err := in.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", in.path, err)
	}
	before := in.info
	in.info = info
	if !in.isSuspect && info.Size() == before.Size() && info.ModTime().Equal(before.ModTime()) {
		return nil, nil
	}
	in.isSuspect = false
	in.quietSince = now
	if in.place.offset == 0 || info.Size() >= in.place.offset && in.place.tailFits(in.file) {
		return nil, nil
	}
	old := in.place
	in.place = place{path: in.path, inode: in.place.inode}
	in.halfSize = 0
	return &old, nil
}

// readLines appends lines to out until it is full or no complete line is left.
// The records refer to memory of mem.
func (in *input) readLines(out *connector.Batch, mem *arena, maxLine int) error {
	size := int(min(max(in.info.Size()-in.place.offset, leastRead), chunkBytes))
	for !out.Full() && in.info.Size() != in.halfSize && !in.isSuspect {
		overlap := int(min(in.place.offset, tailBytes)) // what comes before, to see that it is still there
		data := mem.alloc(overlap + size)
		n, err := in.file.ReadAt(data, in.place.offset-int64(overlap))
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading %s: %w", in.path, err)
		}
		if n < overlap || !in.place.endsWith(data[:overlap]) {
			in.isSuspect = true
			return nil
		}
		atEnd := n < len(data)
		taken, err := in.takeLines(out, data[:n], overlap, maxLine)
		if err != nil {
			return err
		}
		switch {
		case out.Full():
		case atEnd:
			in.halfSize = in.place.offset + int64(n-overlap-taken)
			return nil
		case taken == 0: // a line that is longer than the chunk
			size *= 2
		default:
			size = chunkBytes
		}
	}
	return nil
}

// takeLines appends the lines in data[begin:] that end there, until out is
// full, and returns how many bytes they take. A line of more than maxLine
// bytes is cut.
func (in *input) takeLines(out *connector.Batch, data []byte, begin, maxLine int) (taken int, err error) {
	base := in.place.offset - int64(begin)
	at := begin
	for !out.Full() && at < len(data) {
		rest := data[at:]
		end := bytes.IndexByte(rest, '\n') + 1
		switch {
		case end == 0 && len(rest) <= maxLine:
			return at - begin, nil
		case end == 0 || end > maxLine+1:
			end = maxLine
		}
		at += end
		if err := in.append(out, rest[:end], base+int64(at), data[:at]); err != nil {
			return 0, err
		}
	}
	return at - begin, nil
}

// takeHalfLine appends the last line, which has no line end and will get none.
func (in *input) takeHalfLine(out *connector.Batch, mem *arena) error {
	n := in.halfSize - in.place.offset
	if in.halfSize == 0 || n <= 0 {
		return nil
	}
	overlap := min(in.place.offset, tailBytes)
	data := mem.alloc(int(overlap + n))
	if _, err := in.file.ReadAt(data, in.place.offset-overlap); err != nil && err != io.EOF {
		return fmt.Errorf("reading %s: %w", in.path, err)
	}
	return in.append(out, data[overlap:], in.halfSize, data)
}

// append appends a line as a record. It ends at the offset end, and before is
// what comes before end in the file, or so much of it.
func (in *input) append(out *connector.Batch, line []byte, end int64, before []byte) error {
	if in.place.filename == "" {
		if err := in.name(); err != nil {
			return err
		}
	}
	key := make([]byte, 0, len(in.place.path)+20)
	key = append(append(key, in.place.path...), ':')
	key = strconv.AppendInt(key, end-int64(len(line)), 10)
	in.place.offset = end
	in.place.tailSum = checksum(before[max(0, len(before)-tailBytes):])
	position := appendPosition(make([]byte, 0, 48), end, in.place.tailSum)
	if text, ok := bytes.CutSuffix(line, []byte("\n")); ok {
		line = bytes.TrimSuffix(text, []byte("\r"))
	}
	out.Append(connector.NewRecord(connector.Origin{Partition: in.place.filename, Position: string(position)},
		connector.TextBytesValue(key), connector.TextBytesValue(line)))
	return nil
}

// name gives the file its source partition, now that it has a first line.
func (in *input) name() error {
	first := make([]byte, headBytes)
	n, err := in.file.ReadAt(first, 0)
	if err != nil && err != io.EOF {
		return fmt.Errorf("reading the beginning of %s: %w", in.path, err)
	}
	head := headOf(first[:n])
	in.place.headLen, in.place.headSum = len(head), checksum(head)
	in.place.filename = in.place.partition()
	return nil
}

const (
	chunkBytes = 256 << 10 // read at a time, unless a line is longer
	leastRead  = 512       // read at a time, even if the file seems to hold less
)

// arena lends memory until reset, when all of it comes back.
type arena struct {
	free, lent [][]byte
	rest       []byte // of the chunk lent last
}

// arenaChunks bounds the chunks that are kept: about a batch's worth.
const arenaChunks = 8

func (a *arena) alloc(size int) []byte {
	const chunk = chunkBytes + tailBytes
	if size > chunk {
		return make([]byte, size)
	}
	if size > len(a.rest) {
		if n := len(a.free); n > 0 {
			a.rest, a.free = a.free[n-1], a.free[:n-1]
		} else {
			a.rest = make([]byte, chunk)
		}
		a.lent = append(a.lent, a.rest)
	}
	var b []byte
	b, a.rest = a.rest[:size:size], a.rest[size:]
	return b
}

func (a *arena) reset() {
	a.free = append(a.free, a.lent...)
	a.free = a.free[:min(len(a.free), arenaChunks)]
	clear(a.lent)
	a.lent, a.rest = a.lent[:0], nil
}
