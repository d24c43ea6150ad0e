package partition

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/storage"
)

func TestFailedSyncTakesThePartitionOffLine(t *testing.T) {
	faults := disk.WithFaults(disk.NewMemory(newClock().Now))
	r := newRig(t, faults, Settings{})
	failed := make(chan error, 1)
	r.p.cfg.Hooks.Failed = func(_ *Partition, cause error) { failed <- cause }
	r.mustAppend(r.idempotent(0, "a"), AcksAll)

	faults.FailSync(func(path string) bool { return strings.HasSuffix(path, ".log") })
	woken := make(chan struct{}, 10)
	r.p.Watch(NewWatcher(func() { woken <- struct{}{} }))
	if res := r.append(r.idempotent(1, "b"), AcksAll); !errors.Is(res.Err, ErrStorage) || !errors.Is(res.Err, disk.ErrSyncFailed) {
		t.Fatalf("got %+v", res)
	}
	if err := <-failed; !errors.Is(err, disk.ErrSyncFailed) {
		t.Errorf("the hook was told %v", err)
	}
	<-woken
	if _, err := r.p.Read(ReadRequest{Epoch: ident.NoLeaderEpoch}); !errors.Is(err, ErrStorage) {
		t.Errorf("reading gives %v", err)
	}
	if res := r.append(r.idempotent(1, "b"), AcksAll); !errors.Is(res.Err, ErrStorage) {
		t.Errorf("appending gives %+v", res)
	}

	faults.FailSync(nil)
	if err := r.p.Reopen(); err != nil {
		t.Fatal(err)
	}
	if err := r.p.CheckLeader(ident.NoLeaderEpoch); !errors.Is(err, ErrNotLeader) {
		t.Errorf("after reopening: %v", err)
	}
	if err := r.p.BecomeLeader(Leadership{InSync: []ident.BrokerID{1}}); err != nil {
		t.Fatal(err)
	}
	// What nobody was promised is gone, so that its repetition is no duplicate.
	r.wantValues(ReadReplica, "0=a")
	if res := r.mustAppend(r.idempotent(1, "b"), AcksAll); res.Duplicate || res.Base != 1 {
		t.Errorf("the repeated batch gives %+v", res)
	}
	r.wantValues(ReadUncommitted, "0=a", "1=b")
}

func TestFullDiskRefusesWritesAndServesReads(t *testing.T) {
	faults := disk.WithFaults(disk.NewMemory(newClock().Now))
	r := newRig(t, faults, Settings{})
	r.mustAppend(r.idempotent(0, "a"), AcksAll)
	faults.SetSpace(20)
	if res := r.append(r.idempotent(1, "b"), AcksAll); !errors.Is(res.Err, ErrStorage) || !errors.Is(res.Err, disk.ErrNoSpace) {
		t.Fatalf("got %+v", res)
	}
	r.wantValues(ReadUncommitted, "0=a")
	faults.SetSpace(-1)
	if res := r.mustAppend(r.idempotent(1, "b"), AcksAll); res.Duplicate || res.Base != 1 {
		t.Errorf("with room again: %+v", res)
	}
	r.wantValues(ReadUncommitted, "0=a", "1=b")
}

// TestCrashesLoseNothingAcknowledgedAndRepeatNothing lets an idempotent
// producer write through crashes at every kind of moment, and send again
// whatever was not acknowledged. After each crash, the log holds every
// acknowledged batch at the offset it was acknowledged at, and each batch once.
func TestCrashesLoseNothingAcknowledgedAndRepeatNothing(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { crashRun(t, uint64(seed)) })
	}
}

