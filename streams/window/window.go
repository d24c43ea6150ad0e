// Package window is the arithmetic of event-time windows: which window a time falls into, when a window is closed,
// which sessions a record joins. It holds no state and reads no clock.
//
// Times are [Instant]s, milliseconds since 1970 as records carry them. Spans are half-open: Start belongs to them, End
// does not. Sums that leave the range of an Instant stop at its ends, so absurd times (10 years ahead, the largest
// int64) make absurd windows, and neither overflow nor panic.
//
// A window is closed when stream time, the highest event time that a task has seen, has reached its end plus the
// grace. A record whose window is closed is late: it is dropped and counted. Choose the grace by how far out of order
// records arrive, which is hours or days when a job catches up behind a repartition topic: package streams, "Time", has
// the rule. It costs room in the store, not latency, because results are emitted on every update.
package window

import (
	"fmt"
	"math"
	"time"
)

// Instant is a point in time as records carry it: milliseconds since 1970-01-01 UTC. Negative ones are before that.
type Instant int64

// At returns t as an Instant, cut to the millisecond (towards the past). Times beyond the range become its ends.
func At(t time.Time) Instant {
	const limit = math.MaxInt64 / 1000
	switch s := t.Unix(); {
	case s >= limit:
		return math.MaxInt64
	case s <= -limit:
		return math.MinInt64
	}
	return Instant(t.UnixMilli())
}

// Time returns i as a time.Time in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add returns i+d, d cut to the millisecond; beyond the range it returns the end of the range.
func (i Instant) Add(d time.Duration) Instant {
	ms := Instant(d.Milliseconds())
	sum := i + ms
	switch {
	case ms > 0 && sum < i:
		return math.MaxInt64
	case ms < 0 && sum > i:
		return math.MinInt64
	}
	return sum
}

// String formats i as RFC 3339 with milliseconds.
func (i Instant) String() string { return i.Time().Format("2006-01-02T15:04:05.000Z") }

// Span is a half-open range of time: [Start, End).
type Span struct{ Start, End Instant }

// Contains tells whether i lies in s.
func (s Span) Contains(i Instant) bool { return s.Start <= i && i < s.End }

// Overlaps tells whether s and o have an instant in common.
func (s Span) Overlaps(o Span) bool { return s.Start < o.End && o.Start < s.End }

// Union returns the smallest span that contains both.
func (s Span) Union(o Span) Span { return Span{Start: min(s.Start, o.Start), End: max(s.End, o.End)} }

// Last returns the last instant of s: of a session, the time of its latest record.
func (s Span) Last() Instant { return s.End - 1 }

// String formats s as [start, end).
func (s Span) String() string { return fmt.Sprintf("[%v, %v)", s.Start, s.End) }

// Windowed is a key in one window: what the results of windowed aggregations are keyed by.
type Windowed[K any] struct {
	Key K
	Span
}

// String formats w as its key and [start, end).
func (w Windowed[K]) String() string { return fmt.Sprintf("%v %v", w.Key, w.Span) }

// at returns the span of the single instant i; the highest Instant, which no half-open span can hold, counts as the
// one before it.
func at(i Instant) Span {
	i = min(i, math.MaxInt64-1)
	return Span{Start: i, End: i + 1}
}

// checkMillis refuses a duration that is not a whole number of milliseconds from low up.
func checkMillis(what string, d, low time.Duration) error {
	if d < low {
		return fmt.Errorf("%s is %v: it is at least %v", what, d, low)
	}
	if d%time.Millisecond != 0 {
		return fmt.Errorf("%s is %v: record times have milliseconds, so it must be a whole number of them", what, d)
	}
	return nil
}

// addDurations returns a+b, at most the largest Duration.
func addDurations(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
