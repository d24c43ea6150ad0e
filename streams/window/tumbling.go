package window

import (
	"fmt"
	"math"
	"time"
)

// Time is a kind of window that depends on time alone. Make one with [Tumbling].
type Time struct {
	size, grace time.Duration
}

// Tumbling returns windows of the given size, one after the other without gaps, aligned to 1970-01-01 UTC: a window of
// an hour begins at the full hour. The size is at least a millisecond, and whole milliseconds. The grace is zero until
// set.
func Tumbling(size time.Duration) Time { return Time{size: size} }

// Grace returns w with a grace: how long after its end, in stream time, a window still takes records. Zero means that
// it closes at its end.
func (w Time) Grace(d time.Duration) Time {
	w.grace = d
	return w
}

// GracePeriod returns the grace.
func (w Time) GracePeriod() time.Duration { return w.grace }

// Err tells what is wrong with the windows' size or grace, or nil. A streams builder calls it.
func (w Time) Err() error {
	if err := checkMillis("the size of a tumbling window", w.size, time.Millisecond); err != nil {
		return err
	}
	return checkMillis("the grace of a tumbling window", w.grace, 0)
}

// Of returns the window that i falls into.
func (w Time) Of(i Instant) Span {
	i = at(i).Start
	size := Instant(w.size.Milliseconds())
	into := i % size
	if into < 0 {
		into += size
	}
	if i < math.MinInt64+into {
		return Span{Start: math.MinInt64, End: math.MinInt64 + (size - into) + (i - math.MinInt64)}
	}
	start := i - into
	return Span{Start: start, End: start.Add(w.size)}
}

// Starting returns the window that starts at i, which must be a start that Of returned. Stores keep starts only.
func (w Time) Starting(i Instant) Span { return Span{Start: i, End: i.Add(w.size)} }

// Closed tells whether s takes no more records at the given stream time.
func (w Time) Closed(s Span, streamTime Instant) bool { return s.End.Add(w.grace) <= streamTime }

// Retention is how long, counted from a window's start in stream time, a store has to keep it: size and grace.
func (w Time) Retention() time.Duration { return addDurations(w.size, w.grace) }

// String describes w, for topologies: "tumbling 1m0s, grace 10s".
func (w Time) String() string { return fmt.Sprintf("tumbling %v, grace %v", w.size, w.grace) }
