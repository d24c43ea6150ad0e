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

// Sink describes a sink to test. Plugin, Setup, Record and Written are
// required.
type Sink struct {
	// Plugin is one of those that TestMain gives to [Main].
	Plugin connector.Plugin

	// Setup makes something empty to write to and returns settings for it. It
	// is called once in each test, with that test's t.
	Setup func(t *testing.T) (settings map[string]string)

	// Record returns the i-th record to write, from 0. The suite sets its
	// topic, partition, offset and timestamp.
	Record func(i int) connector.Record

	// BadRecord, if not nil, returns a record that the sink cannot write
	// because of what it holds.
	BadRecord func() connector.Record

	// Written returns which records are durable where they went, by their
	// numbers, as often as they are there, in any order.
	Written func(t *testing.T, settings map[string]string) []int

	// Idempotent says that records that come again are there once.
	Idempotent bool

	// WrongSettings must each be refused.
	WrongSettings []WrongSettings
}

const topic = "under-test"

// TestSink runs the suite. TestMain must have called [Main].
func TestSink(t *testing.T, s Sink) {
	t.Helper()
	testPlugin(t, s.Plugin)
	switch {
	case s.Plugin.NewSink == nil:
		t.Fatalf("connectortest: the plugin %q has no sink", s.Plugin.Name)
	case s.Setup == nil, s.Record == nil, s.Written == nil:
		t.Fatal("connectortest: Setup, Record and Written of a Sink are required: what to write to, what to write, and what was written")
	}
	for _, in := range []struct {
		name string
		open sinkOpener
	}{
		{"in process", openSinkHere},
		{"as a process", openSinkProcess},
	} {
		t.Run(in.name, func(t *testing.T) {
			if !t.Run("writes all", func(t *testing.T) { testWritesAll(t, s, in.open) }) {
				t.Fatal("the other tests need a sink that writes all; they were not run")
			}
			t.Run("takes records again", func(t *testing.T) { testWritesAgain(t, s, in.open) })
			t.Run("names bad records", func(t *testing.T) { testNamesBad(t, s, in.open) })
		})
		if t.Failed() {
			return // a process would not do better
		}
	}
	t.Run("survives being killed", func(t *testing.T) { testKilledSink(t, s) })
	t.Run("settings", func(t *testing.T) {
		testSettings(t, tested{
			plugin: s.Plugin, kind: host.KindSink, fields: s.Plugin.Spec.Sink,
			made:  func() any { return s.Plugin.NewSink() },
			setup: s.Setup,
			open: func(made any, t *testing.T, task connector.Task) error {
				sink := made.(connector.Sink)
				task.Topics = []string{topic}
				err := sink.Open(withPatience(t), task)
				if err == nil {
					_ = sink.Close(withPatience(t))
				}
				return err
			},
		}, s.WrongSettings)
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

func (h *sinkHere) write(ctx context.Context, b *connector.Batch) error {
	return untilDone(ctx, func() error { return h.sink.Write(ctx, b) })
}

func (h *sinkHere) flush(ctx context.Context) error {
	f, ok := h.sink.(connector.Flusher)
	if !ok {
		return nil
	}
	return untilDone(ctx, func() error { return f.Flush(ctx) })
}

// untilDone tries again as a host would.
func untilDone(ctx context.Context, call func() error) error {
	var tries retries
	for {
		err := call()
		retry, isRetry := errors.AsType[*connector.RetryError](err)
		if !isRetry {
			return err
		}
		if err := tries.again(ctx, retry, false); err != nil {
			return err
		}
	}
}

func (h *sinkHere) close(ctx context.Context) error { return h.sink.Close(ctx) }

type sinkProcess struct {
	sink  *host.Sink
	watch *statusWatch
}

func openSinkProcess(t *testing.T, s Sink, settings map[string]string) writer {
	t.Helper()
	l := newLogs(t)
	watch := &statusWatch{log: l.logger()}
	sink, err := newHost(t, s.Plugin, l.logger()).OpenSink(host.TaskConfig{
		Plugin: s.Plugin.Name, Connector: connectorName, Settings: settings, Topics: []string{topic}, StateDir: t.TempDir(), OnStatus: watch.changed})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	t.Cleanup(func() {
		_ = sink.Close(context.Background()) // if the test has not
		requireNoSecrets(t, s.Plugin.Spec.Sink, settings, "the log", l.String())
	})
	return &sinkProcess{sink, watch}
}

func (p *sinkProcess) write(ctx context.Context, b *connector.Batch) error {
	return p.call(ctx, func(ctx context.Context) error { return p.sink.Write(ctx, b) })
}

func (p *sinkProcess) flush(ctx context.Context) error { return p.call(ctx, p.sink.Flush) }

func (p *sinkProcess) call(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := p.watch.context(ctx)
	defer stop()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		err = p.watch.explain(ctx)
	}
	return err
}

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
	if s.BadRecord == nil {
		t.Skip("no bad record was given")
	}
	settings := s.Setup(t)
	w := open(t, s, settings)
	b := s.batch(0, 3)
	b.Append(placed(s.BadRecord(), 3))
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
