package state_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

func mustOpen(t *testing.T, cfg state.Config) *state.Stores {
	t.Helper()
	s, err := state.Open(cfg)
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func at(next int64) state.Checkpoint {
	return state.Checkpoint{Changelogs: map[string]state.Position{"counts": {Next: next}}}
}

var counts = state.NewKeyValue("counts", serde.String, serde.Int64)

func TestSecondOpenOfAFolderSaysThatItIsInUse(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, state.Config{Dir: dir, Specs: []state.Spec{counts.Spec()}})
	_, err := state.Open(state.Config{Dir: dir, Specs: []state.Spec{counts.Spec()}})
	if !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: %v, want ErrLocked that names %s", err, dir)
	}
}

func TestFolderOfANewerFormatIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	cfg := state.Config{Dir: "task", FS: fs, Specs: []state.Spec{counts.Spec()}}
	s := mustOpen(t, cfg)
	must(t, s.Close())
	db, err := pebble.Open("task", &pebble.Options{FS: fs})
	must(t, err)
	must(t, db.Set([]byte{0}, []byte{2}, nil))
	must(t, db.Close())
	_, err = state.Open(cfg)
	if err == nil || errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("open: %v, want advice to use a newer program", err)
	}
}

func TestDamagedFolderIsReportedCorrupt(t *testing.T) {
	fs := vfs.NewMem()
	cfg := state.Config{Dir: "task", FS: fs, Specs: []state.Spec{counts.Spec()}}
	must(t, mustOpen(t, cfg).Close())
	db, err := pebble.Open("task", &pebble.Options{FS: fs})
	must(t, err)
	must(t, db.Set([]byte{1}, []byte("not a checkpoint"), nil))
	must(t, db.Close())
	if _, err = state.Open(cfg); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("open: %v, want ErrCorrupt", err)
	}
}

func TestStoresThatTheTopologyLostAreRemoved(t *testing.T) {
	fs := vfs.NewMem()
	other := state.NewKeyValue("other", serde.String, serde.Int64)
	s := mustOpen(t, state.Config{Dir: "task", FS: fs, Specs: []state.Spec{counts.Spec(), other.Spec()}})
	for _, r := range []state.KeyValueRef[string, int64]{counts, other} {
		kv, err := r.In(s)
		must(t, err)
		must(t, kv.Put("k", 1, 0))
	}
	must(t, s.Commit(state.Checkpoint{Changelogs: map[string]state.Position{"counts": {Next: 1}, "other": {Next: 1}}}))
	must(t, s.Close())

	// "counts" becomes a window store, "other" goes and comes back.
	windowed := state.NewWindow("counts", serde.String, serde.Int64, time.Hour)
	s = mustOpen(t, state.Config{Dir: "task", FS: fs, Specs: []state.Spec{windowed.Spec()}})
	if c := s.Checkpoint(); len(c.Changelogs) != 0 {
		t.Errorf("positions %v are left of stores that changed or went", c.Changelogs)
	}
	must(t, s.Close())
	s = mustOpen(t, state.Config{Dir: "task", FS: fs, Specs: []state.Spec{windowed.Spec(), other.Spec()}})
	kv, err := other.In(s)
	must(t, err)
	if v, ok, err := kv.Get("k"); ok || err != nil {
		t.Errorf("a removed store still holds %d, %v", v, err)
	}
}

func TestReferenceOfTheWrongKindIsRefused(t *testing.T) {
	s := mustOpen(t, state.Config{Dir: "task", FS: vfs.NewMem(), Specs: []state.Spec{counts.Spec()}})
	if _, err := state.NewWindow("counts", serde.String, serde.Int64, time.Hour).In(s); err == nil {
		t.Error("a key-value store opened as a window store")
	}
	if _, err := state.NewKeyValue("none", serde.String, serde.Int64).In(s); err == nil {
		t.Error("a store that is not there opened")
	}
}

