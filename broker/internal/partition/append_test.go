package partition

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/producer"
	"github.com/millrace/millrace/broker/internal/storage"
)

func TestAcksWaitForTheDisk(t *testing.T) {
	g := newGate(disk.NewMemory(newClock().Now))
	r := newRig(t, g, Settings{})
	g.shut()
	all, _ := r.start(r.batch(batch.None, "a", "b"), AcksAll)
	leader, _ := r.start(r.batch(batch.None, "c"), AcksLeader)
	none, w := r.start(r.batch(batch.None, "d"), AcksNone)
	if w != nil {
		t.Error("acks=0 waits")
	}
	if res := r.wait(none); res.Err != nil || res.Base != 3 || res.End != 4 {
		t.Errorf("acks=0 gives %+v", res)
	}
	notYet(t, all)
	notYet(t, leader)
	r.wantValues(ReadUncommitted)
	r.wantValues(ReadReplica, "0=a", "1=b", "2=c", "3=d")
	if m := r.p.Marks(); m.HighWatermark != 0 || m.End != 4 || m.LastStable != 0 {
		t.Errorf("marks are %+v", m)
	}

	g.release()
	if res := r.wait(all); res.Err != nil || res.Base != 0 || res.End != 2 || res.AppendTime != batch.NoTimestamp {
		t.Errorf("acks=all gives %+v", res)
	}
	if res := r.wait(leader); res.Err != nil || res.Base != 2 {
		t.Errorf("acks=1 gives %+v", res)
	}
	eventually(t, "the record without acks becomes visible", func() bool { return r.p.Marks().HighWatermark == 4 })
	r.wantValues(ReadUncommitted, "0=a", "1=b", "2=c", "3=d")
}

