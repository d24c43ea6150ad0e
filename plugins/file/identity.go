package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A file's identity is its inode and its first line (or so much of it), and
// for good measure the bytes before the position: paths change when files are
// rotated, inodes are used again, and files are cut short and written anew.
//
// A source partition is one file, called
//
//	<path>#<inode>.<head length>.<head checksum>
//
// after the path at which its first record was read, and a position in it is
//
//	{"offset":<end of the line>,"tail":"<checksum>"}
//
// Numbers are decimal, but inodes and checksums hexadecimal.
const (
	headBytes = 256 // the most of a first line that counts
	tailBytes = 64  // the most before the position that counts
)

// place is how far a file was read.
type place struct {
	path     string // at which the file was found first
	inode    uint64 // 0 where there are none
	headLen  int
	headSum  uint32
	offset   int64
	tailSum  uint32
	filename string // the source partition, as it was parsed or made
}

func (p place) partition() string {
	return fmt.Sprintf("%s#%x.%d.%08x", escape(p.path), p.inode, p.headLen, p.headSum)
}

// escape makes any path UTF-8, reversibly.
func escape(path string) string {
	if utf8.ValidString(path) && !strings.Contains(path, "%") {
		return path
	}
	var b strings.Builder
	for len(path) > 0 {
		r, n := utf8.DecodeRuneInString(path)
		if r == utf8.RuneError && n == 1 || r == '%' {
			fmt.Fprintf(&b, "%%%02X", path[0])
		} else {
			b.WriteString(path[:n])
		}
		path = path[n:]
	}
	return b.String()
}

// parsePlace reads a stored source partition and position.
func parsePlace(partition, position string) (place, error) {
	fail := func() (place, error) {
		return place{}, fmt.Errorf("the stored position %q of %q is not one of the file connector", position, partition)
	}
	i := strings.LastIndexByte(partition, '#')
	if i < 0 {
		return fail()
	}
	path, err := url.PathUnescape(partition[:i])
	if err != nil {
		return fail()
	}
	p := place{path: path, filename: partition}
	if _, err := fmt.Sscanf(partition[i+1:], "%x.%d.%x", &p.inode, &p.headLen, &p.headSum); err != nil {
		return fail()
	}
	var at struct {
		Offset int64  `json:"offset"`
		Tail   string `json:"tail"`
	}
	if err := json.Unmarshal([]byte(position), &at); err != nil {
		return fail()
	}
	if at.Tail == "" {
		at.Tail = "0" // set by hand: nothing to compare with
	}
	sum, err := strconv.ParseUint(at.Tail, 16, 32)
	if err != nil || at.Offset < 0 || p.headLen < 0 || p.headLen > headBytes {
		return fail()
	}
	p.offset, p.tailSum = at.Offset, uint32(sum)
	return p, nil
}

func appendPosition(dst []byte, offset int64, tailSum uint32) []byte {
	dst = append(dst, `{"offset":`...)
	dst = strconv.AppendInt(dst, offset, 10)
	dst = append(dst, `,"tail":"`...)
	dst = strconv.AppendUint(dst, uint64(tailSum), 16)
	return append(dst, `"}`...)
}

// checksum is never 0, which stands for unknown.
func checksum(b []byte) uint32 { return max(1, crc32.ChecksumIEEE(b)) }

// headOf returns the part of a file's first bytes that counts.
func headOf(first []byte) []byte {
	if i := bytes.IndexByte(first, '\n'); i >= 0 {
		first = first[:i+1]
	}
	return first[:min(len(first), headBytes)]
}

// fits reports whether r, of the given size, can be the file that p is about:
// it begins as that did, and holds the same bytes before the position.
func (p place) fits(r io.ReaderAt, size int64) bool {
	if size < p.offset || size < int64(p.headLen) {
		return false
	}
	head := make([]byte, p.headLen)
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF || checksum(head) != p.headSum {
		return false
	}
	return p.tailFits(r)
}

func (p place) tailFits(r io.ReaderAt) bool {
	tail := make([]byte, min(p.offset, tailBytes))
	_, err := r.ReadAt(tail, p.offset-int64(len(tail)))
	return (err == nil || err == io.EOF) && p.endsWith(tail)
}

// endsWith reports whether tail can be what comes before the position.
func (p place) endsWith(tail []byte) bool {
	return p.offset == 0 || p.tailSum == 0 || checksum(tail) == p.tailSum
}