func crashRun(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := &rig{t: t, clock: newClock(), codecs: batch.NewCodecs(), syncers: NewSyncers(2)}
	defer func() { r.syncers.Close() }()
	s := Settings{Log: storage.Settings{SegmentBytes: 1500, IndexInterval: 200}}
	mem := disk.NewMemory(r.clock.Now)
	if err := errors.Join(mem.MkdirAll("data/t-0"), mem.SyncDir("."), mem.SyncDir("data")); err != nil {
		t.Fatal(err)
	}
	base := make(map[int]ident.Offset) // of acknowledged batches
	next := 0                          // the first batch that is not acknowledged
	var saved Checkpoint
	for range 6 {
		faults := disk.WithFaults(mem)
		r.fs = faults
		faults.CrashAt(1 + rng.IntN(250))
		if err := r.open(s, saved, false); err == nil {
			next = writeUntilCrash(r, rng, base, next)
			saved = r.p.Checkpoint()
		} else if !errors.Is(err, disk.ErrCrashed) {
			t.Fatalf("opening: %v", err)
		}
		closeCrashed(r)
		mem = mem.Crash(rng.IntN)
	}
	r.fs = mem
	if err := r.open(s, saved, false); err != nil {
		t.Fatalf("opening after the last crash: %v", err)
	}
	defer r.p.Close()
	for i := max(0, next-1); i < next+3; i++ {
		res := r.mustAppend(r.idempotent(int32(i), fmt.Sprint(i)), AcksAll)
		if was, ok := base[i]; ok && res.Base != was {
			t.Errorf("batch %d was acknowledged at %d, and again at %d", i, was, res.Base)
		}
	}
	for i, got := range r.values(ReadUncommitted) {
		if want := fmt.Sprintf("%d=%d", i, i); got != want {
			t.Fatalf("record %d is %s, want %s (%d acknowledged)", i, got, want, next)
		}
	}
	if end := r.p.Marks().End; int(end) != next+3 {
		t.Errorf("log ends at %d, want %d", end, next+3)
	}
}

// writeUntilCrash writes batches of one record, the first of which repeat what
// may have been written before, and returns the first that was not
// acknowledged.
func writeUntilCrash(r *rig, rng *rand.Rand, base map[int]ident.Offset, next int) int {
	for {
		inFlight := 1 + rng.IntN(3)
		var all []<-chan AppendResult
		for i := range inFlight {
			done, _ := r.start(r.idempotent(int32(next+i), fmt.Sprint(next+i)), AcksAll)
			all = append(all, done)
		}
		for i, done := range all {
			res := r.wait(done)
			if res.Err != nil {
				if !errors.Is(res.Err, ErrStorage) {
					r.t.Fatalf("batch %d: %v", next+i, res.Err)
				}
				return next + i
			}
			base[next+i] = res.Base
		}
		next += inFlight
	}
}

// closeCrashed lets go of a partition on a disk that is gone.
func closeCrashed(r *rig) {
	if r.p != nil {
		_ = r.p.Close()
		r.p = nil
	}
}

// noSpaceForEpochs is a disk on which the log has room, but the small files
// that a flush writes beside it have not.
type noSpaceForEpochs struct {
	disk.FS
	full atomic.Bool
}

func (n *noSpaceForEpochs) OpenWrite(path string) (disk.File, error) {
	if n.full.Load() && strings.Contains(path, "leader-epoch") {
		return nil, disk.ErrNoSpace
	}
	return n.FS.OpenWrite(path)
}

func TestFlushThatNeedsRoomIsTriedAgain(t *testing.T) {
	files := &noSpaceForEpochs{FS: disk.NewMemory(newClock().Now)}
	r := newRig(t, files, Settings{})
	files.full.Store(true)
	if res := r.append(r.idempotent(0, "a"), AcksAll); !errors.Is(res.Err, ErrStorage) || !errors.Is(res.Err, disk.ErrNoSpace) {
		t.Fatalf("got %+v", res)
	}
	// It is written, and safe as soon as there is room.
	files.full.Store(false)
	if res := r.mustAppend(r.idempotent(0, "a"), AcksAll); !res.Duplicate {
		t.Errorf("got %+v", res)
	}
	r.wantValues(ReadUncommitted, "0=a")
}
