package partition

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/storage"
)

// TestPartitionIsAList runs random operations on a partition and on a list, with
// segments of any size, clean restarts and crashes in between: both hold the
// same. Every acknowledged batch survives, and each that is sent again is called
// a duplicate.
func TestPartitionIsAList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := &rig{t: t, clock: newClock(), codecs: batch.NewCodecs(), syncers: NewSyncers(2)}
		defer r.syncers.Close()
		mem := disk.NewMemory(r.clock.Now)
		if err := mem.MkdirAll("data/t-0"); err != nil {
			rt.Fatal(err)
		}
		for _, dir := range []string{".", "data"} {
			if err := mem.SyncDir(dir); err != nil {
				rt.Fatal(err)
			}
		}
		r.fs = mem
		s := Settings{
			Log: storage.Settings{
				SegmentBytes:  rapid.SampledFrom([]int64{1000, 2000, 1 << 20}).Draw(rt, "segment bytes"),
				IndexInterval: rapid.SampledFrom([]int{-1, 300, 4096}).Draw(rt, "index interval"),
				Delete:        true, RetentionAge: time.Hour, RetentionBytes: -1,
			},
			ProducerExpiry: math.MaxInt64,
			Recompress:     rapid.Bool().Draw(rt, "recompress"),
			Codec:          batch.LZ4,
		}
		saved := Checkpoint{}
		reopen := func(clean bool) {
			if err := r.open(s, saved, clean); err != nil {
				rt.Fatal(err)
			}
			r.p.snapshotEvery = 700
		}
		reopen(false)
		defer func() { _ = r.p.Close() }()

		var list []string // all values ever, by offset
		start := 0
		type sent struct {
			sequence int32
			values   []string
			base     ident.Offset
		}
		var window []sent
		sequence := int32(0)
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				b := sent{sequence: sequence, base: ident.Offset(len(list))}
				for range rapid.IntRange(1, 4).Draw(rt, "records") {
					b.values = append(b.values, fmt.Sprint("v", len(list)))
					list = append(list, b.values[len(b.values)-1])
				}
				if res := r.append(r.idempotent(sequence, b.values...), AcksAll); res.Err != nil || res.Base != b.base || res.Duplicate {
					rt.Fatalf("append gives %+v, want base %d", res, b.base)
				}
				sequence += int32(len(b.values))
				window = append(window, b)
				window = window[max(0, len(window)-5):]
			},
			"append again": func(rt *rapid.T) {
				if len(window) == 0 {
					rt.Skip("nothing was sent")
				}
				b := rapid.SampledFrom(window).Draw(rt, "batch")
				if res := r.append(r.idempotent(b.sequence, b.values...), AcksAll); res.Err != nil || res.Base != b.base || !res.Duplicate {
					rt.Fatalf("appending sequence %d again gives %+v, want base %d", b.sequence, res, b.base)
				}
			},
			"delete records": func(rt *rapid.T) {
				start = max(start, rapid.IntRange(start, len(list)).Draw(rt, "before"))
				if got, err := r.p.DeleteRecords(ident.Offset(start)); err != nil || int(got) != start {
					rt.Fatalf("deleting before %d gives %d, %v", start, got, err)
				}
				saved = r.p.Checkpoint()
			},
			"retention": func(rt *rapid.T) {
				r.clock.advance(time.Duration(rapid.IntRange(10, 70).Draw(rt, "minutes")) * time.Minute)
				d, err := r.p.ApplyRetention(r.clock.Now())
				if err != nil || int(d.Start) < start {
					rt.Fatalf("retention gives %+v, %v", d, err)
				}
				start = int(d.Start)
			},
			"restart": func(rt *rapid.T) {
				if err := r.p.Close(); err != nil {
					rt.Fatal(err)
				}
				saved = r.p.Checkpoint()
				reopen(true)
			},
			"crash": func(rt *rapid.T) {
				lose := rapid.Bool().Draw(rt, "lose all")
				old := r.p
				mem = mem.Crash(map[bool]disk.Pick{true: disk.LoseAll, false: disk.KeepAll}[lose])
				_ = old.Close()
				r.fs = mem
				reopen(false)
			},
			"": func(rt *rapid.T) {
				var want []string
				for o := start; o < len(list); o++ {
					want = append(want, fmt.Sprintf("%d=%s", o, list[o]))
				}
				if got := r.values(ReadUncommitted); !slices.Equal(got, want) {
					rt.Fatalf("log holds %v, want %v", got, want)
				}
				if m := r.p.Marks(); int(m.Start) != start || int(m.End) != len(list) || int(m.HighWatermark) != len(list) {
					rt.Fatalf("marks are %+v, want [%d, %d)", m, start, len(list))
				}
			},
		})
	})
}

// TestEverythingAtOnce has all operations run concurrently, for the race
// detector, and ends with a close under load.
func TestEverythingAtOnce(t *testing.T) {
	r := newRig(t, nil, Settings{Log: storage.Settings{SegmentBytes: 2000, Delete: true, RetentionAge: time.Hour, RetentionBytes: 8000}})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	loop := func(f func(i int)) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					f(i)
				}
			}
		})
	}
	for range 3 {
		loop(func(i int) {
			done, w := r.start(r.batch(batch.None, fmt.Sprint(i)), AcksAll)
			if i%7 == 0 {
				w.Cancel(ErrTimedOut)
			}
			<-done
		})
	}
	loop(func(int) {
		m := r.p.Marks()
		res, err := r.p.Read(ReadRequest{From: m.Start, BytesMax: 500, AtLeastOne: true, Epoch: ident.NoLeaderEpoch})
		if err == nil {
			_, _ = res.Records.Append(nil)
		}
		_ = res.Records.Close()
		_, _, _ = r.p.OffsetForTime(r.clock.Now().UnixMilli(), ReadUncommitted)
	})
	loop(func(i int) {
		w := NewWatcher(func() {})
		r.p.Watch(w)
		if i%10 == 0 {
			_, _ = r.p.ApplyRetention(r.clock.Now())
			_, _ = r.p.DeleteRecords(max(0, r.p.Marks().HighWatermark-20))
		}
		r.p.Checkpoint()
		r.p.Unwatch(w)
	})
	appended := func() bool { return r.p.Marks().HighWatermark > 300 }
	eventually(t, "300 records are appended", appended)
	if err := r.p.Close(); err != nil {
		t.Errorf("closing under load: %v", err)
	}
	close(stop)
	wg.Wait()
}
