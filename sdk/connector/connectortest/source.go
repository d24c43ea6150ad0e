package connectortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"testing"

	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/sdk/connector"
)

// Source describes a source to test.
type Source struct {
	Plugin connector.Plugin

	// Setup makes something to read that holds exactly so many records (it is
	// asked for a few, and for a few hundred), and returns settings to read it
	// from its beginning. It is called once for each test.
	Setup func(t *testing.T, records int) (settings map[string]string)

	// Endless says that the source waits for more at the end of what Setup
	// made, rather than return io.EOF.
	Endless bool

	// Idle, if not nil, returns settings with which Read waits for records
	// that never come, to test cancellation. For an Endless source, Setup with
	// no records does that.
	Idle func(t *testing.T) (settings map[string]string)

	// Bad holds settings that must be refused, by the name of the setting that
	// is to blame.
	Bad map[string]map[string]string
}

// manyRecords is enough for several batches of a source that returns early.
const manyRecords = 300

// TestSource runs the suite.
func TestSource(t *testing.T, s Source) {
	testPlugin(t, s.Plugin)
	for _, in := range []struct {
		name string
		open func(*testing.T, Source, map[string]string, map[string]string) reader
	}{
		{"in process", openHere},
		{"as a process", openProcess},
	} {
		t.Run(in.name, func(t *testing.T) {
			t.Run("reads all", func(t *testing.T) { testReadsAll(t, s, in.open) })
			t.Run("resumes behind any record", func(t *testing.T) { testResumes(t, s, in.open) })
			t.Run("stops when cancelled", func(t *testing.T) { testCancel(t, s, in.open) })
		})
	}
	t.Run("survives being killed", func(t *testing.T) { testKilledSource(t, s) })
	t.Run("refuses wrong settings", func(t *testing.T) {
		testBad(t, s.Plugin, host.KindSource, badOf(s.Bad), func(t *testing.T, settings map[string]string) error {
			source := s.Plugin.NewSource()
			l := newLogs(t)
			err := source.Open(withPatience(t), newTask(t, s.Plugin.Spec.Source, settings, l))
			if err == nil {
				_ = source.Close(withPatience(t))
			}
			requireNoSecrets(t, s.Plugin.Spec.Source, settings, "the log", l.String())
			return err
		})
	})
}

// reader is a source, here or as a process.
type reader interface {
	// read returns records, io.EOF or an error.
	read(ctx context.Context) (*connector.Batch, error)
	close(ctx context.Context) error
}

// here runs a source in this process.
type here struct{ source connector.Source }

func openHere(t *testing.T, s Source, settings, resume map[string]string) reader {
	t.Helper()
	l := newLogs(t)
	t.Cleanup(func() { requireNoSecrets(t, s.Plugin.Spec.Source, settings, "the log", l.String()) })
	task := newTask(t, s.Plugin.Spec.Source, settings, l)
	task.Resume = resume
	source := s.Plugin.NewSource()
	if err := source.Open(withPatience(t), task); err != nil {
		t.Fatalf("Open: %v", err)
	}
	return &here{source}
}

func (h *here) read(ctx context.Context) (*connector.Batch, error) {
	b := new(connector.Batch)
	err := h.source.Read(ctx, b)
	if _, retry := errors.AsType[*connector.RetryError](err); retry || err == io.EOF && b.Len() > 0 {
		err = nil // an EOF comes again
	}
	return b, err
}

func (h *here) close(ctx context.Context) error { return h.source.Close(ctx) }

// process runs a source as a process.
type process struct{ source *host.Source }

func openProcess(t *testing.T, s Source, settings, resume map[string]string) reader {
	t.Helper()
	l := newLogs(t)
	source, err := newHost(t, s.Plugin, l.logger()).OpenSource(host.TaskConfig{
		Plugin: s.Plugin.Name, Connector: connectorName, Settings: settings, Resume: resume, StateDir: t.TempDir()})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	t.Cleanup(func() {
		_ = source.Close(context.Background()) // if the test has not
		requireNoSecrets(t, s.Plugin.Spec.Source, settings, "the log", l.String())
	})
	return &process{source}
}

func (p *process) read(ctx context.Context) (*connector.Batch, error) {
	b, err := p.source.Read(ctx)
	if b == nil {
		b = new(connector.Batch)
	}
	return b, err
}

func (p *process) close(ctx context.Context) error { return p.source.Close(ctx) }

// seen is what was read, by source partition.
type seen struct {
	t       *testing.T
	count   int
	records map[string][]seenRecord
}

type seenRecord struct{ position, text string }

func newSeen(t *testing.T) *seen { return &seen{t: t, records: make(map[string][]seenRecord)} }

func (s *seen) add(b *connector.Batch) {
	s.t.Helper()
	for _, r := range b.Rows() {
		s.count++
		if r.Origin.Position == "" {
			s.t.Errorf("record %d has no position: %s", s.count, describe(r))
		}
		s.records[r.Origin.Partition] = append(s.records[r.Origin.Partition], seenRecord{r.Origin.Position, describe(r)})
	}
}

