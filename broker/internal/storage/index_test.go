package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// indexDamage is what may befall an index file: each is a change to its bytes,
// nil for a missing file.
var indexDamage = map[string]func([]byte) []byte{
	"untouched":         func(b []byte) []byte { return b },
	"missing":           func([]byte) []byte { return nil },
	"empty":             func([]byte) []byte { return []byte{} },
	"cut in an entry":   func(b []byte) []byte { return b[:len(b)-5] },
	"cut by entries":    func(b []byte) []byte { return b[:len(b)/24/2*24] },
	"zeros at the end":  func(b []byte) []byte { return append(b, make([]byte, 240)...) },
	"all zeros":         func(b []byte) []byte { return make([]byte, len(b)) },
	"zeros inside":      func(b []byte) []byte { clear(b[24:72]); return b },
	"of another log":    func(b []byte) []byte { return bytes.Repeat([]byte{0, 0, 1, 7}, len(b)/4) },
	"positions shifted": func(b []byte) []byte { b[len(b)-1]++; return b },
}

// indexedRecords fill two segments such that all four indexes have some ten
// entries.
const indexedRecords = 50

func damageFile(t *testing.T, fsys disk.FS, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := readFile(fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	b = change(b)
	if b == nil {
		if err := fsys.Remove(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	f, err := fsys.OpenWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedIndexesAreMadeAnew damages the indexes of a sealed and of the
// active segment in all ways, and expects reads, lookups by time and retention
// to answer as if nothing had happened.
func TestDamagedIndexesAreMadeAnew(t *testing.T) {
	for _, suffix := range []string{offsetSuffix, timeSuffix} {
		for name, change := range indexDamage {
			for _, clean := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/clean=%v", suffix, name, clean), func(t *testing.T) {
					w := newWorld(t, memory(), small, func(c *Config) { c.Settings.SegmentBytes = 2000 })
					w.open()
					w.fill(indexedRecords)
					segments := w.log.segments
					if len(segments) != 2 {
						t.Fatalf("%d segments", len(segments))
					}
					w.close()
					want := make(map[string][]byte)
					for _, s := range segments {
						b, err := readFile(w.fs, s.stem+suffix)
						if err != nil || len(b) < 72 {
							t.Fatalf("index %d has %d bytes, %v", s.base, len(b), err)
						}
						want[s.stem+suffix] = bytes.Clone(b)
						damageFile(t, w.fs, s.stem+suffix, change)
					}
					w.cfg.RecoveryPoint, w.cfg.Clean = indexedRecords, clean
					w.open()
					checkAnswers(t, w)
					w.close()
					for path, b := range want {
						if got, err := readFile(w.fs, path); err != nil || !bytes.Equal(got, b) {
							t.Errorf("%s was not made anew: %x, want %x; %v", path, got, b, err)
						}
					}
				})
			}
		}
	}
}

func checkAnswers(t *testing.T, w *world) {
	t.Helper()
	for from := range ident.Offset(indexedRecords) {
		w.wantRange(from, indexedRecords)
	}
	for from := range int64(indexedRecords) {
		s, ok, err := w.log.OffsetForTime(epochMs + from*1000 - 500)
		if err != nil || !ok || int64(s.Offset) != from {
			t.Fatalf("the first record after %d.5 s: %+v, %v, %v", from-1, s, ok, err)
		}
	}
	if s, ok, err := w.log.MaxTimestamp(); err != nil || !ok || s.Offset != indexedRecords-1 {
		t.Fatalf("MaxTimestamp: %+v, %v, %v", s, ok, err)
	}
	// The first segment's youngest record is less than the retention old.
	set := w.cfg.Settings
	set.Delete, set.RetentionAge = true, time.Hour
	w.log.SetSettings(set)
	last := w.log.segments[1].base - 1
	now := time.UnixMilli(epochMs).Add(time.Duration(last)*time.Second + time.Hour)
	if d, err := w.log.ApplyRetention(now, indexedRecords); err != nil || d.Segments != 0 {
		t.Fatalf("deleted early: %+v, %v", d, err)
	}
}

// TestStaleIndexIsNoticed puts an index in place that is sound in itself, but
// names positions where no batch begins.
func TestStaleIndexIsNoticed(t *testing.T) {
	w := newWorld(t, memory(), small, func(c *Config) { c.Settings.SegmentBytes = 2000 })
	w.open()
	w.fill(indexedRecords)
	stem := w.log.segments[0].stem
	w.close()
	active := last(w.log.segments).stem
	for _, change := range []func(b []byte){
		// All positions but the last; the last offset; the first position.
		func(b []byte) {
			for i := 7; i < len(b)-8; i += 8 {
				b[i]++
			}
		},
		func(b []byte) { b[len(b)-5]++ },
		func(b []byte) { b[7]++ },
	} {
		for _, s := range []string{stem, active} {
			damageFile(t, w.fs, s+offsetSuffix, func(b []byte) []byte { change(b); return b })
		}
		w.cfg.RecoveryPoint, w.cfg.Clean = indexedRecords, true
		w.open()
		checkAnswers(t, w)
		w.close()
	}
}

func TestIndexesSurviveAFullDisk(t *testing.T) {
	faults := disk.WithFaults(memory())
	w := newWorld(t, faults, small)
	w.open()
	w.fill(30)
	w.close()
	for _, s := range w.log.segments[:2] {
		damageFile(t, faults, s.stem+offsetSuffix, indexDamage["missing"])
	}
	faults.SetSpace(0)
	w.cfg.RecoveryPoint, w.cfg.Clean = 30, true
	w.open()
	w.wantRange(0, 30)
	if _, err := w.log.AppendAsLeader(w.records(batch.None, "v", 0), 0); !errors.Is(err, disk.ErrNoSpace) {
		t.Errorf("append on a full disk: %v", err)
	}
	w.wantRange(0, 30)
}

// TestIndexRemembersWhatWasAdded compares the indexes with a plain list.
func TestIndexRemembersWhatWasAdded(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	offsets, times := &offsetIndex{base: 1000}, &timeIndex{base: 1000}
	type added struct {
		m   mark
		pos int64
	}
	var all []added
	o, pos, ms := ident.Offset(1000), int64(0), int64(0)
	for range 200 {
		offsets.add(o, pos)
		m := mark{ms, o}
		times.add(m)
		all = append(all, added{m, pos})
		o, pos, ms = o+1+ident.Offset(rng.IntN(5)), pos+1+int64(rng.IntN(500)), ms+1+int64(rng.IntN(9))
	}
	for range 1000 {
		ask := all[rng.IntN(len(all))].m
		ask.offset += ident.Offset(rng.IntN(3) - 1)
		ask.timestamp += int64(rng.IntN(3) - 1)
		var wantPos int64
		wantOffset := ident.Offset(1000)
		for _, a := range all {
			if a.m.offset <= ask.offset {
				wantPos = a.pos
			}
			if a.m.timestamp <= ask.timestamp {
				wantOffset = a.m.offset
			}
		}
		if got := offsets.floor(ask.offset).pos; got != wantPos {
			t.Fatalf("floor(%d) = %d, want %d", ask.offset, got, wantPos)
		}
		if got := times.offset(ask.timestamp); got != wantOffset {
			t.Fatalf("offset(%d ms) = %d, want %d", ask.timestamp, got, wantOffset)
		}
	}
}

// FuzzOffsetIndex feeds any bytes to a segment as its offset index: either they
// pass the check and searching is safe, or they are refused. Nothing panics,
// and reads find all records in any case.
func FuzzOffsetIndex(f *testing.F) { fuzzIndex(f, offsetSuffix) }

// FuzzTimeIndex is FuzzOffsetIndex for time indexes.
func FuzzTimeIndex(f *testing.F) { fuzzIndex(f, timeSuffix) }

func fuzzIndex(f *testing.F, suffix string) {
	w := newWorld(f, memory(), small, func(c *Config) { c.Settings.SegmentBytes = 2000 })
	w.open()
	w.fill(indexedRecords)
	w.close()
	files := map[string][]byte{}
	infos, err := w.fs.ReadDir(testDir)
	if err != nil {
		f.Fatal(err)
	}
	for _, info := range infos {
		if files[info.Name()], err = readFile(w.fs, testDir+"/"+info.Name()); err != nil {
			f.Fatal(err)
		}
	}
	sound := files["00000000000000000000"+suffix]
	for _, change := range indexDamage {
		f.Add(change(bytes.Clone(sound)))
	}
	f.Fuzz(func(t *testing.T, index []byte) {
		m := memory()
		copyFiles(t, m, files)
		damageFile(t, m, testDir+"/00000000000000000000"+suffix, func([]byte) []byte { return append([]byte{}, index...) })
		v := newWorld(t, m, small)
		v.cfg.Clean, v.cfg.RecoveryPoint = true, indexedRecords
		v.open()
		v.wantRange(0, indexedRecords)
		for from := range int64(indexedRecords) {
			if s, ok, err := v.log.OffsetForTime(epochMs + from*1000); err != nil || !ok {
				t.Fatalf("time of record %d: %+v, %v, %v", from, s, ok, err)
			}
		}
	})
}

func copyFiles(t *testing.T, m *disk.Memory, files map[string][]byte) {
	t.Helper()
	if err := m.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		file, err := m.OpenWrite(testDir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
}

func FuzzEpochs(f *testing.F) {
	f.Add([]byte("0\n2\n0 0\n3 17\n"))
	f.Add([]byte("0\n0\n"))
	f.Add([]byte("1\n1\n0 0\n"))
	f.Add([]byte("0\n1\n0 0 0\n"))
	f.Add([]byte("0\n2\n3 0\n2 9\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := parseEpochs(b)
		if err != nil {
			return
		}
		again, err := parseEpochs(formatEpochs(entries))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(entries) {
			t.Fatalf("%v was written and read as %v, %v", entries, again, err)
		}
	})
}
