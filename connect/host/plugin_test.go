package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// TestMain runs the test binary as a plugin when a host starts it as one.
func TestMain(m *testing.M) {
	if name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), executablePrefix); ok {
		servePlugin(name)
		return
	}
	if len(os.Args) == 4 && os.Args[1] == "plugin" && os.Args[2] == "serve" {
		servePlugin(os.Args[3])
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "be-worker" {
		beWorker(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

func servePlugin(name string) {
	if dir := os.Getenv("HOST_TEST_PIDS"); dir != "" {
		_ = os.WriteFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), nil, 0o600)
	}
	switch name {
	case "chatty":
		fmt.Println("hello from an author who debugs")
	case "chatty-on-the-line":
		fmt.Print("loading...")
	case "early-exit":
		fmt.Fprintln(os.Stderr, "no licence file found")
		os.Exit(3)
	case "never-serves":
		time.Sleep(time.Hour)
	case "no-serve":
		return
	case "no-serve-but-output":
		fmt.Println("usage: ...")
		return
	case "chatty-afterwards":
		defer fmt.Println("goodbye")
	}
	for _, p := range testPlugins() {
		if p.Name == name {
			connector.Serve(p)
			return
		}
	}
	fmt.Fprintf(os.Stderr, "no test plugin %q\n", name)
	os.Exit(1)
}

func testPlugins() []connector.Plugin {
	counter := connector.Spec{
		Doc: "counts, and notes what it was sent",
		Source: []connector.Field{
			{Name: "count", Type: connector.Integer, Default: "0", Doc: "how many numbers there are; 0 means no end"},
			{Name: "batch", Type: connector.Integer, Default: "10", Doc: "numbers a batch"},
			{Name: "pause", Type: connector.Duration, Default: "0", Doc: "pause before each batch"},
			{Name: "password", Type: connector.String, Secret: true, Doc: "a secret"},
			{Name: "mode", Type: connector.String, Doc: "what should go wrong", Check: func(text string) error {
				if text == "forbidden" {
					return errors.New("it is forbidden")
				}
				return nil
			}},
		},
		Sink: []connector.Field{
			{Name: "path", Type: connector.String, Required: true, Doc: "file to append lines to"},
			{Name: "mode", Type: connector.String, Doc: "what should go wrong"},
		},
	}
	plain := connector.Plugin{Name: "counter", Version: "1.0.0", Spec: counter,
		NewSource: func() connector.Source { return &countSource{} }, NewSink: func() connector.Sink { return &lineSink{} }}
	flushing := plain
	flushing.Name, flushing.Spec.Source, flushing.NewSource = "flushing", nil, nil
	flushing.NewSink = func() connector.Sink { return &flushSink{} }
	plugins := []connector.Plugin{plain, flushing}
	odd := plain
	odd.Name, odd.NewSource = "odd", func() connector.Source { return &oddSource{} }
	plugins = append(plugins, odd)
	for _, name := range []string{"chatty", "chatty-on-the-line", "chatty-afterwards", "early-exit", "never-serves"} {
		p := plain
		p.Name = name
		plugins = append(plugins, p)
	}
	return plugins
}

// countSource counts from 1.
type countSource struct {
	log       *slog.Logger
	next, end int64
	batch     int
	pause     time.Duration
	mode      string
	password  string
	stateDir  string
	retried   bool
}

func (s *countSource) Open(ctx context.Context, task connector.Task) error {
	var cfg struct {
		Count    int64         `setting:"count"`
		Batch    int           `setting:"batch"`
		Pause    time.Duration `setting:"pause"`
		Password string        `setting:"password"`
		Mode     string        `setting:"mode"`
	}
	if err := task.Settings.Decode(&cfg); err != nil {
		return err
	}
	s.password = cfg.Password
	s.log, s.end, s.batch, s.pause, s.mode, s.stateDir, s.next = task.Log, cfg.Count, cfg.Batch, cfg.Pause, cfg.Mode, task.StateDir, 1
	if last, ok := task.Resume["numbers"]; ok {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil {
			return err
		}
		s.next = n + 1
	}
	switch s.mode {
	case "open-fails":
		return fmt.Errorf("logging in with %s: refused", cfg.Password)
	case "open-problem":
		return connector.Problemf("count", "must not be %d", cfg.Count)
	case "open-hangs":
		<-ctx.Done()
		return ctx.Err()
	case "open-retries":
		if _, err := os.Stat(filepath.Join(s.stateDir, "ready")); err != nil {
			return connector.Retry(errors.New("not ready yet"), time.Millisecond)
		}
	case "dies-at-once":
		os.Exit(7)
	}
	task.Log.Info("opened", "next", s.next, "dsn", "user:"+cfg.Password+"@host")
	fmt.Println("printed to standard output")
	fmt.Fprintln(os.Stderr, "printed with", cfg.Password)
	return nil
}

func (s *countSource) Read(ctx context.Context, out *connector.Batch) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.pause):
	}
	for range s.batch {
		if s.end > 0 && s.next > s.end {
			return io.EOF
		}
		position := strconv.FormatInt(s.next, 10)
		out.Append(connector.NewRecord(connector.Origin{Partition: "numbers", Position: position},
			connector.Value{}, connector.TextValue(position)))
		s.next++
	}
	switch {
	case (s.mode == "read-fails" || s.mode == "read-and-close-fail") && s.next > 20:
		return errors.New("the numbers ran out")
	case s.mode == "read-retries" && !s.retried:
		s.retried = true
		return connector.Retry(errors.New("a moment, please"), time.Millisecond)
	case s.mode == "read-panics" && s.next > 20:
		panic("cannot count that far")
	case s.mode == "read-log-fatals" && s.next > 20:
		log.Fatal("out of numbers")
	case s.mode == "read-blocks":
		if err := os.WriteFile(filepath.Join(s.stateDir, "reading"), nil, 0o600); err != nil {
			return err
		}
		select {}
	}
	return nil
}

