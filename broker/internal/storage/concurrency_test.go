package storage

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// TestWritersShareSyncs lets many writers append and wait for their own end to
// be flushed. A slow sync has to serve all who came while the one before ran.
func TestWritersShareSyncs(t *testing.T) {
	slow := &slowSync{FS: memory()}
	w := newWorld(t, slow)
	w.open()
	slow.delay.Store(int64(5 * time.Millisecond))
	before := slow.syncs.Load()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 4 {
				a, err := w.log.AppendAsLeader(w.records(batch.None, "v", 1), 0)
				if err != nil {
					t.Error(err)
					return
				}
				if end, err := w.log.Flush(); err != nil || end < a.End {
					t.Errorf("flushed to %d, %v; wanted %d", end, err, a.End)
				}
			}
		})
	}
	wg.Wait()
	// Each round of 16 needs two syncs at most, and some for the epochs.
	if n := slow.syncs.Load() - before; n > 20 {
		t.Errorf("64 appends by 16 writers took %d syncs", n)
	}
	w.wantRange(0, 64)
}

// slowSync is a disk whose syncs take time, and are counted.
type slowSync struct {
	disk.FS
	delay, syncs atomic.Int64
}

func (s *slowSync) OpenWrite(p string) (disk.File, error) {
	f, err := s.FS.OpenWrite(p)
	return &slowFile{f, s}, err
}

type slowFile struct {
	disk.File
	s *slowSync
}

func (f *slowFile) Sync() error {
	f.s.syncs.Add(1)
	time.Sleep(time.Duration(f.s.delay.Load()))
	return f.File.Sync()
}

// TestReadersSeeWholeBatchesWhateverHappens runs readers, a flusher and
// retention against a writer that also truncates; for the race detector.
func TestReadersSeeWholeBatchesWhateverHappens(t *testing.T) {
	w := newWorld(t, memory(), small, func(c *Config) { c.Settings.Delete, c.Settings.RetentionBytes = true, 3000 })
	w.open()
	w.fill(1)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	background := func(f func() error) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		background(func() error { return readOnce(w.log) })
	}
	background(func() error { _, err := w.log.Flush(); return err })
	background(func() error {
		_, err := w.log.ApplyRetention(w.now, w.log.FlushedEnd())
		return err
	})
	background(func() error {
		_, _, err := w.log.OffsetForTime(epochMs + int64(w.log.Start())*1000)
		if err == nil {
			_, _, err = w.log.MaxTimestamp()
		}
		return err
	})
	for i := range 2000 {
		w.fill(1)
		if i%100 == 99 {
			if err := w.log.TruncateTail(max(w.log.Start(), w.log.End()-ident.Offset(i/100%4*12))); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	w.wantRange(w.log.Start(), w.log.End())
}

// readOnce reads from the start and checks what it gets. Bytes that are
// truncated while it reads may be gone or others.
func readOnce(l *Log) error {
	from, end := l.Start(), l.FlushedEnd()
	c, err := l.Read(from, end, 2000, true)
	var outOfRange *OutOfRangeError
	if errors.As(err, &outOfRange) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	b, err := c.Append(nil)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	for len(b) > 0 {
		v, rest, err := batch.Next(b)
		if err != nil {
			return err
		}
		if v.LastOffset() < from {
			return fmt.Errorf("asked for offset %d and got [%d, %d)", from, v.BaseOffset(), v.NextOffset())
		}
		b = rest
	}
	return nil
}

// TestChunksOutliveTheirSegment reads a chunk after retention deleted its
// segment and after the log was closed.
func TestChunksOutliveTheirSegment(t *testing.T) {
	w := newWorld(t, memory(), small)
	w.open()
	w.fill(30)
	read := func(from ident.Offset) Chunk {
		c, err := w.log.Read(from, 30, 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	deleted, closed := read(0), read(29)
	want, err := deleted.Append([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.log.AdvanceStart(20); err != nil {
		t.Fatal(err)
	}
	w.close()
	var b strings.Builder
	if n, err := deleted.WriteTo(&b); err != nil || int(n) != deleted.Len() || "x"+b.String() != string(want) {
		t.Errorf("wrote %d bytes of %d, %v", n, deleted.Len(), err)
	}
	p := make([]byte, 20)
	if n, err := closed.ReadAt(p, int64(closed.Len()-10)); n != 10 || err != io.EOF {
		t.Errorf("reading across the end: %d, %v", n, err)
	}
	for _, c := range []Chunk{deleted, closed} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c.ReadAt(p, 0); err == nil {
			t.Error("the file of a closed chunk is still open")
		}
	}
	if err := (Chunk{}).Close(); err != nil {
		t.Error(err)
	}
	if _, err := w.log.Read(20, 30, 100, true); !errors.Is(err, ErrClosed) {
		t.Errorf("reading a closed log: %v", err)
	}
}

func TestDeleteRemovesTheFolder(t *testing.T) {
	w := newWorld(t, memory(), small)
	w.open()
	w.fill(30)
	if err := w.log.Delete(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.fs.Stat(testDir); err == nil {
		t.Error("the folder is still there")
	}
	if err := w.log.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("closing a deleted log: %v", err)
	}
}
