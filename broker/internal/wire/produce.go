package wire

import (
	"encoding/binary"
	"fmt"
)

// What the elements of a Produce request take when kmsg has decoded them, in
// bytes, rounded up.
const (
	producePartitionCost = 64
	produceTopicCost     = 96
	produceTagCost       = 128
	// produceSlack lets small requests be as odd as they like.
	produceSlack = 16 << 10
)

// CheckProduce walks the body of a Produce request without decoding it, and
// fails with [ErrMalformed] if decoding could take more memory than [Cost]
// reserves. A real request cannot: each of its partitions has a batch, whose
// header alone is as large as what the partition decodes to. Only one that is
// made of empty elements can, and with 100 MiB of them it would take a
// gigabyte.
func CheckProduce(version int16, body []byte) error {
	w := produceWalk{rest: body, flexible: version >= 9}
	if version >= 3 {
		w.bytes(2) // transactional id
	}
	w.skip(2 + 4) // acks, timeout
	for topics := w.length(4); topics > 0 && w.err == nil; topics-- {
		w.cost += produceTopicCost
		if version >= 13 {
			w.skip(16)
		} else {
			w.bytes(2)
		}
		for partitions := w.length(4); partitions > 0 && w.err == nil; partitions-- {
			w.cost += producePartitionCost
			w.skip(4)
			w.bytes(4)
			w.tags()
		}
		w.tags()
	}
	w.tags()
	if w.err != nil {
		return w.err
	}
	if w.cost > len(body)+produceSlack {
		return fmt.Errorf("%w: a produce request of %d bytes that would decode to another %d", ErrMalformed, len(body), w.cost)
	}
	return nil
}

// produceWalk steps over encoded fields. The first that does not fit sets err
// and empties rest.
type produceWalk struct {
	rest     []byte
	flexible bool
	cost     int
	err      error
}

func (w *produceWalk) skip(n int) {
	if n > len(w.rest) {
		w.err = fmt.Errorf("%w: a produce request that ends early", ErrMalformed)
		w.rest = nil
		return
	}
	w.rest = w.rest[n:]
}

// length reads the length of an array or of bytes, which takes width bytes
// where it is not compact. Null counts as 0.
func (w *produceWalk) length(width int) int {
	if w.flexible {
		return max(0, w.uvarint()-1)
	}
	b := w.rest
	w.skip(width)
	switch {
	case w.err != nil:
		return 0
	case width == 2:
		return max(0, int(int16(binary.BigEndian.Uint16(b))))
	}
	return max(0, int(int32(binary.BigEndian.Uint32(b))))
}

// bytes steps over bytes or a string, nullable or not.
func (w *produceWalk) bytes(width int) { w.skip(w.length(width)) }

func (w *produceWalk) tags() {
	if !w.flexible {
		return
	}
	for n := w.uvarint(); n > 0 && w.err == nil; n-- {
		w.cost += produceTagCost
		w.uvarint()
		w.skip(w.uvarint())
	}
}

func (w *produceWalk) uvarint() int {
	v, rest, err := readUvarint(w.rest)
	if err != nil {
		w.err, w.rest = err, nil
		return 0
	}
	w.rest = rest
	return int(v)
}
