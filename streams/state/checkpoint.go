package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/streams/window"
)

// Checkpoint says what the committed data of a task's stores corresponds to.
type Checkpoint struct {
	// Committed is the wall clock at the commit; in milliseconds on disk.
	Committed time.Time
	// StreamTimes holds stream time by input topic; that of the task as a
	// whole is under "".
	StreamTimes map[string]window.Instant
	// Changelogs holds, by store, how far the changelog is in the data.
	Changelogs map[string]Position
}

// Position is a place in one partition of a changelog topic.
type Position struct {
	// TopicID tells topics of one name apart; zero if the cluster has none.
	TopicID [16]byte
	// Next is the offset of the first record that is not in the data.
	Next int64
}

const (
	checkpointVersion  = 1
	descriptionVersion = 1
)

// appendCheckpoint encodes c (docs/format/state-store.md).
func appendCheckpoint(dst []byte, c Checkpoint) []byte {
	dst = append(dst, checkpointVersion)
	dst = binary.AppendVarint(dst, c.Committed.UnixMilli())
	dst = binary.AppendUvarint(dst, uint64(len(c.StreamTimes)))
	for _, topic := range slices.Sorted(maps.Keys(c.StreamTimes)) {
		dst = appendString(dst, topic)
		dst = binary.AppendVarint(dst, int64(c.StreamTimes[topic]))
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Changelogs)))
	for _, store := range slices.Sorted(maps.Keys(c.Changelogs)) {
		p := c.Changelogs[store]
		dst = appendString(dst, store)
		dst = append(dst, p.TopicID[:]...)
		dst = binary.AppendVarint(dst, p.Next)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func decodeCheckpoint(b []byte) (Checkpoint, error) {
	d := decoder{b: b}
	if v := d.byte(); d.err == nil && v != checkpointVersion {
		return Checkpoint{}, fmt.Errorf("checkpoint has version %d, this program reads %d", v, checkpointVersion)
	}
	c := Checkpoint{
		Committed:   time.UnixMilli(d.varint()),
		StreamTimes: map[string]window.Instant{},
		Changelogs:  map[string]Position{},
	}
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		topic := d.string()
		c.StreamTimes[topic] = window.Instant(d.varint())
	}
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		store := d.string()
		var p Position
		copy(p.TopicID[:], d.bytes(len(p.TopicID)))
		p.Next = d.varint()
		c.Changelogs[store] = p
	}
	if err := d.end(); err != nil {
		return Checkpoint{}, fmt.Errorf("decoding checkpoint: %w", err)
	}
	return c, nil
}

// description is what the folder remembers of a store.
type description struct {
	kind       Kind
	intervalMs uint64 // 0 for key-value stores
	observed   window.Instant
}

func appendDescription(dst []byte, d description) []byte {
	dst = append(dst, descriptionVersion, byte(d.kind))
	dst = binary.AppendUvarint(dst, d.intervalMs)
	return binary.AppendUvarint(dst, uint64(d.observed))
}

func decodeDescription(b []byte) (description, error) {
	d := decoder{b: b}
	if v := d.byte(); d.err == nil && v != descriptionVersion {
		return description{}, fmt.Errorf("description has version %d, this program reads %d", v, descriptionVersion)
	}
	out := description{kind: Kind(d.byte()), intervalMs: d.uvarint(), observed: window.Instant(d.uvarint())}
	if err := d.end(); err != nil {
		return description{}, fmt.Errorf("decoding description: %w", err)
	}
	if windowed := out.kind == KindWindow || out.kind == KindSession; windowed && int64(out.intervalMs) <= 0 {
		return description{}, fmt.Errorf("description of a %v store has segments of %d ms", out.kind, int64(out.intervalMs))
	}
	return out, nil
}

// decoder reads from b until the first failure; after that it returns zeros.
type decoder struct {
	b   []byte
	err error
}

var errShort = errors.New("ends too early")

func (d *decoder) bytes(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		d.fail()
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = errShort
	}
	d.b = nil
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.err != nil || n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if d.err != nil || n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		return ""
	}
	return string(d.bytes(int(n)))
}

// end reports the first failure, or that bytes are left.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		return fmt.Errorf("%d bytes are left over", len(d.b))
	}
	return d.err
}
