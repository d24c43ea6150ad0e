package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// crashRun drives one log with random operations over a disk that crashes at
// a chosen change, and remembers what must be true afterwards.
type crashRun struct {
	*world
	rng    *rand.Rand
	faults *disk.Faults
	// written holds, for each offset, the value that was last appended there:
	// nothing else may ever be read.
	written map[ident.Offset]string
	// safe is the end of what must survive; start may have advanced to
	// startMax.
	safe, startMax ident.Offset
	epoch          ident.LeaderEpoch
	serial         int
}

func newCrashRun(t testing.TB, m *disk.Memory, rng *rand.Rand) *crashRun {
	r := &crashRun{rng: rng, written: map[ident.Offset]string{}}
	r.world = newWorld(t, m, small)
	r.cfg.Settings.RetentionBytes = 2000
	r.cfg.Settings.Delete = true
	r.cfg.LowerRecoveryPoint = func(o ident.Offset) error {
		r.cfg.RecoveryPoint = o
		// From here on a crash may or may not cut.
		r.safe = min(r.safe, o)
		return nil
	}
	return r
}

// start opens the log on m.
func (r *crashRun) restart(m *disk.Memory) error {
	r.faults = disk.WithFaults(m)
	r.cfg.FS = r.faults
	l, _, err := Open(r.cfg)
	if err != nil {
		return err
	}
	r.log = l
	return nil
}

// step does one random operation. It fails when the disk crashed.
func (r *crashRun) step() error {
	switch n := r.rng.IntN(20); {
	case n == 0:
		return r.appendOnFullDisk()
	case n < 10:
		return r.appendSome()
	case n < 14:
		end, err := r.log.Flush()
		if err == nil {
			r.safe = max(r.safe, end)
			if r.rng.IntN(3) == 0 {
				r.cfg.RecoveryPoint = end
			}
		}
		return err
	case n < 15:
		return r.log.Roll()
	case n < 16:
		r.epoch++
		return nil
	case n < 17:
		return r.truncate()
	case n < 18 && r.rng.IntN(8) == 0:
		return r.beginBeyond()
	case n < 18:
		start := r.log.Start() + ident.Offset(r.rng.IntN(4))
		start = min(start, r.log.FlushedEnd())
		r.startMax = max(r.startMax, start)
		err := r.log.AdvanceStart(start)
		if err == nil {
			r.cfg.Start = r.log.Start()
		}
		return err
	case n < 19:
		bound := r.log.FlushedEnd()
		r.startMax = max(r.startMax, bound)
		_, err := r.log.ApplyRetention(r.now, bound)
		return err
	}
	if err := r.log.Close(); err != nil {
		return err
	}
	r.safe = max(r.safe, r.log.End())
	if r.rng.IntN(2) == 0 {
		r.cfg.Clean, r.cfg.RecoveryPoint = true, r.log.End()
	}
	l, found, err := Open(r.cfg)
	r.cfg.Clean = false
	if err != nil {
		return err
	}
	if found.CutBytes != 0 || found.IndexesRebuilt != 0 {
		return fmt.Errorf("after an orderly close: %+v", found)
	}
	r.log = l
	return nil
}

func (r *crashRun) appendSome() error {
	r.serial++
	value := fmt.Sprint("value ", r.serial, " ", string(make([]byte, r.rng.IntN(150))))
	times := make([]int64, 1+r.rng.IntN(3))
	for i := range times {
		times[i] = int64(r.serial*1000 + r.rng.IntN(3000))
	}
	base := r.log.End()
	for i := range times {
		r.written[base+ident.Offset(i)] = value
	}
	_, err := r.log.AppendAsLeader(r.records(batch.None, value, times...), r.epoch)
	return err
}

// appendOnFullDisk has room for a part of a batch only. Nothing may come of it.
func (r *crashRun) appendOnFullDisk() error {
	end := r.log.End()
	r.faults.SetSpace(int64(r.rng.IntN(70)))
	err := r.appendSome()
	r.faults.SetSpace(-1)
	if !errors.Is(err, disk.ErrNoSpace) {
		return err
	}
	if r.log.End() != end {
		return fmt.Errorf("the end went from %d to %d with a write that failed", end, r.log.End())
	}
	return nil
}

