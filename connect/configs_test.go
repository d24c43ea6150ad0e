package connect

import (
	"log/slog"
	"maps"
	"strings"
	"testing"
)

func newTestConfigs(t *testing.T) *configs {
	return newConfigs(slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// A compacted topic holds the newest record of each key, so the target state
// may well come before the configuration that was changed after it.
func TestTargetStateHoldsWhateverTheOrder(t *testing.T) {
	c := newTestConfigs(t)
	c.apply([]byte("target-state-in"), []byte(`{"state":"PAUSED"}`))
	c.apply([]byte("connector-in"), []byte(`{"properties":{"name":"in"}}`))
	if got, ok := c.get("in"); !ok || got.target != TargetPaused {
		t.Errorf("the connector is %+v, %v; want it paused", got, ok)
	}
	c.apply([]byte("connector-in"), nil)
	c.apply([]byte("target-state-in"), nil)
	c.apply([]byte("connector-in"), []byte(`{"properties":{"name":"in"}}`))
	if got, _ := c.get("in"); got.target != TargetRunning {
		t.Errorf("a new connector of the same name is %s", got.target)
	}
}

func TestGarbageInTheConfigurationTopicChangesNothing(t *testing.T) {
	c := newTestConfigs(t)
	c.apply([]byte("connector-in"), []byte(`{"properties":{"name":"in"}}`))
	c.apply([]byte("target-state-in"), []byte(`{"state":"PAUSED"}`))
	for _, garbage := range []string{"", "{", "7", "null", "[]", "{}", `{"properties":7}`, `{"properties":{"a":{}}}`, `{"state":"ASLEEP"}`, `{"state":7}`, "\xff"} {
		for _, key := range []string{"connector-in", "target-state-in", "", "connector-", "connector-..", "connector-a/b", "target-state-nobody", "commit-in", "task-in-0", "session-key"} {
			c.apply([]byte(key), []byte(garbage))
		}
	}
	got, ok := c.get("in")
	if !ok || got.target != TargetPaused || !maps.Equal(got.settings, map[string]string{"name": "in"}) {
		t.Errorf("the connector is %+v, %v", got, ok)
	}
	if names := c.names(); strings.Join(names, ",") != "in" {
		t.Errorf("there are connectors %q", names)
	}
}

func TestGarbageInTheOffsetsTopicChangesNothing(t *testing.T) {
	o := newOffsets()
	key := []byte(`["in",{"partition":"p"}]`)
	o.apply(key, []byte(`{"position":"5"}`))
	for _, garbage := range []string{"", "{", "7", "null", "[]", "{}", `{"position":7}`, `{"incrementing":7}`} {
		for _, key := range []string{string(key), "", "in", `["in"]`, `["in",{}]`, `["in",7]`, `[7,{"partition":"p"}]`, `["in",{"table":"t"}]`} {
			o.apply([]byte(key), []byte(garbage))
		}
	}
	o.apply([]byte(`["in",{"table":"t"}]`), []byte(`{"position":"9"}`))
	if got := o.byID["in"]; !maps.Equal(got, map[string]string{"p": "5"}) {
		t.Errorf("the positions are %v", got)
	}
}
