package file

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
)

// recentLines knows the last lines of a file, by hashes of 64 bits.
type recentLines struct {
	seed  maphash.Seed
	count map[uint64]int // how often a line is among them
	ring  []uint64
	next  int // index in ring of the oldest, once it is full
}

const (
	// recentMax is how many lines are known: some batches' worth, as that is
	// what comes again after a crash. Beyond it, records are written twice.
	recentMax = 50_000
	// recentBytesMax bounds what is read of a file to learn its last lines.
	recentBytesMax = 32 << 20
)

func newRecentLines() *recentLines {
	return &recentLines{seed: maphash.MakeSeed(), count: make(map[uint64]int)}
}

// add adds lines, each with its line end.
func (r *recentLines) add(lines []byte) {
	for line := range bytes.Lines(lines) {
		h := maphash.Bytes(r.seed, line)
		r.count[h]++
		if len(r.ring) < recentMax {
			r.ring = append(r.ring, h)
			continue
		}
		oldest := r.ring[r.next]
		if r.count[oldest]--; r.count[oldest] == 0 {
			delete(r.count, oldest)
		}
		r.ring[r.next] = h
		r.next = (r.next + 1) % recentMax
	}
}

func (r *recentLines) has(line []byte) bool { return r.count[maphash.Bytes(r.seed, line)] > 0 }

// readRecent learns the last lines of the file, and of the one put aside before
// it.
func (o *output) readRecent() error {
	o.recent = newRecentLines()
	if last, err := o.lastAside(); err != nil {
		return err
	} else if last > 0 {
		aside, err := os.Open(o.asidePath(last))
		if err != nil {
			return fmt.Errorf("reading back a file put aside: %w", err)
		}
		info, err := aside.Stat()
		if err == nil {
			err = o.learn(aside, info.Size())
		}
		if err = errors.Join(err, aside.Close()); err != nil {
			return err
		}
	}
	return o.learn(o.file, o.state.Bytes)
}

func (o *output) learn(f io.ReaderAt, size int64) error {
	begin := max(0, size-recentBytesMax)
	tail := make([]byte, size-begin)
	if _, err := f.ReadAt(tail, begin); err != nil && err != io.EOF {
		return fmt.Errorf("reading back the last lines of %s: %w", o.path(), err)
	}
	if begin > 0 {
		_, tail, _ = bytes.Cut(tail, []byte("\n")) // the first may be half a line
	}
	o.recent.add(tail)
	return nil
}
