package window

import (
	"fmt"
	"time"
)

// Sessions is a kind of window that follows the records of a key: a session lasts as long as they follow each other by
// at most the gap. Make one with [Session].
type Sessions struct {
	gap, grace time.Duration
}

// Session returns session windows that end after gap without a record of their key. The gap is whole milliseconds;
// zero joins only records of the same instant. The grace is zero until set.
//
// The span of a session goes from its first record's time to its last record's (Span.Last; so End is a millisecond
// later), without the gap. It grows as records arrive, to either side, and a record between two sessions joins them.
func Session(gap time.Duration) Sessions { return Sessions{gap: gap} }

// Grace returns s with a grace: how long after gap has passed a session still takes records, in stream time.
func (s Sessions) Grace(d time.Duration) Sessions {
	s.grace = d
	return s
}

// Err tells what is wrong with the gap or grace, or nil. A streams builder calls it.
func (s Sessions) Err() error {
	if err := checkMillis("the gap of a session", s.gap, 0); err != nil {
		return err
	}
	return checkMillis("the grace of a session", s.grace, 0)
}

// Of returns the session of a single record at i.
func (s Sessions) Of(i Instant) Span { return at(i) }

// Reach returns what sessions have to overlap with to be joined by a record at i: gap before it to gap after it.
func (s Sessions) Reach(i Instant) Span {
	one := at(i)
	return Span{Start: one.Start.Add(-s.gap), End: one.End.Add(s.gap)}
}

// GracePeriod returns the grace.
func (s Sessions) GracePeriod() time.Duration { return s.grace }

// Expiry returns the end of the gap after a session: when it closes if there is no grace.
func (s Sessions) Expiry(sp Span) Instant { return sp.End.Add(s.gap) }

// Closed tells whether the session takes no more records at the given stream time: no record that is on time can
// still reach it.
func (s Sessions) Closed(sp Span, streamTime Instant) bool {
	return s.Expiry(sp).Add(s.grace) <= streamTime
}

// Retention is how long, counted from its end, a store has to keep a session: gap and grace, and a millisecond because a
// store that measures time by the ends of sessions, which are exclusive, runs that much ahead of stream time.
func (s Sessions) Retention() time.Duration {
	return addDurations(addDurations(s.gap, s.grace), time.Millisecond)
}

// String describes s, for topologies: "session gap 30m0s, grace 0s".
func (s Sessions) String() string { return fmt.Sprintf("session gap %v, grace %v", s.gap, s.grace) }