func TestManyAppendsShareOneSync(t *testing.T) {
	g := newGate(disk.NewMemory(newClock().Now))
	r := newRig(t, g, Settings{})
	r.mustAppend(r.batch(batch.None, "first"), AcksAll)
	g.shut()
	var all []<-chan AppendResult
	for i := range 100 {
		done, _ := r.start(r.batch(batch.None, fmt.Sprint(i)), AcksAll)
		all = append(all, done)
	}
	before := g.count()
	g.release()
	for _, done := range all {
		if res := r.wait(done); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	if got := g.count() - before; got > 4 {
		t.Errorf("%d syncs for 100 appends", got)
	}
}

func TestWithKafkasDefaultsNothingWaitsForTheDisk(t *testing.T) {
	g := newGate(disk.NewMemory(newClock().Now))
	r := newRig(t, g, Settings{FlushRecords: math.MaxInt64})
	before := g.count()
	done, w := r.start(r.batch(batch.None, "a"), AcksAll)
	if w != nil {
		t.Error("acks=all waits")
	}
	if res := r.wait(done); res.Err != nil || res.Base != 0 {
		t.Errorf("got %+v", res)
	}
	r.wantValues(ReadUncommitted, "0=a")
	if got := g.count(); got != before {
		t.Errorf("%d syncs", got-before)
	}
}

func TestFlushMessagesAndFlushMs(t *testing.T) {
	mem := disk.NewMemory(newClock().Now)
	r := newRig(t, mem, Settings{FlushRecords: 3})
	r.mustAppend(r.batch(batch.None, "a", "b"), AcksAll)
	if got := r.p.Checkpoint().RecoveryPoint; got != 0 {
		t.Errorf("two of three records and flushed to %d", got)
	}
	r.mustAppend(r.batch(batch.None, "c"), AcksAll)
	eventually(t, "three records are flushed", func() bool { return r.p.Checkpoint().RecoveryPoint == 3 })

	r.p.SetSettings(Settings{FlushRecords: math.MaxInt64, FlushAge: time.Millisecond})
	r.mustAppend(r.batch(batch.None, "d"), AcksAll)
	eventually(t, "an old record is flushed", func() bool { return r.p.Checkpoint().RecoveryPoint == 4 })
}

func TestChangeToDurableFlushesWhatIsThere(t *testing.T) {
	r := newRig(t, nil, Settings{FlushRecords: math.MaxInt64})
	r.mustAppend(r.batch(batch.None, "a"), AcksAll)
	r.p.SetSettings(Settings{})
	eventually(t, "the record is flushed", func() bool { return r.p.Checkpoint().RecoveryPoint == 1 })
}

func TestDuplicatesGetTheirFirstOffsetsAndWaitAsTheOriginal(t *testing.T) {
	g := newGate(disk.NewMemory(newClock().Now))
	r := newRig(t, g, Settings{})
	g.shut()
	first, _ := r.start(r.idempotent(0, "a", "b"), AcksAll)
	second, _ := r.start(r.idempotent(2, "c"), AcksAll)
	again, _ := r.start(r.idempotent(0, "a", "b"), AcksAll)
	notYet(t, first)
	notYet(t, again)
	g.release()
	for what, done := range map[string]<-chan AppendResult{"first": first, "again": again} {
		if res := r.wait(done); res.Err != nil || res.Base != 0 || res.End != 2 || res.Duplicate != (what == "again") {
			t.Errorf("%s: %+v", what, res)
		}
	}
	r.wait(second)
	if res := r.append(r.idempotent(0, "a", "b"), AcksAll); res.Base != 0 || !res.Duplicate {
		t.Errorf("a late duplicate gives %+v", res)
	}
	r.wantValues(ReadUncommitted, "0=a", "1=b", "2=c")
	if res := r.append(r.idempotent(9, "z"), AcksAll); !errors.Is(res.Err, producer.ErrSequence) || res.Base != ident.NoOffset {
		t.Errorf("a gap gives %+v", res)
	}
}

func TestTopicRulesAreHeld(t *testing.T) {
	keyless := func(r *rig) batch.View {
		b := batch.NewBuilder(r.codecs, batch.None)
		b.Append(batch.Record{Timestamp: r.clock.Now().UnixMilli(), Value: []byte("v")})
		v, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	at := func(d time.Duration) func(*rig) batch.View {
		return func(r *rig) batch.View {
			b := batch.NewBuilder(r.codecs, batch.None)
			b.Append(batch.Record{Timestamp: r.clock.Now().Add(d).UnixMilli(), Key: []byte("k")})
			v, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	ok := func(r *rig) batch.View { return r.batch(batch.None, "v") }
	for _, tc := range []struct {
		name string
		s    Settings
		make func(*rig) batch.View
		want error // nil: accepted
	}{
		{"too large", Settings{BatchBytesMax: 100}, func(r *rig) batch.View { return r.batch(batch.None, strings.Repeat("x", 100)) }, &TooLargeError{}},
		{"keyless in compacted topic", Settings{Compact: true}, keyless, batch.ErrInvalid},
		{"keyless in compacted topic, header level", Settings{Compact: true, Validation: batch.LevelHeader}, keyless, batch.ErrInvalid},
		{"keyless elsewhere", Settings{}, keyless, nil},
		{"too late", Settings{TimestampAfterMax: time.Hour}, at(2 * time.Hour), batch.ErrTimestamp},
		{"late enough", Settings{TimestampAfterMax: time.Hour}, at(time.Hour), nil},
		{"too early", Settings{TimestampBeforeMax: time.Hour, TimestampAfterMax: math.MaxInt64}, at(-2 * time.Hour), batch.ErrTimestamp},
		{"times without bounds", Settings{TimestampBeforeMax: math.MaxInt64, TimestampAfterMax: math.MaxInt64}, func(r *rig) batch.View {
			b := batch.NewBuilder(r.codecs, batch.None)
			b.Append(batch.Record{Timestamp: math.MaxInt64})
			b.Append(batch.Record{Timestamp: 0})
			return r.build(b)
		}, nil},
		{"times do not count", Settings{TimestampType: batch.LogAppendTime, TimestampAfterMax: time.Hour}, at(2 * time.Hour), nil},
		{"two batches", Settings{}, func(r *rig) batch.View { return append(ok(r), ok(r)...) }, ErrBatchCount},
		{"no batch", Settings{}, func(*rig) batch.View { return nil }, ErrBatchCount},
		{"half a batch", Settings{}, func(r *rig) batch.View { v := ok(r); return v[:len(v)-1] }, batch.ErrInvalid},
		{"transaction that nobody began", Settings{}, func(r *rig) batch.View {
			b := batch.NewBuilder(r.codecs, batch.None)
			b.SetProducer(7, 0, 0)
			b.SetTransactional()
			return r.build(b, "v")
		}, batch.ErrInvalid},
		{"flipped bit", Settings{}, func(r *rig) batch.View { v := ok(r); v[len(v)-1] ^= 1; return v }, batch.ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil, tc.s)
			res := r.append(tc.make(r), AcksAll)
			if _, tooLarge := errors.AsType[*TooLargeError](res.Err); tooLarge {
				if _, want := tc.want.(*TooLargeError); want {
					return
				}
			}
			if !errors.Is(res.Err, tc.want) {
				t.Errorf("got %v, want %v", res.Err, tc.want)
			}
			if want := ident.Offset(0); tc.want != nil && r.p.Marks().End != want {
				t.Errorf("a refused batch is in the log")
			}
		})
	}
}

func TestLogAppendTimeIsTheBrokers(t *testing.T) {
	r := newRig(t, nil, Settings{TimestampType: batch.LogAppendTime})
	v := r.idempotent(0, "a", "b")
	r.clock.advance(time.Minute)
	now := r.clock.Now().UnixMilli()
	if res := r.mustAppend(v, AcksAll); res.AppendTime != now {
		t.Errorf("append time is %d, want %d", res.AppendTime, now)
	}
	r.clock.advance(time.Minute)
	if res := r.mustAppend(r.idempotent(0, "a", "b"), AcksAll); res.AppendTime != now || !res.Duplicate {
		t.Errorf("duplicate gives %+v, want the first time %d", res, now)
	}
	s, ok, err := r.p.OffsetForTime(now, ReadUncommitted)
	if err != nil || !ok || s.Offset != 0 || s.Timestamp != now {
		t.Errorf("lookup gives %+v, %v, %v", s, ok, err)
	}
}

func TestTopicsCodecReplacesTheProducers(t *testing.T) {
	r := newRig(t, nil, Settings{Recompress: true, Codec: batch.Zstd})
	r.mustAppend(r.batch(batch.Gzip, "a", "b"), AcksAll)
	r.mustAppend(r.batch(batch.None, "c"), AcksAll)
	r.wantValues(ReadUncommitted, "0=a", "1=b", "2=c")
	if err := r.p.Replay(0, func(v batch.View) error {
		if v.Codec() != batch.Zstd {
			return fmt.Errorf("batch at %d is %v", v.BaseOffset(), v.Codec())
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestHighestTimeInTheHeaderIsMended(t *testing.T) {
	r := newRig(t, nil, Settings{})
	v := r.batch(batch.None, "a")
	v.SetMaxTimestamp(batch.CreateTime, math.MaxInt64)
	r.mustAppend(v, AcksAll)
	if err := r.p.Replay(0, func(v batch.View) error {
		if v.MaxTimestamp() != r.clock.Now().UnixMilli() {
			return fmt.Errorf("highest time is %d", v.MaxTimestamp())
		}
		return v.VerifyCRC()
	}); err != nil {
		t.Error(err)
	}
}

func TestLeadershipIsChecked(t *testing.T) {
	r := newRig(t, nil, Settings{})
	if err := r.p.BecomeLeader(Leadership{Epoch: 4, InSync: []ident.BrokerID{1}}); err != nil {
		t.Fatal(err)
	}
	try := func(epoch ident.LeaderEpoch) error {
		v := r.batch(batch.None, "a")
		done := make(chan AppendResult, 1)
		r.p.Append(AppendRequest{Batches: v, Acks: AcksAll, Epoch: epoch}, func(res AppendResult) { done <- res })
		return r.wait(done).Err
	}
	if err := try(4); err != nil {
		t.Errorf("the right epoch gives %v", err)
	}
	for epoch, fenced := range map[ident.LeaderEpoch]bool{3: true, 5: false} {
		e, ok := errors.AsType[*EpochError](try(epoch))
		if !ok || e.Fenced() != fenced || e.Current != 4 {
			t.Errorf("epoch %d gives %v", epoch, e)
		}
	}
	if epoch, end, err := r.p.EndOffsetForEpoch(4); err != nil || epoch != 4 || end != 1 {
		t.Errorf("epoch 4 ends as %d at %d", epoch, end)
	}
	r.p.Resign()
	if err := try(ident.NoLeaderEpoch); !errors.Is(err, ErrNotLeader) {
		t.Errorf("after resigning: %v", err)
	}
	if err := r.p.BecomeLeader(Leadership{Epoch: 5, InSync: []ident.BrokerID{2}}); err == nil {
		t.Error("leads without being in sync")
	}
}

func TestTooFewInSyncReplicas(t *testing.T) {
	g := newGate(disk.NewMemory(newClock().Now))
	r := newRig(t, g, Settings{InSyncMin: 2})
	if res := r.append(r.batch(batch.None, "a"), AcksAll); !errors.Is(res.Err, ErrNotEnoughReplicas) || res.Base != ident.NoOffset {
		t.Errorf("acks=all gives %+v", res)
	}
	r.mustAppend(r.batch(batch.None, "a"), AcksLeader)

	// The set shrinks after the append was written.
	lead := func(version int32, inSync ...ident.BrokerID) {
		if err := r.p.BecomeLeader(Leadership{PartitionEpoch: version, InSync: inSync}); err != nil {
			t.Fatal(err)
		}
	}
	lead(1, 1, 2)
	done, _ := r.start(r.batch(batch.None, "b"), AcksAll)
	eventually(t, "the leader has it", func() bool { return r.p.Checkpoint().RecoveryPoint == 2 })
	notYet(t, done)
	lead(2, 1)
	if res := r.wait(done); !errors.Is(res.Err, ErrNotEnoughReplicasAfterAppend) || res.Base != 1 {
		t.Errorf("got %+v", res)
	}
}

func TestWaitCanBeGivenUp(t *testing.T) {
	g := newGate(disk.NewMemory(newClock().Now))
	r := newRig(t, g, Settings{})
	g.shut()
	one, _ := r.start(r.batch(batch.None, "a"), AcksAll)
	two, w := r.start(r.batch(batch.None, "b"), AcksAll)
	if !w.Cancel(ErrTimedOut) {
		t.Error("Cancel did nothing")
	}
	if res := r.wait(two); !errors.Is(res.Err, ErrTimedOut) || res.Base != 1 {
		t.Errorf("got %+v", res)
	}
	if w.Cancel(ErrTimedOut) {
		t.Error("cancelled twice")
	}
	g.release()
	r.wait(one)
	eventually(t, "both are flushed", func() bool { return r.p.Marks().HighWatermark == 2 })
	notYet(t, two)
	var none *Wait
	if none.Cancel(nil) {
		t.Error("nil was cancelled")
	}
}

func TestAppendsOfManyWritersAreInOrder(t *testing.T) {
	r := newRig(t, nil, Settings{Log: storage.Settings{SegmentBytes: 4096}})
	const writers, each = 8, 100
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			last := ident.NoOffset
			for i := range each {
				v := r.batch(batch.None, fmt.Sprintf("%d/%d", w, i))
				done, _ := r.start(v, Acks([]int16{-1, 0, 1}[i%3]))
				res := <-done
				if res.Err != nil || res.Base <= last {
					t.Errorf("writer %d: %+v after offset %d", w, res, last)
					return
				}
				last = res.Base
			}
		})
	}
	wg.Wait()
	eventually(t, "all is visible", func() bool { return r.p.Marks().HighWatermark == writers*each })
	next := make(map[string]int)
	for i, s := range r.values(ReadUncommitted) {
		var offset, w, n int
		if _, err := fmt.Sscanf(s, "%d=%d/%d", &offset, &w, &n); err != nil || offset != i || next[fmt.Sprint(w)] != n {
			t.Fatalf("record %d is %s, want number %d of its writer", i, s, next[fmt.Sprint(w)])
		}
		next[fmt.Sprint(w)]++
	}
}
