package storage

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
)

// absolute returns a batch of records with exactly these times.
func (w *world) absolute(codec batch.Codec, times ...int64) batch.View {
	shifted := make([]int64, len(times))
	for i, ms := range times {
		shifted[i] = ms - epochMs
	}
	return w.records(codec, "value", shifted...)
}

func TestOffsetForTime(t *testing.T) {
	type query struct {
		ms   int64
		want ident.Offset // -1: none
	}
	cases := []struct {
		name    string
		batches [][]int64
		start   ident.Offset
		queries []query
	}{
		{"times out of order in a batch", [][]int64{{10, 50, 20, 30}}, 0,
			[]query{{0, 0}, {10, 0}, {11, 1}, {20, 1}, {50, 1}, {51, -1}}},
		{"between the times", [][]int64{{2, 4, 6, 8}}, 0,
			[]query{{1, 0}, {2, 0}, {3, 1}, {7, 3}, {8, 3}, {9, -1}}},
		{"one record a batch, out of order", [][]int64{{10}, {50}, {20}, {30}}, 0,
			[]query{{5, 0}, {20, 1}, {50, 1}, {51, -1}}},
		{"records below the start", [][]int64{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}, 5,
			[]query{{0, 5}, {4, 5}, {6, 5}, {7, 6}, {10, -1}}},
		{"a batch without times", [][]int64{{-1, -1}, {5}}, 0,
			[]query{{0, 2}, {5, 2}, {6, -1}}},
		{"the far future, then the present", [][]int64{{math.MaxInt64}, {100}, {200}}, 0,
			[]query{{100, 0}, {math.MaxInt64, 0}}},
		{"going backwards", [][]int64{{300}, {200}, {100}, {0}}, 0,
			[]query{{0, 0}, {100, 0}, {300, 0}, {301, -1}}},
	}
	for _, c := range cases {
		for codec := batch.None; codec <= batch.Zstd; codec++ {
			for _, sealed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/sealed=%v", c.name, codec, sealed), func(t *testing.T) {
					w := newWorld(t, memory(), func(c *Config) { c.Settings.IndexInterval = 1 })
					w.open()
					for _, times := range c.batches {
						if _, err := w.log.AppendAsLeader(w.absolute(codec, times...), 3); err != nil {
							t.Fatal(err)
						}
					}
					if sealed {
						if err := w.log.Roll(); err != nil {
							t.Fatal(err)
						}
					}
					if err := w.log.AdvanceStart(c.start); err != nil {
						t.Fatal(err)
					}
					for _, q := range c.queries {
						s, ok, err := w.log.OffsetForTime(q.ms)
						if err != nil {
							t.Fatal(err)
						}
						if !ok {
							s.Offset = -1
						}
						if s.Offset != q.want || ok && s.Epoch != 3 {
							t.Errorf("time %d: %+v, want offset %d", q.ms, s, q.want)
						}
					}
				})
			}
		}
	}
}

// TestLyingHeaders writes batches whose header claims a later time than any of
// their records has.
func TestLyingHeaders(t *testing.T) {
	w := newWorld(t, memory(), func(c *Config) { c.Settings.IndexInterval = 1 })
	w.open()
	for _, ms := range []int64{10, 20, 30} {
		v := w.absolute(batch.None, ms)
		if ms == 20 {
			v.SetMaxTimestamp(batch.CreateTime, 1000)
		}
		if _, err := w.log.AppendAsLeader(v, 0); err != nil {
			t.Fatal(err)
		}
	}
	for ms, want := range map[int64]ident.Offset{15: 1, 25: 2, 30: 2} {
		if s, ok, err := w.log.OffsetForTime(ms); err != nil || !ok || s.Offset != want {
			t.Errorf("time %d: %+v, %v, %v; want offset %d", ms, s, ok, err, want)
		}
	}
	if s, ok, err := w.log.OffsetForTime(31); ok || err != nil {
		t.Errorf("time 31: %+v, %v", s, err)
	}
}

func TestMaxTimestampNamesTheFirstYoungestRecord(t *testing.T) {
	for codec := batch.None; codec <= batch.Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			w := newWorld(t, memory())
			w.open()
			if s, ok, err := w.log.MaxTimestamp(); ok || err != nil {
				t.Errorf("empty log: %+v, %v", s, err)
			}
			for _, times := range [][]int64{{5, 1}, {10, 50, 20, 50}, {50, 30}, {7}} {
				if _, err := w.log.AppendAsLeader(w.absolute(codec, times...), 0); err != nil {
					t.Fatal(err)
				}
			}
			for start, want := range map[ident.Offset]Stamp{0: {3, 50, 0}, 4: {5, 50, 0}, 6: {6, 50, 0}, 7: {7, 30, 0}, 8: {8, 7, 0}} {
				v, err := w.log.look()
				if err != nil {
					t.Fatal(err)
				}
				v.start = start
				if s, ok, err := w.log.maxTimestamp(v); err != nil || !ok || s != want {
					t.Errorf("from %d: %+v, %v, %v; want %+v", start, s, ok, err, want)
				}
			}
		})
	}
}

// TestAbsurdTimesDoNotHoldUpRetention has records that claim to be from the
// far future or past: they are kept as long as others written then.
func TestAbsurdTimesDoNotHoldUpRetention(t *testing.T) {
	w := newWorld(t, memory(), func(c *Config) {
		c.Settings.Delete, c.Settings.RetentionAge, c.Settings.SegmentAge = true, time.Hour, time.Hour
	})
	w.open()
	for _, ms := range []int64{math.MaxInt64, -1, time.Now().Add(10 * 365 * 24 * time.Hour).UnixMilli(), 0, math.MaxInt64 - 1} {
		if _, err := w.log.AppendAsLeader(w.absolute(batch.None, ms), 0); err != nil {
			t.Fatal(err)
		}
		if err := w.log.Roll(); err != nil {
			t.Fatal(err)
		}
	}
	// The disk dates its files by the real clock.
	if d, err := w.log.ApplyRetention(time.Now(), w.log.End()); err != nil || d.Segments != 0 {
		t.Errorf("now: %+v, %v", d, err)
	}
	if d, err := w.log.ApplyRetention(time.Now().Add(2*time.Hour), w.log.End()); err != nil || d.Segments != 5 {
		t.Errorf("in two hours: %+v, %v", d, err)
	}
}
