package connectortest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/sdk/connector"
)

// Sink describes a sink to test.
type Sink struct {
	Plugin connector.Plugin

	// Setup makes something empty to write to and returns settings for it. It
	// is called once for each test.
	Setup func(t *testing.T) (settings map[string]string)

	// Record returns the i-th record to write, from 0. The suite sets its
	// topic, partition, offset and timestamp.
	Record func(i int) connector.Record

	// Bad, if not nil, returns a record that the sink cannot write because of
	// what it holds.
	Bad func() connector.Record

	// Written returns which records are durable where they went, by their
	// numbers, as often as they are there, in any order.
	Written func(t *testing.T, settings map[string]string) []int

	// Idempotent says that records that come again are there once.
	Idempotent bool

	// BadSettings holds settings that must be refused, by the name of the
	// setting that is to blame.
	BadSettings map[string]map[string]string
}

const topic = "under-test"

// TestSink runs the suite.
func TestSink(t *testing.T, s Sink) {
	testPlugin(t, s.Plugin)
	for _, in := range []struct {
		name string
		open func(*testing.T, Sink, map[string]string) writer
	}{
		{"in process", openSinkHere},
		{"as a process", openSinkProcess},
	} {
		t.Run(in.name, func(t *testing.T) {
			t.Run("writes all", func(t *testing.T) { testWritesAll(t, s, in.open) })
			t.Run("takes records again", func(t *testing.T) { testWritesAgain(t, s, in.open) })
			t.Run("names bad records", func(t *testing.T) { testNamesBad(t, s, in.open) })
		})
	}
	t.Run("survives being killed", func(t *testing.T) { testKilledSink(t, s) })
	t.Run("refuses wrong settings", func(t *testing.T) {
		testBad(t, s.Plugin, host.KindSink, badOf(s.BadSettings), func(t *testing.T, settings map[string]string) error {
			sink := s.Plugin.NewSink()
			l := newLogs(t)
			task := newTask(t, s.Plugin.Spec.Sink, settings, l)
			task.Topics = []string{topic}
			err := sink.Open(withPatience(t), task)
			if err == nil {
				_ = sink.Close(withPatience(t))
			}
			requireNoSecrets(t, s.Plugin.Spec.Sink, settings, "the log", l.String())
			return err
		})
	})
}

// writer is a sink, here or as a process.
type writer interface {
	write(ctx context.Context, b *connector.Batch) error
	flush(ctx context.Context) error
	close(ctx context.Context) error
}

type sinkHere struct{ sink connector.Sink }

func openSinkHere(t *testing.T, s Sink, settings map[string]string) writer {
	t.Helper()
	l := newLogs(t)
	t.Cleanup(func() { requireNoSecrets(t, s.Plugin.Spec.Sink, settings, "the log", l.String()) })
	task := newTask(t, s.Plugin.Spec.Sink, settings, l)
	task.Topics = []string{topic}
	sink := s.Plugin.NewSink()
	if err := sink.Open(withPatience(t), task); err != nil {
		t.Fatalf("Open: %v", err)
	}
	return &sinkHere{sink}
}

