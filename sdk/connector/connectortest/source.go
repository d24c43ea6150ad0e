package connectortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"testing"
	"time"

	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/sdk/connector"
)

// Source describes a source to test. Plugin and Setup are required.
type Source struct {
	// Plugin is one of those that TestMain gives to [Main].
	Plugin connector.Plugin

	// Setup makes something to read that holds exactly so many records (it is
	// asked for none, a few, and a few hundred), and returns settings to read
	// it from its beginning. It is called once or more in each test, with that
	// test's t.
	Setup func(t *testing.T, records int) (settings map[string]string)

	// Endless says that the source waits for more at the end of what Setup
	// made, rather than return io.EOF.
	Endless bool

	// Idle, if not nil, returns settings with which Read waits for records
	// that never come, to test cancellation. For an Endless source, Setup with
	// no records does that.
	Idle func(t *testing.T) (settings map[string]string)

	// ChoosesPartitions says that the source sets Record.Partition itself.
	// Otherwise each record must leave it at [connector.AnyPartition].
	ChoosesPartitions bool

	// WrongSettings must each be refused.
	WrongSettings []WrongSettings
}

// manyRecords is enough for several batches of a source that returns early.
const manyRecords = 300

// endPatience bounds how long a source may take to say that it is at its end.
const endPatience = 5 * time.Second

// TestSource runs the suite. TestMain must have called [Main].
func TestSource(t *testing.T, s Source) {
	t.Helper()
	testPlugin(t, s.Plugin)
	switch {
	case s.Plugin.NewSource == nil:
		t.Fatalf("connectortest: the plugin %q has no source", s.Plugin.Name)
	case s.Setup == nil:
		t.Fatal("connectortest: Source.Setup is required: it says what the source is to read")
	}
	for _, in := range []struct {
		name string
		open opener
	}{
		{"in process", openHere},
		{"as a process", openProcess},
	} {
		t.Run(in.name, func(t *testing.T) {
			if !t.Run("reads all", func(t *testing.T) { testReadsAll(t, s, in.open) }) {
				t.Fatal("the other tests need a source that reads all; they were not run")
			}
			if in.name == "in process" && !t.Run("reads the same in small batches", func(t *testing.T) { testSmallBatches(t, s) }) {
				t.Fatal("the other tests need records that stay as they are; they were not run")
			}
			t.Run("resumes behind any record", func(t *testing.T) { testResumes(t, s, in.open) })
			t.Run("stops when cancelled", func(t *testing.T) { testCancel(t, s, in.open) })
		})
		if t.Failed() {
			return // a process would not do better
		}
	}
	t.Run("survives being killed", func(t *testing.T) { testKilledSource(t, s) })
	t.Run("settings", func(t *testing.T) {
		testSettings(t, tested{
			plugin: s.Plugin, kind: host.KindSource, fields: s.Plugin.Spec.Source,
			made:  func() any { return s.Plugin.NewSource() },
			setup: func(t *testing.T) map[string]string { return s.Setup(t, 1) },
			open: func(made any, t *testing.T, task connector.Task) error {
				source := made.(connector.Source)
				err := source.Open(withPatience(t), task)
				if err == nil {
					_ = source.Close(withPatience(t))
				}
				return err
			},
		}, s.WrongSettings)
	})
}

// reader is a source, here or as a process.
type reader interface {
	// ready returns when the source is open.
	ready(ctx context.Context) error
	// read returns records, io.EOF or an error.
	read(ctx context.Context) (*connector.Batch, error)
	close(ctx context.Context) error
}

// here runs a source in this process.
type here struct {
	source     connector.Source
	batchBytes int
	retries    retries
}

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
	return &here{source: source}
}

func (h *here) ready(context.Context) error { return nil }

func (h *here) read(ctx context.Context) (*connector.Batch, error) {
	type result struct {
		batch *connector.Batch
		err   error
	}
	done := make(chan result, 1)
	go func() {
		b := new(connector.Batch)
		b.SetLimit(h.batchBytes)
		done <- result{b, h.source.Read(ctx, b)}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		select {
		case r = <-done:
		case <-time.After(promptly):
			return new(connector.Batch), fmt.Errorf("its context ended, and it did not return within %v", promptly)
		}
	}
	if retry, isRetry := errors.AsType[*connector.RetryError](r.err); isRetry {
		r.err = h.retries.again(ctx, retry, r.batch.Len() > 0)
	} else if r.batch.Len() > 0 {
		h.retries = retries{}
		if r.err == io.EOF {
			r.err = nil // an EOF comes again
		}
	}
	return r.batch, r.err
}

