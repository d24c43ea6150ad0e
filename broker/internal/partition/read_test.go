package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/storage"
)

func TestReadsOutsideTheLogSayWhatThereIs(t *testing.T) {
	r := newRig(t, nil, Settings{})
	r.mustAppend(r.batch(batch.None, "a", "b", "c"), AcksAll)
	for _, from := range []ident.Offset{-1, 4} {
		res, err := r.p.Read(ReadRequest{From: from, BytesMax: 100, Epoch: ident.NoLeaderEpoch})
		e, ok := errors.AsType[*storage.OutOfRangeError](err)
		if !ok || e.Start != 0 || e.End != 3 || res.HighWatermark != 3 {
			t.Errorf("reading from %d gives %+v, %v", from, res, err)
		}
	}
	res, err := r.p.Read(ReadRequest{From: 3, BytesMax: 100, Epoch: ident.NoLeaderEpoch})
	if err != nil || res.Records.Len() != 0 || res.HighWatermark != 3 {
		t.Errorf("reading at the end gives %+v, %v", res, err)
	}
	if _, err := r.p.Read(ReadRequest{From: 0, Epoch: 7}); err == nil {
		t.Error("a wrong epoch reads")
	}
}

func TestLookupsSeeWhatReadersSee(t *testing.T) {
	g := newGate(disk.NewMemory(newClock().Now))
	r := newRig(t, g, Settings{})
	r.mustAppend(r.batch(batch.Gzip, "a", "b"), AcksAll)
	start := r.clock.Now().UnixMilli()
	r.clock.advance(time.Minute)
	g.shut()
	defer g.release()
	r.start(r.batch(batch.None, "c"), AcksAll)
	at := func(ms int64, iso Isolation) string {
		s, ok, err := r.p.OffsetForTime(ms, iso)
		return fmt.Sprint(s.Offset, ok, err)
	}
	if got := at(start+1, ReadUncommitted); got != "1 true <nil>" {
		t.Errorf("second record: %s", got)
	}
	if got := at(start+2, ReadUncommitted); got != "0 false <nil>" {
		t.Errorf("a record that is not safe yet: %s", got)
	}
	if got := at(start+2, ReadReplica); got != "2 true <nil>" {
		t.Errorf("the same for a replica: %s", got)
	}
	if s, ok, err := r.p.MaxTimestamp(ReadReplica); !ok || err != nil || s.Offset != 2 {
		t.Errorf("highest time is at %+v, %v, %v", s, ok, err)
	}
	if s, ok, err := r.p.MaxTimestamp(ReadUncommitted); ok || err != nil {
		t.Errorf("highest time that is not safe yet: %+v, %v", s, err)
	}
	if got := r.p.EpochAt(1); got != 0 {
		t.Errorf("epoch of record 1 is %d", got)
	}
}

func TestWatchersAreToldWhatTheyWaitFor(t *testing.T) {
	r := newRig(t, nil, Settings{})
	calls := make(chan struct{}, 100)
	told := func(what string) {
		t.Helper()
		select {
		case <-calls:
		case <-time.After(10 * time.Second):
			t.Fatalf("not told of %s", what)
		}
		for len(calls) > 0 {
			<-calls
		}
	}
	var watchers []*Watcher
	for range 3 {
		w := NewWatcher(func() { calls <- struct{}{} })
		r.p.Watch(w)
		watchers = append(watchers, w)
	}
	r.p.Unwatch(watchers[1])
	r.p.Unwatch(watchers[1])
	r.p.Unwatch(watchers[0])
	r.mustAppend(r.batch(batch.None, "a"), AcksAll)
	told("the high watermark")
	if _, err := r.p.DeleteRecords(1); err != nil {
		t.Fatal(err)
	}
	told("the start of the log")
	r.p.Resign()
	told("the end of leadership")
	if err := r.p.Close(); err != nil {
		t.Fatal(err)
	}
	told("the close")
	r.p.Unwatch(watchers[2])
	if r.p.watchers.first != nil {
		t.Error("a watcher is left")
	}
}

func TestDeleteRecords(t *testing.T) {
	r := newRig(t, nil, Settings{})
	written := 0
	r.p.cfg.Hooks.StartAdvanced = func() error { written++; return nil }
	r.mustAppend(r.batch(batch.None, "a", "b", "c"), AcksAll)
	start, err := r.p.DeleteRecords(2)
	if err != nil || start != 2 || written != 1 {
		t.Fatalf("got %d, %v; written down %d times", start, err, written)
	}
	r.wantValues(ReadUncommitted, "2=c")
	if c := r.p.Checkpoint(); c.Start != 2 || c.RecoveryPoint != 3 || c.HighWatermark != 3 {
		t.Errorf("checkpoint is %+v", c)
	}
	if _, err := r.p.DeleteRecords(4); err == nil {
		t.Error("deleted beyond the high watermark")
	}
	if start, err := r.p.DeleteRecords(1); err != nil || start != 2 {
		t.Errorf("deleting what is gone gives %d, %v", start, err)
	}
	if start, err := r.p.DeleteRecords(ident.NoOffset); err != nil || start != 3 {
		t.Errorf("deleting everything gives %d, %v", start, err)
	}
	if res := r.mustAppend(r.batch(batch.None, "d"), AcksAll); res.Base != 3 || res.LogStart != 3 {
		t.Errorf("append gives %+v", res)
	}
	if s, ok, err := r.p.OffsetForTime(0, ReadUncommitted); err != nil || !ok || s.Offset != 3 {
		t.Errorf("time 0 is at %+v, %v, %v", s, ok, err)
	}
}

func TestRetentionDropsSegmentsTheirSnapshotsAndIdleProducers(t *testing.T) {
	r := newRig(t, nil, Settings{
		Log:            storage.Settings{SegmentBytes: 300, Delete: true, RetentionAge: time.Hour, RetentionBytes: -1},
		ProducerExpiry: time.Minute,
	})
	for i := range 20 {
		r.mustAppend(r.idempotent(int32(i), strings.Repeat("x", 50)), AcksAll)
	}
	before := r.snapshotNames()
	if len(before) < 5 {
		t.Fatalf("snapshots are %v", before)
	}
	r.clock.advance(2 * time.Hour)
	d, err := r.p.ApplyRetention(r.clock.Now())
	if err != nil || d.Segments == 0 || d.Start != 20 {
		t.Fatalf("deleted %+v, %v", d, err)
	}
	if m := r.p.Marks(); m.Start != 20 || m.End != 20 || m.HighWatermark != 20 {
		t.Errorf("marks are %+v", m)
	}
	if after := r.snapshotNames(); len(after) > 2 {
		t.Errorf("snapshots are %v", after)
	}
	if got := r.p.Producers(); len(got) != 0 {
		t.Errorf("producers are %+v", got)
	}
	if res := r.mustAppend(r.idempotent(20, "y"), AcksAll); res.Base != 20 {
		t.Errorf("append gives %+v", res)
	}
}

func (r *rig) snapshotNames() []string {
	r.t.Helper()
	infos, err := r.fs.ReadDir("data/t-0")
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, info := range infos {
		if strings.HasSuffix(info.Name(), snapshotSuffix) {
			out = append(out, info.Name())
		}
	}
	slices.Sort(out)
	return out
}
