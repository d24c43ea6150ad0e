package connect

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/connect/config"
	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/sdk/connector"
)

// bench is a broker with a worker on it, and a folder for files.
type bench struct {
	*testing.T
	cluster *brokertest.Cluster
	dir     string
	worker  *Worker
	stop    func()
	// commitInterval of the next worker to be started.
	commitInterval time.Duration
	// configTopic and offsetTopic of that worker; empty means the default.
	configTopic, offsetTopic string
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, cluster: brokertest.Start(t), dir: t.TempDir(), commitInterval: 50 * time.Millisecond}
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

func (b *bench) start() {
	b.Helper()
	w, err := b.newWorker()
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	b.worker = w
	b.stop = func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("the worker ended with %v", err)
		}
		b.stop = func() {}
	}
}

func (b *bench) newWorker() (*Worker, error) {
	b.Helper()
	log := slog.New(slog.NewTextHandler(b.Output(), nil))
	h, err := host.New(host.Config{Bundled: testPlugins(), Log: log, StopTimeout: time.Second, Backoff: host.Backoff{First: 10 * time.Millisecond}})
	if err != nil {
		b.Fatal(err)
	}
	return New(b.Context(), Config{Client: b.cluster.ClientOptions(), Host: h, ID: "here:1", StateDir: b.dir, CommitInterval: b.commitInterval, ConfigTopic: b.configTopic, OffsetTopic: b.offsetTopic, Log: log})
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) create(name string, settings map[string]string) {
	b.Helper()
	if _, err := b.worker.Create(b.Context(), name, settings, TargetRunning); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) source(name string, count int) {
	b.Helper()
	b.create(name, map[string]string{"connector.class": "numbers", "topic": "numbers", "count": strconv.Itoa(count),
		"key.converter": "string", "value.converter": "string", "pid.file": b.path(name + ".pid")})
}

func (b *bench) sink(name, topics string, more ...string) {
	b.Helper()
	settings := map[string]string{"connector.class": "lines-sink", "topics": topics, "path": b.path(name),
		"key.converter": "string", "value.converter": "string", "pid.file": b.path(name + ".pid")}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	b.create(name, settings)
}

// await polls until a condition holds, and says what it waited for otherwise.
func (b *bench) await(what string, holds func() bool) {
	b.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(end) {
			b.Fatalf("did not happen within 30 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (b *bench) awaitTask(name string, state State) TaskStatus {
	b.Helper()
	var last TaskStatus
	b.await(name+" is "+string(state), func() bool {
		status, err := b.worker.Status(b.Context(), name)
		if err != nil || len(status.Tasks) == 0 {
			return false
		}
		last = status.Tasks[0]
		return last.State == state
	})
	return last
}

// kill ends a plugin's process with SIGKILL and waits until another one runs.
func (b *bench) kill(name string) {
	b.Helper()
	read := func() int {
		text, _ := os.ReadFile(b.path(name + ".pid"))
		pid, _ := strconv.Atoi(string(text))
		return pid
	}
	b.await("the process of "+name, func() bool { return read() > 0 })
	old := read()
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		b.Fatal(err)
	}
	b.await("a new process of "+name, func() bool { return read() != old })
}

// values reads a topic from its start until it has n records.
func (b *bench) values(topic string, n int) []string {
	b.Helper()
	return texts(b.records(topic, n))
}

func texts(records []*kgo.Record) []string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	return out
}

