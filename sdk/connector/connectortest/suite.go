package connectortest

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/sdk/connector"
)

// Main is for TestMain: it runs the tests, or serves the plugin when the suite
// has started the test's executable as the plugin's process.
func Main(m *testing.M, p connector.Plugin) {
	if len(os.Args) == 3 && os.Args[1] == serveArgument && os.Args[2] == p.Name {
		connector.Serve(p)
		return
	}
	os.Exit(m.Run())
}

const (
	serveArgument = "serve-plugin-under-test"
	connectorName = "under-test"
	// patience bounds whatever should happen soon.
	patience = 20 * time.Second
	// promptly bounds what cancellation must bring about.
	promptly = 3 * time.Second
)

// bad is a set of settings that must be refused.
type bad struct {
	name     string // of the setting to blame
	settings map[string]string
}

func badOf(m map[string]map[string]string) []bad {
	var all []bad
	for name, settings := range m {
		all = append(all, bad{name, settings})
	}
	return all
}

// logs collects what a connector logs, to look for secrets in it.
type logs struct {
	t    *testing.T
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func newLogs(t *testing.T) *logs {
	l := &logs{t: t}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the connector logged:\n%s", l.String())
		}
	})
	return l
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// requireNoSecrets fails if the value of a secret setting is in the text.
func requireNoSecrets(t *testing.T, fields []connector.Field, settings map[string]string, where, text string) {
	t.Helper()
	for _, f := range fields {
		if value := settings[f.Name]; f.Secret && value != "" && strings.Contains(text, value) {
			t.Errorf("the secret setting %q is in %s:\n%s", f.Name, where, text)
		}
	}
}

// newHost returns a host that runs the test's executable as the plugin.
func newHost(t *testing.T, p connector.Plugin, log *slog.Logger) *host.Host {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{
		Bundled:        []connector.Plugin{p},
		BundledCommand: func(name string) []string { return []string{self, serveArgument, name} },
		Log:            log,
		Backoff:        host.Backoff{First: 5 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// newTask returns what a source or sink in this process is opened with.
func newTask(t *testing.T, fields []connector.Field, settings map[string]string, l *logs) connector.Task {
	t.Helper()
	checked, err := connector.NewSettings(fields, settings)
	if err != nil {
		t.Fatalf("the settings of the test do not pass the plugin's spec: %v", err)
	}
	return connector.Task{Connector: connectorName, Settings: checked, StateDir: t.TempDir(), Log: l.logger()}
}

// testPlugin checks what can be checked without opening anything.
func testPlugin(t *testing.T, p connector.Plugin) {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Fatalf("the plugin is not well formed: %v", err)
	}
	var text strings.Builder
	if err := connector.WriteManifest(&text, p); err != nil {
		t.Fatal(err)
	}
	if _, err := connector.ReadManifest([]byte(text.String())); err != nil {
		t.Errorf("the manifest does not read back: %v", err)
	}
}

// testBad checks that wrong settings are refused, with the setting to blame.
func testBad(t *testing.T, p connector.Plugin, kind host.Kind, cases []bad, open func(t *testing.T, settings map[string]string) error) {
	fields := p.Spec.Source
	if kind == host.KindSink {
		fields = p.Spec.Sink
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			problems := connector.Check(fields, c.settings)
			if len(problems) == 0 {
				problems = openProblems(t, c, open)
			}
			text := ""
			named := false
			for _, problem := range problems {
				text += problem.Error() + "\n"
				named = named || problem.Setting == c.name
			}
			if !named {
				t.Errorf("wrong settings should be refused with a Problem that names %q; got:\n%s", c.name, text)
			}
			requireNoSecrets(t, fields, c.settings, "the problems", text)
		})
	}
}

// openProblems returns the problems that opening finds.
func openProblems(t *testing.T, c bad, open func(t *testing.T, settings map[string]string) error) []connector.Problem {
	t.Helper()
	err := open(t, c.settings)
	if err == nil {
		t.Errorf("settings with a wrong %q were accepted", c.name)
	}
	return connector.Problems(err)
}

// within fails the test if f takes too long. It does not end f.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s takes more than %v", what, limit)
	}
}

func withPatience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if pid == 0 {
		return // it is between two processes
	}
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // it may have ended by itself
	}
}