func (h *here) close(ctx context.Context) error { return h.source.Close(ctx) }

// process runs a source as a process.
type process struct {
	source *host.Source
	watch  *statusWatch
}

func openProcess(t *testing.T, s Source, settings, resume map[string]string) reader {
	t.Helper()
	l := newLogs(t)
	watch := &statusWatch{log: l.logger()}
	source, err := newHost(t, s.Plugin, l.logger()).OpenSource(host.TaskConfig{
		Plugin: s.Plugin.Name, Connector: connectorName, Settings: settings, Resume: resume, StateDir: t.TempDir(), OnStatus: watch.changed})
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	t.Cleanup(func() {
		_ = source.Close(context.Background()) // if the test has not
		requireNoSecrets(t, s.Plugin.Spec.Source, settings, "the log", l.String())
	})
	return &process{source, watch}
}

func (p *process) ready(ctx context.Context) error {
	for p.source.Status().State != host.Running {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return p.watch.explain(ctx)
		}
	}
	return nil
}

func (p *process) read(ctx context.Context) (*connector.Batch, error) {
	ctx, stop := p.watch.context(ctx)
	defer stop()
	b, err := p.source.Read(ctx)
	if b == nil {
		b = new(connector.Batch)
	}
	if err != nil && ctx.Err() != nil {
		err = p.watch.explain(ctx)
	}
	return b, err
}

func (p *process) close(ctx context.Context) error { return p.source.Close(ctx) }

// seen is what was read, by source partition.
type seen struct {
	t                 *testing.T
	choosesPartitions bool
	count             int
	records           map[string][]seenRecord
}

type seenRecord struct{ position, text string }

func newSeen(t *testing.T, s Source) *seen {
	return &seen{t: t, choosesPartitions: s.ChoosesPartitions, records: make(map[string][]seenRecord)}
}

func (s *seen) add(b *connector.Batch) {
	s.t.Helper()
	for _, r := range b.Rows() {
		s.count++
		if r.Origin.Position == "" {
			s.t.Fatalf("record %d has no Origin.Position, so the task could not resume behind it: %s", s.count, describe(r))
		}
		if r.Partition != connector.AnyPartition && !s.choosesPartitions {
			s.t.Fatalf("record %d asks for partition %d of its topic: make records with NewRecord, or say ChoosesPartitions if it is meant", s.count, r.Partition)
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
	all := newSeen(t, s)
	ctx, ending := withPatience(t), false
	for !s.Endless || all.count < records {
		if all.count == records && !ending {
			ending = true
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, endPatience)
			defer cancel()
		}
		b, err := r.read(ctx)
		if err == nil && b.Len() == 0 && ctx.Err() != nil {
			err = errors.New("it returned nothing, again and again")
		}
		if err == io.EOF && !s.Endless {
			break
		}
		if err != nil && !s.Endless && all.count == records {
			t.Fatalf("Read, after all %d records, should return io.EOF (a source that waits for more says Endless): %v", records, err)
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
	all := newSeen(t, s)
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
		t.Logf("resuming behind record %d of %d, at the positions %v", taken, n, places[taken-1])
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
		requireSame(t, fmt.Sprintf("resumed behind record %d", taken), partition, rest.records[partition], records[begin:])
	}
}

func requireSame(t *testing.T, when, partition string, got, want []seenRecord) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("%s, source partition %q goes on with\n%v, want\n%v", when, partition, got, want)
		}
	}
}

// testSmallBatches compares what is read in full batches with what is read in
// batches that are full at once. They differ if records of a batch share a
// buffer that the source fills anew for each.
func testSmallBatches(t *testing.T, s Source) {
	settings := s.Setup(t, manyRecords)
	read := func(batchBytes int) *seen {
		r := openHere(t, s, settings, nil)
		r.(*here).batchBytes = batchBytes
		all := readAll(t, s, r, manyRecords, nil)
		closeReader(t, r)
		return all
	}
	large, small := read(0), read(1)
	for partition, records := range small.records {
		requireSame(t, "read in large batches", partition, large.records[partition], records)
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
	if err := r.ready(withPatience(t)); err != nil {
		t.Fatalf("opening: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	result := make(chan error, 1)
	go func() {
		b, err := r.read(ctx)
		for ; err == nil && b.Len() == 0 && ctx.Err() == nil; b, err = r.read(ctx) {
		}
		result <- err
	}()
	select {
	case err := <-result:
		t.Fatalf("a Read that should wait for ever returned; its error is %v", err)
	case <-time.After(settle):
	}
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
	if err := r.ready(withPatience(t)); err != nil {
		t.Fatalf("opening: %v", err)
	}
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