func TestChangelogIsPurgedBelowTheOldestLiveSegment(t *testing.T) {
	ref := state.NewWindow("w", serde.String, serde.Int64, 10*time.Minute)
	s := mustOpen(t, state.Config{Dir: "task", FS: vfs.NewMem(), Specs: []state.Spec{ref.Spec()}})
	w, err := ref.In(s)
	must(t, err)
	minute := func(n int64) window.Instant { return window.Instant(n * 60_000) }
	offset := int64(0)
	step := func(start window.Instant, records int64) {
		t.Helper()
		for range records {
			must(t, w.Put("k", start, 1, start))
		}
		offset += records
		must(t, s.Commit(state.Checkpoint{Changelogs: map[string]state.Position{"w": {Next: offset}}}))
	}
	expect := func(want int64, wantOK bool) {
		t.Helper()
		if got, ok := s.PurgeBefore("w"); got != want || ok != wantOK {
			t.Errorf("purge before %d, %v; want %d, %v", got, ok, want, wantOK)
		}
	}
	step(minute(0), 10) // segment 0 begins at offset 0
	expect(0, false)
	step(minute(6), 10) // segment 5 begins at offset 10
	expect(0, false)
	step(minute(14), 10) // time 14: segment 0 (0 to 5) is live until 15
	expect(0, false)
	step(minute(15), 10)
	expect(10, true)
	w.Advance(minute(100))
	must(t, s.Commit(state.Checkpoint{Changelogs: map[string]state.Position{"w": {Next: offset}}}))
	expect(40, true)
}

// TestCrashLeavesAWholeCommit crashes the disk at random points: what is found
// afterwards is one of the commits, with exactly the offset written with it.
func TestCrashLeavesAWholeCommit(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			fs := vfs.NewCrashableMem()
			s := mustOpen(t, state.Config{Dir: "task", FS: fs, Specs: []state.Spec{counts.Spec()}})
			kv, err := counts.In(s)
			must(t, err)
			commits := int64(0)
			for range 200 {
				// Both keys always hold the number of the commit.
				must(t, kv.Put("a", commits+1, 0))
				must(t, kv.Put("b", commits+1, 0))
				must(t, kv.Put(strings.Repeat("filler", 100+rng.IntN(1000)), 0, 0))
				commits++
				must(t, s.Commit(at(commits)))
			}
			after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			s2 := mustOpen(t, state.Config{Dir: "task", FS: after, Specs: []state.Spec{counts.Spec()}})
			next := s2.Checkpoint().Changelogs["counts"].Next
			kv2, err := counts.In(s2)
			must(t, err)
			for _, key := range []string{"a", "b"} {
				v, ok, err := kv2.Get(key)
				must(t, err)
				if v != next || ok != (next > 0) {
					t.Errorf("%s is %d (%v) at offset %d", key, v, ok, next)
				}
			}
			if next > commits {
				t.Errorf("found offset %d, committed %d", next, commits)
			}
		})
	}
}

func TestReadersSeeCommittedStateOnly(t *testing.T) {
	s := mustOpen(t, state.Config{Dir: "task", FS: vfs.NewMem(), Specs: []state.Spec{counts.Spec()}})
	view := state.NewReadOnly(func(string) ([]*state.Stores, error) { return []*state.Stores{s}, nil }, counts)
	kv, err := counts.In(s)
	must(t, err)
	must(t, kv.Put("k", 1, 5))
	if _, ok, err := view.Get("k"); ok || err != nil {
		t.Errorf("a reader sees an uncommitted value (%v)", err)
	}
	must(t, s.Commit(at(1)))
	if v, ts, ok, err := view.GetTimed("k"); v != 1 || ts != 5 || !ok || err != nil {
		t.Errorf("after commit: %d at %d, %v, %v", v, ts, ok, err)
	}
	must(t, s.Close())
	if _, _, err := view.Get("k"); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("after close: %v, want ErrUnavailable", err)
	}
}

// TestReadersMissNothingSilently reads while a partition is being restored: a key that is found is an answer, and nothing else.
func TestReadersMissNothingSilently(t *testing.T) {
	s := mustOpen(t, state.Config{Dir: "task", FS: vfs.NewMem(), Specs: []state.Spec{counts.Spec()}})
	kv, err := counts.In(s)
	must(t, err)
	must(t, kv.Put("here", 1, 5))
	must(t, s.Commit(at(1)))
	view := state.NewReadOnly(func(string) ([]*state.Stores, error) { return []*state.Stores{s}, state.ErrUnavailable }, counts)
	if v, ok, err := view.Get("here"); v != 1 || !ok || err != nil {
		t.Errorf("a key that is here: %d, %v, %v", v, ok, err)
	}
	if _, ok, err := view.Get("elsewhere"); ok || !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("a key that is not here: %v, %v, want ErrUnavailable", ok, err)
	}
	err = view.All(func(k string, _ int64, _ window.Instant) bool { t.Errorf("a scan visits %q", k); return true })
	if !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("a scan: %v, want ErrUnavailable", err)
	}
	must(t, s.Close())
}

