package partition

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/producer"
	"github.com/millrace/millrace/broker/internal/storage"
)

func TestCleanStopKeepsEverything(t *testing.T) {
	r := newRig(t, nil, Settings{})
	for i := range 5 {
		r.mustAppend(r.idempotent(int32(i), fmt.Sprint(i)), AcksAll)
	}
	if err := r.p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.open(Settings{}, r.p.Checkpoint(), true); err != nil {
		t.Fatal(err)
	}
	// All five may be sent again by a client that had them in flight.
	for i := range 5 {
		if res := r.mustAppend(r.idempotent(int32(i), fmt.Sprint(i)), AcksAll); !res.Duplicate || int(res.Base) != i {
			t.Errorf("batch %d gives %+v", i, res)
		}
	}
	r.wantValues(ReadUncommitted, "0=0", "1=1", "2=2", "3=3", "4=4")
}

func TestCloseAnswersWhatWaits(t *testing.T) {
	g := newGate(disk.NewMemory(newClock().Now))
	r := newRig(t, g, Settings{})
	if err := r.p.BecomeLeader(Leadership{PartitionEpoch: 1, InSync: []ident.BrokerID{1, 2}}); err != nil {
		t.Fatal(err)
	}
	g.shut()
	leader, _ := r.start(r.batch(batch.None, "a"), AcksLeader)
	all, _ := r.start(r.batch(batch.None, "b"), AcksAll)
	closed := make(chan error)
	go func() { closed <- r.p.Close() }()
	eventually(t, "appends are refused", func() bool {
		return errors.Is(r.append(r.batch(batch.None, "c"), AcksNone).Err, ErrClosed)
	})
	notYet(t, leader)
	g.release()
	if err := <-closed; err != nil {
		t.Errorf("closing: %v", err)
	}
	if res := r.wait(leader); res.Err != nil {
		t.Errorf("what the close made safe gives %v", res.Err)
	}
	if res := r.wait(all); !errors.Is(res.Err, ErrClosed) {
		t.Errorf("what waits for another replica gives %v", res.Err)
	}
}

func TestDeletionAnswersWhatWaits(t *testing.T) {
	g := newGate(disk.NewMemory(newClock().Now))
	r := newRig(t, g, Settings{})
	g.shut()
	done, _ := r.start(r.batch(batch.None, "a"), AcksAll)
	go r.p.CloseForDelete()
	if res := r.wait(done); !errors.Is(res.Err, ErrDeleted) {
		t.Errorf("got %v", res.Err)
	}
	g.release()
	if _, err := r.p.Read(ReadRequest{}); !errors.Is(err, ErrDeleted) {
		t.Errorf("reading gives %v", err)
	}
}

// write puts a file into the partition's folder, durably.
func (r *rig) write(name string, b []byte) {
	r.t.Helper()
	f, err := r.fs.OpenWrite("data/t-0/" + name)
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = f.WriteAt(b, 0)
	if err := errors.Join(err, f.Truncate(int64(len(b))), f.Sync(), f.Close(), r.fs.SyncDir("data/t-0")); err != nil {
		r.t.Fatal(err)
	}
}

// A snapshot may be newer than the log that a crash left. It knows batches that
// are not there any more: used, it would call their repetition a duplicate.
// heldSnapshots holds up whoever begins to write a snapshot.
type heldSnapshots struct {
	disk.FS
	began, release chan struct{}
}

func (h heldSnapshots) OpenWrite(path string) (disk.File, error) {
	if strings.HasSuffix(path, snapshotSuffix) {
		h.began <- struct{}{}
		<-h.release
	}
	return h.FS.OpenWrite(path)
}

// The folder's name may be that of another partition as soon as the deletion
// goes on, and a snapshot of this one's producers must not get in there.
func TestDeletionWaitsForRetention(t *testing.T) {
	held := heldSnapshots{disk.NewMemory(time.Now), make(chan struct{}, 1), make(chan struct{})}
	r := newRig(t, held, Settings{Log: storage.Settings{Delete: true}})
	r.mustAppend(r.idempotent(0, "a"), AcksAll)
	retained := make(chan error, 1)
	go func() {
		_, err := r.p.ApplyRetention(r.clock.Now())
		retained <- err
	}()
	<-held.began
	deleted := make(chan struct{})
	go func() {
		r.p.CloseForDelete()
		close(deleted)
	}()
	select {
	case <-deleted:
		t.Error("the partition was closed while its folder was written to")
	case <-time.After(20 * time.Millisecond): // it may only be slow, which fails nothing
	}
	close(held.release)
	if err := <-retained; err != nil {
		t.Errorf("retention: %v", err)
	}
	<-deleted
	if _, err := r.p.ApplyRetention(r.clock.Now()); !errors.Is(err, ErrDeleted) {
		t.Errorf("retention of a deleted partition gives %v", err)
	}
}

