package storage

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// TestTornTails cuts a log at every byte and expects the whole batches before.
func TestTornTails(t *testing.T) {
	w := newWorld(t, memory(), func(c *Config) { c.Settings.IndexInterval = 1 })
	w.open()
	w.fill(4)
	w.close()
	log := last(w.log.segments).logPath()
	whole, err := readFile(w.fs, log)
	if err != nil {
		t.Fatal(err)
	}
	size := len(whole) / 4
	for cut := range len(whole) + 1 {
		damageFile(t, w.fs, log, func([]byte) []byte { return bytes.Clone(whole[:cut]) })
		r := w.open()
		if want := ident.Offset(cut / size); w.log.End() != want || r.CutBytes != int64(cut%size) {
			t.Fatalf("cut at %d: the log ends at %d, want %d; %+v", cut, w.log.End(), want, r)
		}
		if r.CutBytes > 0 == (r.CutCause == nil) || len(r.Kept) > 0 {
			t.Fatalf("cut at %d: %+v", cut, r)
		}
		w.wantRange(0, w.log.End())
		w.append(99)
		w.wantRange(0, w.log.End())
		w.close()
	}
}

// TestEveryFlippedBitAboveTheRecoveryPointIsCut changes each byte of the third
// batch of four.
func TestEveryFlippedBitAboveTheRecoveryPointIsCut(t *testing.T) {
	w := newWorld(t, memory())
	w.open()
	w.fill(4)
	w.close()
	log := last(w.log.segments).logPath()
	whole, err := readFile(w.fs, log)
	if err != nil {
		t.Fatal(err)
	}
	size := len(whole) / 4
	for at := 2 * size; at < 3*size; at++ {
		damageFile(t, w.fs, log, func([]byte) []byte {
			b := bytes.Clone(whole)
			b[at] ^= 0x40
			return b
		})
		w.cfg.RecoveryPoint = 2
		r := w.open()
		// A base offset or epoch that is too high is not covered by the
		// checksum; then it is the next batch that does not fit.
		end := w.log.End()
		if end != 2 && at >= 2*size+16 {
			t.Fatalf("byte %d of the batch: the log ends at %d; %+v", at-2*size, end, r)
		}
		if r.CutCause == nil {
			t.Fatalf("byte %d of the batch: nothing was cut; the log ends at %d", at-2*size, end)
		}
		w.close()

		damageFile(t, w.fs, log, func([]byte) []byte {
			b := bytes.Clone(whole)
			b[at] ^= 0x40
			return b
		})
		w.cfg.RecoveryPoint = 4
		_, _, err := Open(w.cfg)
		var damage *DamageError
		if !errors.As(err, &damage) || damage.File != log {
			t.Fatalf("byte %d of the batch, below the recovery point: %v", at-2*size, err)
		}
	}
}

func TestOpeningManySegmentsReadsOne(t *testing.T) {
	m := memory()
	w := newWorld(t, m, small)
	w.open()
	w.fill(700)
	w.close()
	w.cfg.Clean, w.cfg.RecoveryPoint = true, 700
	r := w.open()
	if len(w.log.segments) < 80 || r.SegmentsRead != 1 {
		t.Fatalf("%d segments, %+v", len(w.log.segments), r)
	}
	open := 0
	for _, s := range w.log.segments {
		if s.open.Load() != nil {
			open++
		}
	}
	if open != 1 {
		t.Errorf("%d of %d segments are open", open, len(w.log.segments))
	}
	w.wantRange(0, 700)
	for range 2 {
		if _, err := w.log.ApplyRetention(w.now, 700); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range w.log.segments[:len(w.log.segments)-1] {
		if s.open.Load() != nil {
			t.Errorf("segment %d is still open though nobody uses it", s.base)
		}
	}
	w.wantRange(0, 700)
}

// FuzzRecovery opens a log whose segment holds any bytes. Opening must end
// with a usable log, or with damage when something below the recovery point is
// missing. What is found must be sound, and survive another opening.
func FuzzRecovery(f *testing.F) {
	w := newWorld(f, memory())
	w.open()
	w.fill(3)
	if _, err := w.log.AppendAsLeader(w.records(batch.Zstd, "some value", 1, 2, 3), 2); err != nil {
		f.Fatal(err)
	}
	w.close()
	sound, err := readFile(w.fs, last(w.log.segments).logPath())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sound, 0)
	f.Add(sound, 6)
	f.Add(sound[:len(sound)-3], 2)
	f.Add(append(bytes.Clone(sound), make([]byte, 700)...), 6)
	f.Add(append(bytes.Clone(sound[100:]), sound...), 0)
	f.Add(append(bytes.Clone(sound[:75]), append([]byte("garbage"), sound[150:]...)...), 1)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, segment []byte, point int) {
		m := memory()
		copyFiles(t, m, map[string][]byte{"00000000000000000000.log": segment})
		v := newWorld(t, m)
		v.cfg.RecoveryPoint = ident.Offset(max(point, 0))
		l, _, err := Open(v.cfg)
		var damage *DamageError
		if errors.As(err, &damage) && v.cfg.RecoveryPoint > 0 {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		v.log = l
		checkChain(t, l)
		end := l.End()
		if _, err := l.AppendAsLeader(v.records(batch.None, "v", 5), max(0, l.LatestEpoch())); err != nil {
			t.Fatal(err)
		}
		checkChain(t, l)
		v.close()
		v.cfg.RecoveryPoint = 0
		if r := v.open(); r.CutCause != nil || v.log.End() != end+1 {
			t.Fatalf("opened again: %+v; the log ends at %d, want %d", r, v.log.End(), end+1)
		}
		checkChain(t, v.log)
	})
}

// checkChain reads the whole log and expects sound batches in order, the last
// of which ends where the log does.
func checkChain(t *testing.T, l *Log) {
	t.Helper()
	s := successor{next: l.Start(), epoch: ident.NoLeaderEpoch}
	n := 0
	err := l.Replay(l.Start(), func(v batch.View) error {
		n++
		if err := v.VerifyCRC(); err != nil {
			return err
		}
		return s.admit(v)
	})
	if err != nil {
		t.Fatal(err)
	}
	if n > 0 && s.next != l.End() {
		t.Fatalf("the last batch ends at %d, the log at %d", s.next, l.End())
	}
}

func TestUnreadableDiskIsNoDamage(t *testing.T) {
	m := memory()
	w := newWorld(t, m)
	w.open()
	w.fill(3)
	w.close()
	faults := disk.WithFaults(m)
	w.cfg.FS = faults
	for n := 1; ; n++ {
		faults.CrashAt(n)
		l, _, err := Open(w.cfg)
		if err == nil {
			l.Close()
			break
		}
		var damage *DamageError
		if errors.As(err, &damage) || !errors.Is(err, disk.ErrCrashed) {
			t.Fatalf("disk fails at change %d: %v", n, err)
		}
		faults = disk.WithFaults(m)
		w.cfg.FS = faults
	}
	if _, _, err := Open(w.cfg); err == nil {
		t.Error("opening on a disk that fails succeeded")
	} else if fmt.Sprint(err) == "" {
		t.Error("the error is empty")
	}
}