// TestReadersAndOwnerRunConcurrently is for the race detector.
func TestReadersAndOwnerRunConcurrently(t *testing.T) {
	for _, opts := range [][]state.Option{nil, {state.InMemory()}} {
		ref := state.NewKeyValue("k", serde.String, serde.Int64, opts...)
		s := mustOpen(t, state.Config{Dir: "task", FS: vfs.NewMem(), Specs: []state.Spec{ref.Spec()}})
		view := state.NewReadOnly(func(string) ([]*state.Stores, error) { return []*state.Stores{s}, nil }, ref)
		done := make(chan error, 2)
		for range cap(done) {
			go func() {
				for {
					sum := int64(0)
					err := view.All(func(_ string, v int64, _ window.Instant) bool { sum += v; return true })
					if err != nil {
						if errors.Is(err, state.ErrUnavailable) {
							err = nil
						}
						done <- err
						return
					}
					if sum != 0 {
						done <- fmt.Errorf("a reader saw half a transfer: sum %d", sum)
						return
					}
				}
			}()
		}
		kv, err := ref.In(s)
		must(t, err)
		for i := range int64(500) {
			must(t, kv.Put("debit", -i, 0))
			must(t, kv.Put("credit", i, 0))
			if i%7 == 0 {
				must(t, s.Drop())
			} else {
				must(t, s.Commit(state.Checkpoint{}))
			}
		}
		must(t, s.Close())
		for range cap(done) {
			must(t, <-done)
		}
	}
}

func TestMemoryCountsStoresInMemory(t *testing.T) {
	m := state.NewMemory(8 << 20)
	defer m.Close()
	ref := state.NewKeyValue("k", serde.Int64, serde.Bytes, state.InMemory())
	s := mustOpen(t, state.Config{Memory: m, Specs: []state.Spec{ref.Spec()}})
	kv, err := ref.In(s)
	must(t, err)
	for i := range int64(1000) {
		must(t, kv.Put(i, make([]byte, 1000), 0))
	}
	must(t, s.Commit(state.Checkpoint{}))
	if _, inMemory := m.Used(); inMemory < 1_000_000 || inMemory > 2_000_000 {
		t.Errorf("a store of about 1 MB counts as %d bytes", inMemory)
	}
	must(t, s.Close())
	if _, inMemory := m.Used(); inMemory != 0 {
		t.Errorf("a closed store counts as %d bytes", inMemory)
	}
}

// TestMemoryOfAllStoresIsBounded writes and reads ten times what the stores may keep in memory.
func TestMemoryOfAllStoresIsBounded(t *testing.T) {
	const limit = 6 << 20
	m := state.NewMemory(limit)
	defer m.Close()
	ref := state.NewKeyValue("k", serde.Int64, serde.Bytes)
	value := make([]byte, 10_000)
	for i := range value {
		value[i] = byte(i * i >> 3) // does not compress to nothing
	}
	var all []state.KeyValue[int64, []byte]
	for task := range 4 {
		s := mustOpen(t, state.Config{Dir: fmt.Sprint("task", task), FS: vfs.NewMem(), Memory: m, Specs: []state.Spec{ref.Spec()}})
		kv, err := ref.In(s)
		must(t, err)
		all = append(all, kv)
		for i := range int64(1500) {
			must(t, kv.Put(i, value, 0))
			if i%100 == 0 {
				must(t, s.Commit(state.Checkpoint{}))
			}
		}
		must(t, s.Commit(state.Checkpoint{}))
	}
	for i := range int64(1500) {
		for _, kv := range all {
			if v, ok, err := kv.Get(i); !ok || err != nil || len(v) != len(value) {
				t.Fatalf("key %d: %d bytes, %v, %v", i, len(v), ok, err)
			}
		}
		if used, _ := m.Used(); used > limit+limit/4 {
			t.Fatalf("stores take %d bytes, the limit is %d", used, limit)
		}
	}
}