// beginBeyond empties the log, as a follower does whose leader deleted more
// than it has.
func (r *crashRun) beginBeyond() error {
	start := r.log.End() + 1 + ident.Offset(r.rng.IntN(5))
	r.startMax = max(r.startMax, start)
	err := r.log.AdvanceStart(start)
	if err == nil {
		r.cfg.Start, r.safe = start, start
	}
	return err
}

func (r *crashRun) truncate() error {
	start, end := r.log.Start(), r.log.End()
	to := start + ident.Offset(r.rng.IntN(int(end-start)+1))
	err := r.log.TruncateTail(to)
	if err == nil {
		r.safe = min(r.safe, r.log.End())
		r.cfg.RecoveryPoint = min(r.cfg.RecoveryPoint, r.log.End())
	}
	return err
}

// check reads the whole log.
func (r *crashRun) check() {
	r.t.Helper()
	l := r.log
	if l.End() < r.safe {
		r.t.Fatalf("the log ends at %d, but %d was flushed", l.End(), r.safe)
	}
	if l.Start() > r.startMax && l.Start() > r.safe {
		r.t.Fatalf("the log starts at %d, but nothing above %d was deleted", l.Start(), r.startMax)
	}
	if l.FlushedEnd() != l.End() {
		r.t.Fatalf("after recovery the log is flushed to %d of %d", l.FlushedEnd(), l.End())
	}
	r.wantRange(l.Start(), l.End())
	var youngest int64 = -1
	err := l.Replay(l.Start(), func(v batch.View) error {
		return batch.Records(v, r.codecs, func(rec batch.Record) bool {
			if rec.Offset < l.Start() {
				return true
			}
			if want := r.written[rec.Offset]; want != string(rec.Value) {
				r.t.Fatalf("offset %d holds %q, want %q", rec.Offset, rec.Value, want)
			}
			youngest = max(youngest, rec.Timestamp)
			return true
		})
	})
	if err != nil {
		r.t.Fatal(err)
	}
	s, ok, err := l.MaxTimestamp()
	if err != nil || ok != (youngest >= 0) || ok && s.Timestamp != youngest {
		r.t.Fatalf("MaxTimestamp = %+v, %v, %v; want %d", s, ok, err, youngest)
	}
}

// TestCrashAtEveryChange runs random histories and crashes each at every write
// and every sync in turn. Nothing flushed may be lost, and nothing that was
// never written may be found. SEED=n COUNT=n choose the histories.
func TestCrashAtEveryChange(t *testing.T) {
	first, count := envInt("SEED", 1), envInt("COUNT", 6)
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			for at := 1; crashOnce(t, seed, at); at++ {
			}
		})
	}
}

// state describes the run in one line.
func (r *crashRun) state() string {
	return fmt.Sprintf("start %d, flushed %d of %d; safe %d, recovery point %d, %d changes", r.log.Start(), r.log.FlushedEnd(), r.log.End(), r.safe, r.cfg.RecoveryPoint, r.faults.Ops())
}

func envInt(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// crashOnce reports whether the history was long enough to reach the change.
func crashOnce(t *testing.T, seed uint64, at int) bool {
	m := memory()
	r := newCrashRun(t, m, rand.New(rand.NewPCG(seed, 0)))
	var history []string
	defer func() {
		if t.Failed() {
			t.Logf("crashed at change %d; the last steps before:", at)
			for _, state := range history[max(0, len(history)-8):] {
				t.Log(state)
			}
		}
	}()
	picks := rand.New(rand.NewPCG(seed, uint64(at)))
	if err := r.restart(m); err != nil {
		t.Fatal(err)
	}
	r.faults.CrashAt(at)
	crashed := false
	for range 60 {
		err := r.step()
		history = append(history, r.state())
		if errors.Is(err, disk.ErrCrashed) {
			crashed = true
			break
		}
		if err != nil {
			t.Fatalf("before the crash: %v", err)
		}
	}
	// Twice: the recovery may be cut short by a second crash.
	for range 2 {
		m = m.Crash(picks.IntN)
		if err := r.restart(m); err != nil {
			t.Fatalf("recovery: %v", err)
		}
		r.check()
		r.safe = r.log.End()
		r.startMax = max(r.startMax, r.safe)
		if err := r.appendSome(); err != nil {
			t.Fatal(err)
		}
	}
	return crashed
}
