package connectortest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/sdk/connector"
)

const (
	connectorName = "under-test"
	// patience bounds whatever should happen soon.
	patience = 20 * time.Second
	// promptly bounds what cancellation must bring about.
	promptly = 3 * time.Second
	// settle is how long a call that should wait is left alone, so that it is
	// waiting.
	settle = 200 * time.Millisecond
)

// WrongSettings is a configuration that the connector must refuse with a
// [connector.Problem] that names the setting to blame: by its spec, or by
// Validate if it has that, or else by Open. No problem, and no log line, may
// quote a secret.
type WrongSettings struct {
	// Setting is the one to blame.
	Setting string
	// Settings are laid over those that Setup returns. An empty text takes a
	// setting away.
	Settings map[string]string
}

// over returns the settings laid over base.
func (w WrongSettings) over(base map[string]string) map[string]string {
	all := maps.Clone(base)
	if all == nil {
		all = make(map[string]string)
	}
	for name, text := range w.Settings {
		if text == "" {
			delete(all, name)
		} else {
			all[name] = text
		}
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
	requireMain(t, p)
	var text strings.Builder
	if err := connector.WriteManifest(&text, p); err != nil {
		t.Fatal(err)
	}
	if _, err := connector.ReadManifest([]byte(text.String())); err != nil {
		t.Errorf("the manifest does not read back: %v", err)
	}
}

// tested is a connector as the tests of settings see it, whichever kind it is.
type tested struct {
	plugin connector.Plugin
	kind   host.Kind
	fields []connector.Field
	made   func() any                                  // a source or sink
	setup  func(t *testing.T) map[string]string        // settings that are right
	open   func(any, *testing.T, connector.Task) error // and closes it again
}

// testSettings checks that right settings pass and wrong ones are refused,
// with the setting to blame.
func testSettings(t *testing.T, c tested, wrong []WrongSettings) {
	t.Run("accepts right settings", func(t *testing.T) {
		settings := c.setup(t)
		l := newLogs(t)
		problems, err := newHost(t, c.plugin, l.logger()).Validate(withPatience(t), c.plugin.Name, c.kind, settings)
		if err != nil {
			t.Fatalf("validating the settings that Setup made: %v", err)
		}
		for _, problem := range problems {
			t.Errorf("the settings that Setup made are refused: %v", problem)
		}
		requireNoSecrets(t, c.fields, settings, "the log", l.String())
	})
	for _, w := range wrong {
		t.Run(fmt.Sprintf("refuses %s=%s", w.Setting, w.Settings[w.Setting]), func(t *testing.T) {
			settings := w.over(c.setup(t))
			text, named := "", false
			for _, problem := range c.problems(t, settings) {
				text += problem.Error() + "\n"
				named = named || problem.Setting == w.Setting
			}
			if !named {
				t.Errorf("settings with a wrong %q should be refused with a Problem that names it; the problems are:\n%s", w.Setting, text)
			}
			requireNoSecrets(t, c.fields, settings, "the problems", text)
		})
	}
}

// problems returns what the spec, Validate or Open says, whichever is the first
// to find anything.
func (c tested) problems(t *testing.T, settings map[string]string) []connector.Problem {
	t.Helper()
	if problems := connector.Check(c.fields, settings); len(problems) > 0 {
		return problems
	}
	l := newLogs(t)
	task := newTask(t, c.fields, settings, l)
	defer func() { requireNoSecrets(t, c.fields, settings, "the log", l.String()) }()
	if v, ok := c.made().(connector.Validator); ok {
		if err := v.Validate(withPatience(t), task.Settings); err != nil {
			return problemsOf(t, "Validate", err)
		}
	}
	err := c.open(c.made(), t, task)
	if err == nil {
		t.Error("the settings were accepted")
		return nil
	}
	return problemsOf(t, "Open", err)
}

func problemsOf(t *testing.T, from string, err error) []connector.Problem {
	t.Helper()
	problems := connector.Problems(err)
	if len(problems) == 0 {
		t.Errorf("%s returned an error that is no Problem: %v", from, err)
	}
	return problems
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
