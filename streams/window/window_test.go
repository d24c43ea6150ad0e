package window

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTumblingWindowsAreHalfOpenAndAligned(t *testing.T) {
	w := Tumbling(time.Minute)
	tests := []struct{ at, start, end Instant }{
		{0, 0, 60_000},
		{59_999, 0, 60_000},
		{60_000, 60_000, 120_000},
		{-1, -60_000, 0},
		{-60_000, -60_000, 0},
		{math.MaxInt64, 9223372036854720000, math.MaxInt64},
	}
	for _, test := range tests {
		if got := w.Of(test.at); got != (Span{test.start, test.end}) {
			t.Errorf("window of %d is %d to %d, want %d to %d", test.at, got.Start, got.End, test.start, test.end)
		}
	}
}

func TestAWindowClosesAtItsEndAndGrace(t *testing.T) {
	w := Tumbling(time.Minute).Grace(10 * time.Second)
	s := w.Of(0)
	if w.Closed(s, 69_999) || !w.Closed(s, 70_000) {
		t.Error("[0, 60s) with 10 s of grace does not close at 70 s exactly")
	}
	if w.Closed(w.Of(math.MaxInt64), math.MaxInt64-1) {
		t.Error("the last window closes before the end of time")
	}
}

func TestSessionsReachAndClose(t *testing.T) {
	s := Session(10 * time.Millisecond).Grace(5 * time.Millisecond)
	one := s.Of(100)
	if one != (Span{100, 101}) || one.Last() != 100 {
		t.Errorf("the session of a record at 100 is %v", one)
	}
	for at, joined := range map[Instant]bool{89: false, 90: true, 110: true, 111: false} {
		if got := s.Reach(at).Overlaps(one); got != joined {
			t.Errorf("a record at %d joins: %v, want %v", at, got, joined)
		}
	}
	if s.Closed(one, 115) || !s.Closed(one, 116) {
		t.Error("a record at 110 can come until stream time 115, so the session closes at 116")
	}
}

func TestBadWindowsAreRefused(t *testing.T) {
	for _, err := range []error{
		Tumbling(0).Err(), Tumbling(-time.Second).Err(), Tumbling(time.Microsecond).Err(), Tumbling(time.Millisecond + 1).Err(),
		Tumbling(time.Second).Grace(-1).Err(), Session(-time.Second).Err(), Session(time.Microsecond).Err(), Session(0).Grace(1).Err(),
	} {
		if err == nil {
			t.Error("accepted")
		}
	}
	for _, err := range []error{Tumbling(time.Millisecond).Err(), Session(0).Err(), Tumbling(math.MaxInt64 / time.Millisecond * time.Millisecond).Grace(time.Hour).Err()} {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestInstantsOfAbsurdTimes(t *testing.T) {
	if got := At(time.Unix(1<<62, 0)); got != math.MaxInt64 {
		t.Errorf("far future is %d", got)
	}
	if got := At(time.Unix(-1<<62, 0)); got != math.MinInt64 {
		t.Errorf("far past is %d", got)
	}
	if got := At(time.Unix(0, -1)); got != -1 {
		t.Errorf("a nanosecond before 1970 is %d, want -1: cut towards the past", got)
	}
	if got := Instant(math.MaxInt64 - 3).Add(time.Hour); got != math.MaxInt64 {
		t.Errorf("sum is %d", got)
	}
	if got := Instant(math.MinInt64 + 3).Add(-time.Hour); got != math.MinInt64 {
		t.Errorf("difference is %d", got)
	}
}

// anyTime draws times of all magnitudes, the extremes among them.
func anyTime() *rapid.Generator[Instant] {
	ends := []int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64 - 1, math.MaxInt64}
	ms := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-100_000, 100_000), rapid.SampledFrom(ends))
	return rapid.Map(ms, func(ms int64) Instant { return Instant(ms) })
}

func TestEveryTimeHasOneWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Tumbling(time.Duration(rapid.Int64Range(1, math.MaxInt64/1_000_000).Draw(t, "size")) * time.Millisecond)
		at := anyTime().Draw(t, "at")
		s := w.Of(at)
		if at < math.MaxInt64 && !s.Contains(at) {
			t.Fatalf("%d is not in its window %d to %d", at, s.Start, s.End)
		}
		if length := uint64(s.End) - uint64(s.Start); length > uint64(w.size.Milliseconds()) {
			t.Fatalf("window %d to %d is too long", s.Start, s.End)
		}
		other := anyTime().Draw(t, "other")
		if o := w.Of(other); o != s && o.Overlaps(s) {
			t.Fatalf("windows %v of %d and %v of %d overlap", s, at, o, other)
		}
	})
}

func TestSessionsJoinSymmetrically(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Session(time.Duration(rapid.Int64Range(0, 1_000).Draw(t, "gap")) * time.Millisecond)
		a, b := anyTime().Draw(t, "a"), anyTime().Draw(t, "b")
		if s.Reach(a).Overlaps(s.Of(b)) != s.Reach(b).Overlaps(s.Of(a)) {
			t.Fatalf("records at %d and %d join one way only", a, b)
		}
		u := s.Of(a).Union(s.Of(b))
		if a < math.MaxInt64 && !u.Contains(a) || b < math.MaxInt64 && !u.Contains(b) {
			t.Fatalf("the joined session %v does not contain %d and %d", u, a, b)
		}
	})
}

func TestAWindowedKeyPrintsWithItsKey(t *testing.T) {
	w := Windowed[string]{Key: "alice", Span: Span{Start: 0, End: 60_000}}
	if got, want := w.String(), "alice [1970-01-01T00:00:00.000Z, 1970-01-01T00:01:00.000Z)"; got != want {
		t.Errorf("prints as %q, want %q", got, want)
	}
}
