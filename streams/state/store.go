package state

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/streams/window"
)

// segmentIntervalMin keeps stores of short windows from making a segment, and
// a range deletion, every few records. It is Kafka Streams' minimum.
const segmentIntervalMin = time.Minute

// byteStore is the bytes of one store of a task. Its keys are those of its
// changelog (docs/format/state-store.md); it puts entries of window and
// session stores into segments of time and lets them expire.
type byteStore struct {
	owner   *Stores
	spec    Spec
	topic   string
	backend backend

	prefix     []byte // of its entries
	intervalMs int64  // length of a segment; 0 for key-value stores
	// observed is the latest time seen, pending writes included.
	observed window.Instant
	// segments holds the live segments by their start, with an offset of the
	// changelog that none of their records lies below.
	segments map[window.Instant]int64
	// described is the observed time that the pending state has on disk.
	described window.Instant

	visible atomic.Pointer[visibleTime] // for committed reads
	expired atomic.Int64
	key     []byte // scratch of the owner
	value   []byte // scratch of the typed view's reads
}

// visibleTime is what committed reads need to know of a windowed store.
type visibleTime struct {
	observed window.Instant
	segments []window.Instant // ascending
}

func newStore(owner *Stores, spec Spec) *byteStore {
	st := &byteStore{owner: owner, spec: spec, prefix: storePrefix(keyEntry, spec.Name)}
	if owner.config.ChangelogTopic != nil && !spec.Unlogged {
		st.topic = owner.config.ChangelogTopic(spec.Name)
	}
	return st
}

// load reads what the backend knows of the store, and describes a new one.
func (st *byteStore) load() error {
	st.intervalMs, st.observed, st.segments = 0, 0, map[window.Instant]int64{}
	if st.spec.Kind != KindKeyValue {
		st.intervalMs = max(st.spec.Retention/2, segmentIntervalMin).Milliseconds()
	}
	enc, ok, err := st.backend.get(nil, descriptionKey(st.spec.Name), false)
	if err != nil {
		return err
	}
	if !ok {
		st.publish()
		return st.describe()
	}
	d, err := decodeDescription(enc)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	st.intervalMs, st.observed, st.described = int64(d.intervalMs), d.observed, d.observed
	prefix := storePrefix(keyFloor, st.spec.Name)
	var bad error
	err = st.backend.scan(prefix, prefixEnd(prefix), scanOptions{}, func(k, v []byte) bool {
		floor, n := binary.Uvarint(v)
		if len(k) != len(prefix)+8 || n != len(v) || n == 0 {
			bad = fmt.Errorf("%w: segment of %d and %d bytes", ErrCorrupt, len(k), len(v))
			return false
		}
		st.segments[window.Instant(binary.BigEndian.Uint64(k[len(prefix):]))] = int64(floor)
		return true
	})
	st.publish()
	if bad != nil {
		return bad
	}
	return err
}

func (st *byteStore) describe() error {
	st.described = st.observed
	enc := appendDescription(nil, description{st.spec.Kind, uint64(st.intervalMs), st.observed})
	return st.backend.set(descriptionKey(st.spec.Name), enc)
}

// publish shows committed reads the present times and segments.
func (st *byteStore) publish() {
	if st.spec.Kind == KindKeyValue {
		return
	}
	st.visible.Store(&visibleTime{st.observed, slices.Sorted(maps.Keys(st.segments))})
}

// beforeCommit removes expired segments and notes the observed time.
func (st *byteStore) beforeCommit() error {
	for _, segment := range slices.Sorted(maps.Keys(st.segments)) {
		if st.isLive(st.lastOf(segment), st.observed) {
			break
		}
		if err := st.removeSegment(segment); err != nil {
			return err
		}
	}
	if st.observed == st.described {
		return nil
	}
	return st.describe()
}

func (st *byteStore) afterCommit() { st.publish() }

func (st *byteStore) removeSegment(segment window.Instant) error {
	from := appendSegment(slices.Clone(st.prefix), segment)
	end := prefixEnd(st.prefix)
	if next := segment + window.Instant(st.intervalMs); next > segment {
		end = appendSegment(slices.Clone(st.prefix), next)
	}
	if err := st.backend.deleteRange(from, end); err != nil {
		return err
	}
	delete(st.segments, segment)
	return st.backend.delete(appendSegment(storePrefix(keyFloor, st.spec.Name), segment))
}

func (st *byteStore) reset() error {
	if err := removeStore(st.backend, st.spec.Name); err != nil {
		return err
	}
	st.observed, st.segments = 0, map[window.Instant]int64{}
	return st.describe()
}

// isLive tells whether an entry of time t is still kept when the store has
// observed the given time.
func (st *byteStore) isLive(t, observed window.Instant) bool {
	return t > observed.Add(-st.spec.Retention)
}

// lastOf returns the last time that falls into a segment, or, of the segment
// that reaches to the end of time, the last of all but one.
func (st *byteStore) lastOf(segment window.Instant) window.Instant {
	return segment.Add(time.Duration(st.intervalMs)*time.Millisecond) - 1
}

// advance tells the store that time has come to t.
func (st *byteStore) advance(t window.Instant) { st.observed = max(st.observed, t) }