func (b *bench) records(topic string, n int) []*kgo.Record {
	b.Helper()
	client, err := kgo.NewClient(append(b.cluster.ClientOptions(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	var out []*kgo.Record
	for len(out) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			b.Fatalf("topic %s has %d records, want %d", topic, len(out), n)
		}
		out = append(out, fetches.Records()...)
	}
	return out
}

func (b *bench) end(topic string) int {
	b.Helper()
	client, err := kgo.NewClient(b.cluster.ClientOptions()...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(b.Context(), topic)
	if err != nil {
		b.Fatal(err)
	}
	var total int64
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	return int(total)
}

func (b *bench) lines(name string) []string {
	text, _ := os.ReadFile(b.path(name))
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func counted(n int) []string {
	var out []string
	for i := range n {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

func TestRecordsFlowFromSourceToSink(t *testing.T) {
	b := newBench(t)
	b.sink("out", "numbers")
	b.source("in", 1000)
	status := b.awaitTask("in", Completed)
	if status.Records != 1000 || status.Progress == nil || status.Progress.Done != 1000 || status.Progress.Total != 1000 {
		t.Errorf("the source reports %+v, %+v", status, status.Progress)
	}
	if got := b.values("numbers", 1000); !slices.Equal(got, counted(1000)) {
		t.Errorf("the topic has %d records, not the numbers in order", len(got))
	}
	b.await("all lines", func() bool { return len(b.lines("out")) >= 1000 })
	if got := b.lines("out"); !slices.Equal(got, counted(1000)) {
		t.Errorf("the file has %d lines, not the numbers in order", len(got))
	}
}

func TestKilledPluginsLoseAndDuplicateNothing(t *testing.T) {
	b := newBench(t)
	b.sink("out", "numbers")
	b.source("in", 5000)
	for range 3 {
		b.kill("in")
		b.kill("out")
	}
	b.awaitTask("in", Completed)
	if got := b.values("numbers", 5000); !slices.Equal(got, counted(5000)) || b.end("numbers") != 5000 {
		t.Errorf("the topic has %d records, not the numbers once and in order", b.end("numbers"))
	}
	b.await("the last line", func() bool { return slices.Contains(b.lines("out"), "4999") })
	// A batch whose sink died while it was writing is written again.
	if got := slices.Compact(slices.Sorted(slices.Values(b.lines("out")))); len(got) != 5000 {
		t.Errorf("the file has %d different lines, want 5000", len(got))
	}
}

func TestWorkerResumesWhereItStopped(t *testing.T) {
	b := newBench(t)
	b.source("in", 3000)
	b.sink("out", "numbers")
	b.await("some records", func() bool { return b.end("numbers") > 300 })
	b.stop()
	b.start()
	b.awaitTask("in", Completed)
	if n := b.end("numbers"); n != 3000 {
		t.Errorf("after a clean stop and start the topic has %d records, want 3000", n)
	}
	b.await("all lines", func() bool { return len(b.lines("out")) >= 3000 })
	if got := b.lines("out"); !slices.Equal(got, counted(3000)) {
		t.Errorf("after a clean stop and start the file has %d lines, not the numbers in order", len(got))
	}
}

func TestPauseHoldsAndResumeGoesOn(t *testing.T) {
	b := newBench(t)
	b.source("in", 0)
	b.await("some records", func() bool { return b.end("numbers") > 100 })
	if err := b.worker.SetTarget(t.Context(), "in", TargetPaused); err != nil {
		t.Fatal(err)
	}
	b.awaitTask("in", Paused)
	var at int
	b.await("a standstill", func() bool { was := at; at = b.end("numbers"); return at == was })
	if err := b.worker.SetTarget(t.Context(), "in", TargetRunning); err != nil {
		t.Fatal(err)
	}
	b.await("more records", func() bool { return b.end("numbers") > at })
}

func TestStopEndsProcessesAndKeepsTheConnector(t *testing.T) {
	b := newBench(t)
	b.source("in", 0)
	b.awaitTask("in", Running)
	if err := b.worker.SetTarget(t.Context(), "in", TargetStopped); err != nil {
		t.Fatal(err)
	}
	b.await("the stop", func() bool {
		s, err := b.worker.Status(t.Context(), "in")
		return err == nil && s.Connector.State == Stopped && len(s.Tasks) == 0
	})
	if err := b.worker.SetTarget(t.Context(), "in", TargetRunning); err != nil {
		t.Fatal(err)
	}
	b.awaitTask("in", Running)
}

func TestDeletedConnectorIsGone(t *testing.T) {
	b := newBench(t)
	b.source("in", 0)
	b.awaitTask("in", Running)
	if err := b.worker.Delete(t.Context(), "in"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.worker.Status(t.Context(), "in"); !errors.Is(err, ErrNotFound) {
		t.Errorf("status after delete: %v", err)
	}
	b.await("the end of its tasks", func() bool { return len(b.worker.tasks("in")) == 0 })
	if err := b.worker.Delete(t.Context(), "in"); !errors.Is(err, ErrNotFound) {
		t.Errorf("second delete: %v", err)
	}
}

func TestChangedConfigurationStartsAnew(t *testing.T) {
	b := newBench(t)
	b.source("in", 100)
	b.awaitTask("in", Completed)
	c, _ := b.worker.configs.get("in")
	c.settings["count"] = "200"
	if _, created, err := b.worker.Put(t.Context(), "in", c.settings); err != nil || created {
		t.Fatalf("put: created %v, %v", created, err)
	}
	b.await("the rest", func() bool { return b.end("numbers") == 200 })
	if got := b.values("numbers", 200); !slices.Equal(got, counted(200)) {
		t.Error("the topic has not the numbers once and in order")
	}
}

func TestBadRecordOfASinkGoesToTheDeadLetters(t *testing.T) {
	b := newBench(t)
	b.sink("out", "numbers", "refuse", "42", "errors.tolerance", "all", "errors.deadletterqueue.topic.name", "dead")
	b.source("in", 100)
	b.await("the other lines", func() bool { return len(b.lines("out")) >= 99 })
	if got := b.lines("out"); slices.Contains(got, "42") || len(got) != 99 {
		t.Errorf("%d lines, 42 among them: %v", len(got), slices.Contains(got, "42"))
	}
	letter := b.records("dead", 1)[0]
	headers := map[string]string{}
	for _, h := range letter.Headers {
		headers[h.Key] = string(h.Value)
	}
	if string(letter.Value) != "42" || headers["__connect.errors.topic"] != "numbers" || headers["__connect.errors.stage"] != "TASK_PUT" ||
		!strings.Contains(headers["__connect.errors.exception.message"], "do not like") {
		t.Errorf("the dead letter is %q with %v", letter.Value, headers)
	}
}

func TestBadRecordFailsTheTaskUnlessTolerated(t *testing.T) {
	b := newBench(t)
	b.create("in", map[string]string{"connector.class": "numbers", "topic": "numbers", "count": "100", "bad.every": "10"})
	if s := b.awaitTask("in", Failed); !strings.Contains(s.Trace, "not UTF-8") || !strings.Contains(s.Trace, "errors.tolerance") {
		t.Errorf("the trace is %q", s.Trace)
	}
	b.create("tolerant", map[string]string{"connector.class": "numbers", "topic": "good", "count": "100", "bad.every": "10", "errors.tolerance": "all"})
	if s := b.awaitTask("tolerant", Completed); s.Records != 90 || s.Skipped != 10 {
		t.Errorf("the status counts %d records and %d skipped, want 90 and 10", s.Records, s.Skipped)
	}
	if n := b.end("good"); n != 90 {
		t.Errorf("the topic has %d records, want the 90 good ones", n)
	}
}

func TestRestartedTaskRunsAgain(t *testing.T) {
	b := newBench(t)
	b.source("in", 10)
	b.awaitTask("in", Completed)
	if err := b.worker.RestartTask(t.Context(), "in", 0); err != nil {
		t.Fatal(err)
	}
	b.awaitTask("in", Completed)
	if err := b.worker.RestartTask(t.Context(), "in", 7); !errors.Is(err, ErrNotFound) {
		t.Errorf("restart of task 7: %v", err)
	}
	if n := b.end("numbers"); n != 10 {
		t.Errorf("the topic has %d records, want 10: a restart resumes", n)
	}
}

func TestConfigurationIsCheckedBeforeAnythingStarts(t *testing.T) {
	b := newBench(t)
	cases := map[string]struct {
		settings map[string]string
		setting  string
	}{
		"no class":          {map[string]string{}, "connector.class"},
		"unknown class":     {map[string]string{"connector.class": "nubmers"}, "connector.class"},
		"unknown setting":   {map[string]string{"connector.class": "numbers", "cuont": "1"}, "cuont"},
		"missing":           {map[string]string{"connector.class": "lines", "topics": "t"}, "path"},
		"wrong type":        {map[string]string{"connector.class": "numbers", "count": "many"}, "count"},
		"unknown converter": {map[string]string{"connector.class": "numbers", "value.converter": "avro"}, "value.converter"},
		"by the plugin":     {map[string]string{"connector.class": "lines", "topics": "t", "path": "/no/such/folder/x"}, "path"},
		"dead letters":      {map[string]string{"connector.class": "lines", "topics": "t", "path": "x", "errors.deadletterqueue.topic.name": "d"}, "errors.deadletterqueue.topic.name"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := b.worker.Create(t.Context(), "c", c.settings, TargetRunning)
			var invalid *ConfigError
			if !errors.As(err, &invalid) {
				t.Fatalf("error is %v, want a ConfigError", err)
			}
			if !slices.ContainsFunc(invalid.Problems, func(p connector.Problem) bool { return p.Setting == c.setting }) {
				t.Errorf("problems are %v, want one of %s", invalid.Problems, c.setting)
			}
		})
	}
	if names := b.worker.Names(); len(names) != 0 {
		t.Errorf("there are connectors: %v", names)
	}
}

func TestSecretsAreInNoReply(t *testing.T) {
	b := newBench(t)
	b.create("in", map[string]string{"connector.class": "numbers", "topic": "numbers", "count": "1", "password": "hunter2"})
	info, err := b.worker.Info(t.Context(), "in")
	if err != nil || info.Config["password"] != config.Hidden {
		t.Errorf("info shows %v, %v", info.Config, err)
	}
	if _, _, err := b.worker.Put(t.Context(), "in", info.Config); err != nil {
		t.Fatal(err)
	}
	if c, _ := b.worker.configs.get("in"); c.settings["password"] != "hunter2" {
		t.Errorf("the secret became %q when its hidden form was sent back", c.settings["password"])
	}
	v, err := b.worker.Validate(t.Context(), "numbers", map[string]string{"password": "hunter2", "count": "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range v.Configs {
		if s.Definition.Name == "password" && (s.Definition.Type != SecretType || s.Value.Value == nil || *s.Value.Value != config.Hidden) {
			t.Errorf("validation shows %+v", s)
		}
	}
}
