package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