// write tries again as a host would.
func (h *sinkHere) write(ctx context.Context, b *connector.Batch) error {
	for {
		err := h.sink.Write(ctx, b)
		if _, retry := errors.AsType[*connector.RetryError](err); !retry || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (h *sinkHere) flush(ctx context.Context) error {
	if f, ok := h.sink.(connector.Flusher); ok {
		return f.Flush(ctx)
	}
	return nil
}

func (h *sinkHere) close(ctx context.Context) error { return h.sink.Close(ctx) }

type sinkProcess struct{ sink *host.Sink }

func openSinkProcess(t *testing.T, s Sink, settings map[string]string) writer {
	t.Helper()
	l := newLogs(t)
	sink, err := newHost(t, s.Plugin, l.logger()).OpenSink(host.TaskConfig{
		Plugin: s.Plugin.Name, Connector: connectorName, Settings: settings, Topics: []string{topic}, StateDir: t.TempDir()})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	t.Cleanup(func() {
		_ = sink.Close(context.Background()) // if the test has not
		requireNoSecrets(t, s.Plugin.Spec.Sink, settings, "the log", l.String())
	})
	return &sinkProcess{sink}
}

func (p *sinkProcess) write(ctx context.Context, b *connector.Batch) error {
	return p.sink.Write(ctx, b)
}
func (p *sinkProcess) flush(ctx context.Context) error { return p.sink.Flush(ctx) }
func (p *sinkProcess) close(ctx context.Context) error { return p.sink.Close(ctx) }

// placed sets a record's place in its topic.
func placed(r connector.Record, offset int) connector.Record {
	r.Topic, r.Partition, r.Offset = topic, 0, int64(offset)
	r.Timestamp = time.UnixMilli(1_700_000_000_000 + int64(offset)).UTC()
	return r
}

func (s Sink) batch(begin, end int) *connector.Batch {
	b := new(connector.Batch)
	for i := begin; i < end; i++ {
		b.Append(placed(s.Record(i), i))
	}
	return b
}

func mustWrite(t *testing.T, w writer, b *connector.Batch) {
	t.Helper()
	if err := w.write(withPatience(t), b); err != nil {
		t.Fatalf("Write: %v", err)
	}
}

func mustFlush(t *testing.T, w writer) {
	t.Helper()
	if err := w.flush(withPatience(t)); err != nil {
		t.Fatalf("Flush: %v", err)
	}
}

func closeWriter(t *testing.T, w writer) {
	t.Helper()
	within(t, patience, "Close", func() {
		if err := w.close(withPatience(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// requireWritten checks that exactly the records below end are there, and each
// once if once is true.
func requireWritten(t *testing.T, s Sink, settings map[string]string, end int, once bool) {
	t.Helper()
	written := s.Written(t, settings)
	slices.Sort(written)
	distinct := slices.Compact(slices.Clone(written))
	if len(distinct) != end || end > 0 && (distinct[0] != 0 || distinct[end-1] != end-1) {
		t.Fatalf("the records that are there are %v, want 0 to %d", distinct, end-1)
	}
	if once && len(written) != len(distinct) {
		t.Fatalf("records are there more than once: %v", written)
	}
}

type sinkOpener func(*testing.T, Sink, map[string]string) writer

func testWritesAll(t *testing.T, s Sink, open sinkOpener) {
	settings := s.Setup(t)
	w := open(t, s, settings)
	mustWrite(t, w, s.batch(0, 1))
	mustWrite(t, w, s.batch(1, 100))
	mustFlush(t, w)
	// Durable means so before Close.
	requireWritten(t, s, settings, 100, true)
	mustWrite(t, w, s.batch(100, 150))
	mustFlush(t, w)
	closeWriter(t, w)
	requireWritten(t, s, settings, 150, true)
}

// testWritesAgain sends what was written before, as happens after a crash.
func testWritesAgain(t *testing.T, s Sink, open sinkOpener) {
	settings := s.Setup(t)
	w := open(t, s, settings)
	mustWrite(t, w, s.batch(0, 20))
	mustWrite(t, w, s.batch(10, 25))
	mustFlush(t, w)
	closeWriter(t, w)
	w = open(t, s, settings)
	mustWrite(t, w, s.batch(5, 30))
	mustFlush(t, w)
	closeWriter(t, w)
	requireWritten(t, s, settings, 30, s.Idempotent)
}

func testNamesBad(t *testing.T, s Sink, open sinkOpener) {
	if s.Bad == nil {
		t.Skip("no bad record was given")
	}
	settings := s.Setup(t)
	w := open(t, s, settings)
	b := s.batch(0, 3)
	b.Append(placed(s.Bad(), 3))
	for i := 3; i < 6; i++ {
		b.Append(placed(s.Record(i), i+1))
	}
	err := w.write(withPatience(t), b)
	bad, ok := errors.AsType[connector.RecordErrors](err)
	if !ok || len(bad) != 1 || bad[3] == nil {
		t.Fatalf("Write of a batch whose record 3 is bad returned %v, want RecordErrors of index 3", err)
	}
	mustFlush(t, w)
	closeWriter(t, w)
	requireWritten(t, s, settings, 6, true)
}

// testKilledSink kills the process while it writes, at different moments.
func testKilledSink(t *testing.T, s Sink) {
	settings := s.Setup(t)
	w := openSinkProcess(t, s, settings).(*sinkProcess)
	const size = 10
	flushed := 0
	for begin := 0; begin < 200; {
		if begin%50 == 20 {
			pid, moment := w.sink.Status().PID, time.Duration(begin)*5*time.Microsecond
			go func() {
				time.Sleep(moment)
				kill(t, pid)
			}()
		}
		err := w.write(withPatience(t), s.batch(begin, begin+size))
		if err == nil {
			begin += size
			err = w.flush(withPatience(t))
		}
		switch {
		case errors.Is(err, host.ErrRewind):
			begin = flushed
		case err != nil:
			t.Fatalf("writing from record %d: %v", begin, err)
		default:
			flushed = begin
		}
	}
	closeWriter(t, w)
	requireWritten(t, s, settings, 200, s.Idempotent)
}
