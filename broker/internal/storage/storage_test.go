package storage

import (
	"errors"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// world is a log under test with the disk that it lies on.
type world struct {
	t      testing.TB
	fs     disk.FS
	cfg    Config
	log    *Log
	codecs *batch.Codecs
	now    time.Time
}

const testDir = "/data/topic-0"

// epochMs is the time that test records count from.
const epochMs = 1_700_000_000_000

func newWorld(t testing.TB, fsys disk.FS, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, fs: fsys, codecs: batch.NewCodecs(), now: time.UnixMilli(epochMs)}
	w.cfg = Config{
		FS: fsys, Dir: testDir, Codecs: w.codecs, Now: func() time.Time { return w.now },
		Settings: Settings{RetentionAge: -1, RetentionBytes: -1},
	}
	for _, c := range change {
		c(&w.cfg)
	}
	return w
}

// open opens the log, which must work.
func (w *world) open() Recovered {
	w.t.Helper()
	l, r, err := Open(w.cfg)
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	w.log = l
	return r
}

// records returns a batch of records with the given times, counted from
// epochMs.
func (w *world) records(codec batch.Codec, value string, times ...int64) batch.View {
	w.t.Helper()
	b := batch.NewBuilder(w.codecs, codec)
	for i, ms := range times {
		b.Append(batch.Record{Timestamp: epochMs + ms, Key: fmt.Appendf(nil, "k%d", i), Value: []byte(value)})
	}
	v, err := b.Build()
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *world) append(times ...int64) Appended {
	w.t.Helper()
	a, err := w.log.AppendAsLeader(w.records(batch.None, "value", times...), 0)
	if err != nil {
		w.t.Fatalf("append: %v", err)
	}
	return a
}

// fill appends n batches of one record each, a second apart.
func (w *world) fill(n int) {
	w.t.Helper()
	for range n {
		w.append(int64(w.log.End()) * 1000)
	}
}

func (w *world) flush() {
	w.t.Helper()
	if end, err := w.log.Flush(); err != nil || end != w.log.End() {
		w.t.Fatalf("flush: %d, %v; the log ends at %d", end, err, w.log.End())
	}
}

func (w *world) close() {
	w.t.Helper()
	if err := w.log.Close(); err != nil {
		w.t.Fatalf("close: %v", err)
	}
}

// offsets returns the offsets of all records that a reader finds from start on.
func (w *world) offsets(from ident.Offset) []ident.Offset {
	w.t.Helper()
	var all []ident.Offset
	for from < w.log.End() {
		c, err := w.log.Read(from, w.log.End(), 1<<20, true)
		if err != nil {
			w.t.Fatalf("read from %d: %v", from, err)
		}
		b, err := c.Append(nil)
		if err != nil {
			w.t.Fatalf("read from %d: %v", from, err)
		}
		if err := c.Close(); err != nil {
			w.t.Fatal(err)
		}
		if len(b) == 0 {
			break
		}
		for len(b) > 0 {
			v, rest, err := batch.Next(b)
			if err != nil {
				w.t.Fatalf("read from %d: %v", from, err)
			}
			if err := v.VerifyCRC(); err != nil {
				w.t.Fatalf("read from %d: %v", from, err)
			}
			for o := v.BaseOffset(); o <= v.LastOffset(); o++ {
				if o >= from {
					all = append(all, o)
				}
			}
			from = v.NextOffset()
			b = rest
		}
	}
	return all
}

// wantRange fails unless a reader finds exactly [from, end).
func (w *world) wantRange(from, end ident.Offset) {
	w.t.Helper()
	got := w.offsets(from)
	for i, o := range got {
		if o != from+ident.Offset(i) {
			w.t.Fatalf("record %d has offset %d, want %d", i, o, from+ident.Offset(i))
		}
	}
	if len(got) != int(end-from) {
		w.t.Fatalf("found %d records from %d, want %d", len(got), from, end-from)
	}
}

func small(c *Config) { c.Settings.SegmentBytes = 600; c.Settings.IndexInterval = 100 }

// memory returns a disk that holds the folder of logs, durably.
func memory() *disk.Memory {
	m := disk.NewMemory(time.Now)
	if err := errors.Join(m.MkdirAll(path.Dir(testDir)), m.SyncDir("/")); err != nil {
		panic(err)
	}
	return m
}

func TestAppendReadReopen(t *testing.T) {
	for name, fsys := range map[string]func(*testing.T) (disk.FS, string){
		"memory": func(*testing.T) (disk.FS, string) { return memory(), testDir },
		"real":   func(t *testing.T) (disk.FS, string) { return disk.Real{}, t.TempDir() + "/topic-0" },
	} {
		t.Run(name, func(t *testing.T) {
			f, dir := fsys(t)
			w := newWorld(t, f, small, func(c *Config) { c.Dir = dir })
			w.open()
			w.fill(100)
			if n := len(w.log.segments); n < 10 {
				t.Fatalf("%d segments", n)
			}
			w.wantRange(0, 100)
			w.wantRange(37, 100)
			w.close()
			w.cfg.Clean, w.cfg.RecoveryPoint = true, 100
			if r := w.open(); r.SegmentsRead != 1 {
				t.Errorf("a clean open read %d segments", r.SegmentsRead)
			}
			w.wantRange(0, 100)
			w.fill(50)
			w.flush()
			w.wantRange(0, 150)
			w.close()
			w.cfg.Clean, w.cfg.RecoveryPoint = false, 0
			if r := w.open(); r.CutBytes != 0 || r.IndexesRebuilt != 0 {
				t.Errorf("recovered %+v", r)
			}
			w.wantRange(0, 150)
			w.close()
		})
	}
}
