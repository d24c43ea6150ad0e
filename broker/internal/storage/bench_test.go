package storage

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// bigBatch returns a batch of n records with values of size bytes.
func (w *world) bigBatch(n, size int) batch.View {
	return w.records(batch.None, fmt.Sprintf("%0*d", size, 7), make([]int64, n)...)
}

func benchWorld(b *testing.B) *world {
	w := newWorld(b, disk.Real{}, func(c *Config) { c.Dir = b.TempDir() + "/topic-0"; c.Settings.SegmentBytes = 64 << 20 })
	w.open()
	b.Cleanup(w.close)
	return w
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 10, 160} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			w := benchWorld(b)
			v := w.bigBatch(n, 100)
			b.SetBytes(int64(len(v)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.log.AppendAsLeader(v, 0); err != nil {
					b.Fatal(err)
				}
				if w.log.Size() > 256<<20 {
					b.StopTimer()
					if err := w.log.AdvanceStart(w.log.End()); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
		})
	}
}

// BenchmarkReadTail is a consumer that keeps up: one batch a read.
func BenchmarkReadTail(b *testing.B) {
	w := benchWorld(b)
	v := w.bigBatch(10, 100)
	for range 10_000 {
		if _, err := w.log.AppendAsLeader(v, 0); err != nil {
			b.Fatal(err)
		}
	}
	from, end := w.log.End()-10, w.log.End()
	buf := make([]byte, 0, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		readInto(b, w.log, from, end, buf)
	}
}

// BenchmarkReadBehind is a consumer that reads a megabyte somewhere.
func BenchmarkReadBehind(b *testing.B) {
	w := benchWorld(b)
	v := w.bigBatch(10, 100)
	for range 20_000 {
		if _, err := w.log.AppendAsLeader(v, 0); err != nil {
			b.Fatal(err)
		}
	}
	buf := make([]byte, 0, 1<<20)
	b.ReportAllocs()
	b.SetBytes(1 << 20)
	from := ident.Offset(0)
	for b.Loop() {
		readInto(b, w.log, from, w.log.End(), buf)
		from = (from + 7919) % 180_000
	}
}

func readInto(b *testing.B, l *Log, from, end ident.Offset, buf []byte) {
	c, err := l.Read(from, end, 1<<20, true)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.Append(buf); err != nil {
		b.Fatal(err)
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
}
