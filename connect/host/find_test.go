package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// thirdParty puts the test binary into a folder under a plugin's name.
func thirdParty(t testing.TB, dir, name string) {
	t.Helper()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, executablePrefix+name))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestThirdPartyPluginsAreFoundAndRun(t *testing.T) {
	dir := t.TempDir()
	thirdParty(t, dir, "counter")
	thirdParty(t, dir, "nobody")
	h := newTestHost(t, func(c *Config) {
		c.Bundled = nil
		c.Dirs = []string{filepath.Join(dir, "missing"), dir}
	})
	plugins := h.Plugins(context.Background())
	if len(plugins) != 2 || plugins[0].Name != "counter" || plugins[1].Name != "nobody" {
		t.Fatalf("found %+v", plugins)
	}
	if p := plugins[0]; p.Err != nil || p.Version != "1.0.0" || !p.HasSource || len(p.Spec.Sink) != 2 {
		t.Errorf("the good one is %+v", p)
	}
	if p := plugins[1]; p.Err == nil || !strings.Contains(p.Err.Error(), `no test plugin "nobody"`) {
		t.Errorf("the bad one's error is %v", p.Err)
	}
	s := openSource(t, h, TaskConfig{Settings: map[string]string{"count": "3"}})
	requireTexts(t, readAll(t, s, nil), numbersUpTo(3))
}

func TestUnknownPluginIsSaidWithThoseThatThereAre(t *testing.T) {
	h := newTestHost(t, func(c *Config) { c.Bundled = testPlugins()[:2] })
	_, err := h.OpenSource(TaskConfig{Plugin: "conter"})
	if !errors.Is(err, ErrUnknownPlugin) || !strings.Contains(err.Error(), "counter, flushing") {
		t.Errorf("error is %v", err)
	}
	_, err = h.OpenSource(TaskConfig{Plugin: "flushing"})
	if err == nil || !strings.Contains(err.Error(), `plugin "flushing" has no source`) {
		t.Errorf("error is %v", err)
	}
}

func TestWrongSettingsAreRefusedBeforeAnythingStarts(t *testing.T) {
	h := newTestHost(t, func(c *Config) {
		c.BundledCommand = func(string) []string { panic("started") }
	})
	_, err := h.OpenSource(TaskConfig{Plugin: "counter", Settings: map[string]string{"cuont": "1", "batch": "many"}})
	if err == nil || !strings.Contains(err.Error(), `cuont: unknown setting; did you mean "count"?`) || !strings.Contains(err.Error(), "batch:") {
		t.Errorf("error is %v", err)
	}
}

func TestValidateAndSplitAskThePlugin(t *testing.T) {
	h := newTestHost(t, nil)
	ctx := context.Background()
	problems, err := h.Validate(ctx, "counter", KindSink, map[string]string{})
	if err != nil || len(problems) != 1 || problems[0].Setting != "path" {
		t.Errorf("without the required setting: %v, %v", problems, err)
	}
	problems, err = h.Validate(ctx, "counter", KindSink, map[string]string{"path": "x"})
	if err != nil || len(problems) != 0 {
		t.Errorf("with it: %v, %v", problems, err)
	}
	tasks, err := h.Split(ctx, "counter", KindSource, map[string]string{"count": "5"}, 4)
	if err != nil || len(tasks) != 1 || tasks[0]["count"] != "5" {
		t.Errorf("a source that does not split: %v, %v", tasks, err)
	}
	tasks, err = h.Split(ctx, "counter", KindSink, map[string]string{"path": "x"}, 4)
	if err != nil || len(tasks) != 4 || tasks[3]["path"] != "x" {
		t.Errorf("a sink that does not split: %v, %v", tasks, err)
	}
}

func TestPluginThatDoesNotPrintItsSpecSaysWhatItPrinted(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		"chatty":              `it printed "hello from an author who debugs" to standard output before it called connector.Serve`,
		"chatty-on-the-line":  `it printed "loading..." to standard output before`,
		"chatty-afterwards":   `it printed "goodbye" to standard output after connector.Serve had returned`,
		"no-serve":            "it printed nothing: main has to call connector.Serve",
		"no-serve-but-output": `it printed "usage: ..." where its manifest was expected`,
		"never-serves":        "had not printed its spec and ended in time",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			thirdParty(t, dir, name)
			h := newTestHost(t, func(c *Config) { c.Bundled, c.Dirs = nil, []string{dir} })
			ctx := t.Context()
			if name == "never-serves" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
			}
			if _, err := h.Plugin(ctx, name); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestPluginRunByHandExplainsItself(t *testing.T) {
	dir := t.TempDir()
	thirdParty(t, dir, "counter")
	path := filepath.Join(dir, executablePrefix+"counter")
	const want = "connector.class=counter-source or counter-sink"
	if out, err := exec.Command(path, "--help").Output(); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("--help ended with %v, want %q in:\n%s", err, want, out)
	}
	if out, err := exec.Command(path).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("without arguments it ended with %v, want %q in:\n%s", err, want, out)
	}
}

// The functions of a third-party plugin's fields are in its process only.
func TestValidateReportsAllWrongSettingsAtOnce(t *testing.T) {
	dir := t.TempDir()
	thirdParty(t, dir, "counter")
	settings := map[string]string{"count": "many", "mode": "forbidden"}
	for name, change := range map[string]func(*Config){
		"bundled":     func(*Config) {},
		"third party": func(c *Config) { c.Bundled, c.Dirs = nil, []string{dir} },
	} {
		problems, err := newTestHost(t, change).Validate(t.Context(), "counter", KindSource, settings)
		if err != nil || len(problems) != 2 || problems[0].Setting != "count" || problems[1].Setting != "mode" {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
	}
}

func TestValidateThatDoesNotAnswer(t *testing.T) {
	h := newTestHost(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if problems, err := h.Validate(ctx, "odd", KindSource, nil); !errors.Is(err, context.DeadlineExceeded) || problems != nil {
		t.Errorf("when time is up: %v, %v", problems, err)
	}
	problems, err := h.Validate(t.Context(), "odd", KindSource, map[string]string{"mode": "validate-retries"})
	if err != nil || len(problems) != 1 || problems[0] != (connector.Problem{Message: "the server is away"}) {
		t.Errorf("asked to come again: %v, %v", problems, err)
	}
}

func TestSplitIsHeldToTheSpec(t *testing.T) {
	_, err := newTestHost(t, nil).Split(t.Context(), "odd", KindSource, map[string]string{"count": "5"}, 4)
	if want := `its Split gave task 1 settings that its spec does not allow: cuont: unknown setting`; err == nil || !strings.Contains(err.Error(), want) || connector.Problems(err) != nil {
		t.Errorf("got %v, want %q and no Problem", err, want)
	}
}

func TestTaskNeedsANameAndAFolder(t *testing.T) {
	h := newTestHost(t, nil)
	for want, cfg := range map[string]TaskConfig{
		"has no name":                 {Plugin: "counter", StateDir: t.TempDir()},
		"looking at the task's state": {Plugin: "counter", Connector: "c", StateDir: filepath.Join(t.TempDir(), "missing")},
	} {
		if s, err := h.OpenSource(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("opened %v, %v; want %q", s, err, want)
		}
	}
}