func TestSnapshotBeyondTheEndIsNotBelieved(t *testing.T) {
	r := newRig(t, nil, Settings{})
	r.mustAppend(r.idempotent(0, "a"), AcksAll)
	if err := r.p.Close(); err != nil {
		t.Fatal(err)
	}
	lost := &producer.State{}
	for i := range 3 {
		v := r.idempotent(int32(i), "x")
		v.SetBaseOffset(ident.Offset(i))
		lost.Apply(v, 0)
	}
	r.write("00000000000000000003.snapshot", lost.Encode())
	if err := r.open(Settings{}, Checkpoint{RecoveryPoint: 1}, false); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.snapshotNames()); got != "[00000000000000000001.snapshot]" {
		t.Errorf("snapshots are %s", got)
	}
	if res := r.mustAppend(r.idempotent(1, "b"), AcksAll); res.Duplicate || res.Base != 1 {
		t.Errorf("the lost batch gives %+v", res)
	}
}

func TestTornSnapshotIsReplacedByTheLog(t *testing.T) {
	r := newRig(t, nil, Settings{Log: storage.Settings{SegmentBytes: 300}})
	for i := range 10 {
		r.mustAppend(r.idempotent(int32(i), "value"), AcksAll)
	}
	if err := r.p.Close(); err != nil {
		t.Fatal(err)
	}
	names := r.snapshotNames()
	for _, name := range names[1:] {
		r.write(name, []byte("torn"))
	}
	if err := r.open(Settings{}, r.p.Checkpoint(), false); err != nil {
		t.Fatal(err)
	}
	for i := 5; i < 10; i++ {
		if res := r.mustAppend(r.idempotent(int32(i), "value"), AcksAll); !res.Duplicate {
			t.Errorf("batch %d gives %+v", i, res)
		}
	}
}

func TestLargeSegmentHasOneSnapshotInBetween(t *testing.T) {
	r := newRig(t, nil, Settings{})
	r.p.snapshotEvery = 10_000
	value := strings.Repeat("x", 1000)
	const n = 25
	for i := range n {
		r.mustAppend(r.idempotent(int32(i), value), AcksAll)
	}
	between := r.snapshotNames()
	if len(between) != 1 || between[0] < "00000000000000000016" {
		t.Fatalf("snapshots are %v", between)
	}
	if err := r.p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.open(Settings{}, r.p.Checkpoint(), true); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.snapshotNames()); got != fmt.Sprintf("[%s %020d.snapshot]", between[0], n) {
		t.Errorf("after a restart snapshots are %s", got)
	}
	// Restarts do not leave ever more of them.
	for i := n; i < n+5; i++ {
		r.mustAppend(r.idempotent(int32(i), value), AcksAll)
		if err := r.p.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.open(Settings{}, r.p.Checkpoint(), true); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.snapshotNames(); len(got) != 2 {
		t.Errorf("after more restarts snapshots are %v", got)
	}
	if res := r.mustAppend(r.idempotent(int32(n), value), AcksAll); !res.Duplicate {
		t.Errorf("the fifth last batch gives %+v", res)
	}
}

func TestDamagedPartitionStaysOffLineAndKeepsItsCheckpoint(t *testing.T) {
	r := newRig(t, nil, Settings{})
	saved := Checkpoint{Start: 3, RecoveryPoint: 9, HighWatermark: 8}
	cfg := r.p.cfg
	cfg.Dir = "data/t-1"
	cfg.Start, cfg.RecoveryPoint, cfg.HighWatermark = saved.Start, saved.RecoveryPoint, saved.HighWatermark
	cause := &storage.DamageError{File: "f", Cause: errors.New("rot")}
	p, err := NewOffline(cfg, cause)
	if err != nil {
		t.Fatal(err)
	}
	if p.Checkpoint() != saved {
		t.Errorf("checkpoint is %+v, want %+v", p.Checkpoint(), saved)
	}
	for what, err := range map[string]error{
		"leading":  p.BecomeLeader(Leadership{InSync: []ident.BrokerID{1}}),
		"checking": p.CheckLeader(ident.NoLeaderEpoch),
		"closing":  p.Close(),
	} {
		if _, damaged := errors.AsType[*storage.DamageError](err); !errors.Is(err, ErrStorage) || !damaged {
			t.Errorf("%s gives %v", what, err)
		}
	}
}