// timeOf returns what the expiry of an entry goes by.
func (st *byteStore) timeOf(key []byte) (window.Instant, error) {
	if st.spec.Kind == KindWindow {
		_, start, _, err := SplitWindowKey(key)
		return start, err
	}
	_, span, err := SplitSessionKey(key)
	return span.End, err
}

func (st *byteStore) segmentOf(t window.Instant) window.Instant {
	return t - t%window.Instant(st.intervalMs)
}

// entryKey returns the backend's key of an entry, in the owner's scratch, and
// the entry's time and whether it is live.
func (st *byteStore) entryKey(key []byte) (full []byte, t window.Instant, live bool, err error) {
	st.key = append(st.key[:0], st.prefix...)
	live = true
	if st.spec.Kind != KindKeyValue {
		if t, err = st.timeOf(key); err != nil {
			return nil, 0, false, err
		}
		live = st.isLive(t, st.observed)
		st.key = appendSegment(st.key, st.segmentOf(t))
	}
	st.key = append(st.key, key...)
	return st.key, t, live, nil
}

// get returns the value of a key, which is valid until the next call of a
// method.
func (st *byteStore) get(key []byte) (value []byte, ok bool, err error) {
	full, _, live, err := st.entryKey(key)
	if err != nil || !live {
		return nil, false, err
	}
	st.value, ok, err = st.backend.get(st.value[:0], full, false)
	return st.value, ok, err
}

// put writes and captures an entry; a nil value deletes it. A write to an
// expired entry is counted and dropped.
func (st *byteStore) put(key, value []byte) error {
	if st.spec.Kind != KindKeyValue {
		t, err := st.timeOf(key)
		if err != nil {
			return err
		}
		st.advance(t)
	}
	kept, err := st.write(key, value, st.owner.checkpoint.Changelogs[st.spec.Name].Next)
	if err != nil || !kept || st.spec.Unlogged || st.owner.config.Capture == nil {
		return err
	}
	return st.owner.config.Capture(Change{Store: st.spec.Name, Key: key, Value: value})
}

func (st *byteStore) restore(key, value []byte, offset int64) error {
	if st.spec.Kind != KindKeyValue {
		t, err := st.timeOf(key)
		if err != nil {
			return err
		}
		if value != nil {
			st.advance(t)
		}
	}
	_, err := st.write(key, value, offset)
	return err
}

// write puts an entry into the pending batch unless it has expired. The record
// of it in the changelog is at floor or above.
func (st *byteStore) write(key, value []byte, floor int64) (kept bool, err error) {
	full, t, live, err := st.entryKey(key)
	if err != nil {
		return false, err
	}
	if !live {
		st.expired.Add(1)
		return false, nil
	}
	if value == nil {
		return true, st.backend.delete(full)
	}
	if st.spec.Kind != KindKeyValue {
		if err := st.ensureSegment(st.segmentOf(t), floor); err != nil {
			return false, err
		}
	}
	return true, st.backend.set(full, value)
}

// ensureSegment notes a segment that gets its first entry.
func (st *byteStore) ensureSegment(segment window.Instant, floor int64) error {
	if _, ok := st.segments[segment]; ok {
		return nil
	}
	st.segments[segment] = floor
	key := appendSegment(storePrefix(keyFloor, st.spec.Name), segment)
	return st.backend.set(key, binary.AppendUvarint(nil, uint64(floor)))
}

// scan yields the entries of a key-value store with keys in [from, end); a nil
// end means to the last.
func (st *byteStore) scan(from, end []byte, o scanOptions, visit func(key, value []byte) bool) error {
	lower := append(slices.Clone(st.prefix), from...)
	upper := prefixEnd(st.prefix)
	if end != nil {
		upper = append(slices.Clone(st.prefix), end...)
	}
	return st.backend.scan(lower, upper, o, func(k, v []byte) bool { return visit(k[len(st.prefix):], v) })
}

// scanTimes yields the live entries of a windowed store with times in span and
// keys in [from, end), segment after segment and by key within one; a nil end
// means to the last.
func (st *byteStore) scanTimes(span window.Span, from, end []byte, o scanOptions, visit func(key, value []byte, t window.Instant) bool) error {
	now := st.visible.Load()
	if !o.committed {
		now = &visibleTime{st.observed, slices.Sorted(maps.Keys(st.segments))}
	}
	more := true
	var bad error
	for _, segment := range now.segments {
		if !more || segment >= span.End || st.lastOf(segment) < span.Start {
			continue
		}
		prefix := appendSegment(slices.Clone(st.prefix), segment)
		lower := append(slices.Clone(prefix), from...)
		upper := appendSegment(slices.Clone(st.prefix), segment+1)
		if end != nil {
			upper = append(slices.Clone(prefix), end...)
		}
		err := st.backend.scan(lower, upper, o, func(k, v []byte) bool {
			key := k[len(prefix):]
			t, err := st.timeOf(key)
			if err != nil {
				bad, more = fmt.Errorf("%w: %w", ErrCorrupt, err), false
				return false
			}
			if span.Contains(t) && st.isLive(t, now.observed) {
				more = visit(key, v, t)
			}
			return more
		})
		if bad != nil || err != nil {
			return first(bad, err)
		}
	}
	return nil
}

// getCommitted returns a copy of the committed value of a key of a key-value
// store.
func (st *byteStore) getCommitted(key []byte) (value []byte, ok bool, err error) {
	return st.backend.get(nil, append(slices.Clone(st.prefix), key...), true)
}