func describe(r *connector.Record) string {
	return fmt.Sprintf("topic %q, operation %s, key %s, value %s", r.Topic, r.Operation, describeValue(r.Key), describeValue(r.Value))
}

func describeValue(v connector.Value) string {
	if text, err := v.AppendJSON(nil); err == nil {
		return fmt.Sprintf("%s %s", v.Kind(), text)
	}
	return fmt.Sprintf("%s %q", v.Kind(), v.Bytes())
}

// readAll reads the given number of records and, if the source ends, its end.
func readAll(t *testing.T, s Source, r reader, records int, each func(*seen)) *seen {
	t.Helper()
	all := newSeen(t)
	ctx := withPatience(t)
	for !s.Endless || all.count < records {
		b, err := r.read(ctx)
		if err == io.EOF && !s.Endless {
			break
		}
		if err != nil {
			t.Fatalf("Read, after %d of %d records: %v", all.count, records, err)
		}
		all.add(b)
		if each != nil {
			each(all)
		}
	}
	if all.count != records {
		t.Fatalf("%d records were read, there are %d", all.count, records)
	}
	return all
}

func closeReader(t *testing.T, r reader) {
	t.Helper()
	within(t, patience, "Close", func() {
		if err := r.close(withPatience(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

type opener func(*testing.T, Source, map[string]string, map[string]string) reader

func testReadsAll(t *testing.T, s Source, open opener) {
	for _, n := range []int{1, manyRecords} {
		settings := s.Setup(t, n)
		r := open(t, s, settings, nil)
		all := readAll(t, s, r, n, nil)
		closeReader(t, r)
		for partition, records := range all.records {
			positions := make(map[string]bool)
			for _, rec := range records {
				if positions[rec.position] {
					t.Fatalf("two records of source partition %q have the position %q", partition, rec.position)
				}
				positions[rec.position] = true
			}
		}
	}
}

// testResumes reads on behind every so many records of a first run.
func testResumes(t *testing.T, s Source, open opener) {
	const n = 12
	settings := s.Setup(t, n)
	first := open(t, s, settings, nil)
	resume := make(map[string]string)
	var places []map[string]string
	all := newSeen(t)
	ctx := withPatience(t)
	for all.count < n {
		b, err := first.read(ctx)
		if err != nil {
			t.Fatalf("Read, after %d of %d records: %v", all.count, n, err)
		}
		for _, r := range b.Rows() {
			resume[r.Origin.Partition] = r.Origin.Position
			places = append(places, maps.Clone(resume))
		}
		all.add(b)
	}
	closeReader(t, first)
	for taken := 1; taken <= n; taken += 5 {
		r := open(t, s, settings, places[taken-1])
		rest := readAll(t, s, r, n-taken, nil)
		closeReader(t, r)
		requireRest(t, all, rest, places[taken-1], taken)
	}
}

// requireRest checks that rest is what of all comes behind the given places.
func requireRest(t *testing.T, all, rest *seen, places map[string]string, taken int) {
	t.Helper()
	for partition, records := range all.records {
		begin := 0
		for i, r := range records {
			if r.position == places[partition] {
				begin = i + 1
			}
		}
		want, got := records[begin:], rest.records[partition]
		for i := range max(len(want), len(got)) {
			if i >= len(want) || i >= len(got) || want[i] != got[i] {
				t.Fatalf("resumed behind record %d, source partition %q goes on with\n%v, want\n%v", taken, partition, got, want)
			}
		}
	}
}

func testCancel(t *testing.T, s Source, open opener) {
	var settings map[string]string
	switch {
	case s.Idle != nil:
		settings = s.Idle(t)
	case s.Endless:
		settings = s.Setup(t, 0)
	default:
		t.Skip("the source ends, and no Idle was given")
	}
	r := open(t, s, settings, nil)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() {
		_, err := r.read(ctx)
		result <- err
	}()
	cancel()
	within(t, promptly, "Read, after its context was cancelled,", func() {
		if err := <-result; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled Read returned %v", err)
		}
	})
	within(t, promptly, "Close", func() {
		if err := r.close(withPatience(t)); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// testKilledSource kills the process now and then.
func testKilledSource(t *testing.T, s Source) {
	settings := s.Setup(t, manyRecords)
	whole := openHere(t, s, settings, nil)
	want := readAll(t, s, whole, manyRecords, nil)
	closeReader(t, whole)

	r := openProcess(t, s, settings, nil).(*process)
	kills := 0
	got := readAll(t, s, r, manyRecords, func(all *seen) {
		if kills < 3 && all.count < manyRecords {
			kills++
			kill(t, r.source.Status().PID)
		}
	})
	closeReader(t, r)
	requireRest(t, want, got, nil, 0)
}