// oddSource answers questions oddly.
type oddSource struct{ countSource }

func (*oddSource) Split(context.Context, connector.Settings, int) ([]map[string]string, error) {
	return []map[string]string{{"count": "1"}, {"cuont": "2"}}, nil
}

func (*oddSource) Validate(ctx context.Context, settings connector.Settings) error {
	if settings.Get("mode") == "validate-retries" {
		return connector.Retry(errors.New("the server is away"), 0)
	}
	<-ctx.Done()
	time.Sleep(10 * time.Second)
	return nil
}

func (s *countSource) Progress() connector.Progress {
	return connector.Progress{Done: s.next - 1, Total: s.end, Unit: "numbers"}
}

func (s *countSource) Ack(_ context.Context, positions map[string]string) error {
	return os.WriteFile(filepath.Join(s.stateDir, "acked"), []byte(positions["numbers"]), 0o600)
}

func (s *countSource) Close(ctx context.Context) error {
	if s.mode == "close-hangs" {
		<-ctx.Done()
		time.Sleep(time.Hour)
	}
	if s.mode == "close-fails" || s.mode == "read-and-close-fail" {
		return fmt.Errorf("logging out %s: refused", s.password)
	}
	return os.WriteFile(filepath.Join(s.stateDir, "closed"), nil, 0o600)
}

// lineSink appends each record's text as a line, durably.
type lineSink struct {
	file    *os.File
	mode    string
	retried bool
}

func (s *lineSink) Open(_ context.Context, task connector.Task) (err error) {
	s.mode = task.Settings.Get("mode")
	s.file, err = os.OpenFile(task.Settings.Get("path"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return err
}

func (s *lineSink) Write(ctx context.Context, in *connector.Batch) error {
	bad := connector.RecordErrors{}
	var lines strings.Builder
	for i, r := range in.Rows() {
		if strings.HasSuffix(r.Value.Text(), "bad") {
			bad[i] = fmt.Errorf("%q is bad", r.Value.Text())
			continue
		}
		lines.WriteString(r.Value.Text() + "\n")
	}
	switch {
	case s.mode == "retries" && !s.retried:
		s.retried = true
		return connector.Retry(errors.New("busy"), time.Millisecond)
	case s.mode == "fails":
		return errors.New("out of paper")
	case s.mode == "hangs":
		<-ctx.Done()
		return ctx.Err()
	}
	if _, err := s.file.WriteString(lines.String()); err != nil {
		return err
	}
	if len(bad) > 0 {
		return bad
	}
	return nil
}

func (s *lineSink) Close(context.Context) error { return s.file.Close() }

// flushSink keeps lines until Flush.
type flushSink struct {
	lineSink
	kept connector.Batch
}

func (s *flushSink) Write(_ context.Context, in *connector.Batch) error {
	for _, r := range in.Rows() {
		kept := *r
		kept.Value = connector.TextValue(r.Value.Text())
		s.kept.Append(kept)
	}
	return nil
}

func (s *flushSink) Flush(ctx context.Context) error {
	if err := s.lineSink.Write(ctx, &s.kept); err != nil {
		return err
	}
	s.kept.Reset()
	return nil
}

// newTestHost returns a host of the test plugins, with quick restarts.
func newTestHost(t testing.TB, change func(*Config)) *Host {
	t.Helper()
	cfg := Config{
		Bundled: testPlugins(),
		Log:     slog.New(slog.NewTextHandler(t.Output(), nil)),
		Backoff: Backoff{First: 5 * time.Millisecond, Longest: 20 * time.Millisecond, Attempts: 4},
	}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func openSource(t testing.TB, h *Host, cfg TaskConfig) *Source {
	t.Helper()
	fill(t, &cfg)
	s, err := h.OpenSource(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func openSink(t testing.TB, h *Host, cfg TaskConfig) *Sink {
	t.Helper()
	fill(t, &cfg)
	s, err := h.OpenSink(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func fill(t testing.TB, cfg *TaskConfig) {
	if cfg.Plugin == "" {
		cfg.Plugin = "counter"
	}
	if cfg.Connector == "" {
		cfg.Connector = t.Name()
	}
	if cfg.StateDir == "" {
		cfg.StateDir = t.TempDir()
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func texts(b *connector.Batch) []string {
	var all []string
	for _, r := range b.Rows() {
		all = append(all, r.Value.Text())
	}
	return all
}

// numbersUpTo returns "1" to n.
func numbersUpTo(n int) []string {
	var all []string
	for i := range n {
		all = append(all, strconv.Itoa(i+1))
	}
	return all
}

func requireTexts(t testing.TB, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("%d texts, want %d; they differ at index %d: %q, want %q", len(got), len(want), i, at(got, i), at(want, i))
			}
		}
	}
}

func at(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return "(none)"
}

func batchOf(texts ...string) *connector.Batch {
	b := new(connector.Batch)
	for i, text := range texts {
		b.Append(connector.Record{Topic: "t", Offset: int64(i), Value: connector.TextValue(text)})
	}
	return b
}

// logBuffer collects log lines, for a test to look into.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func pathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
