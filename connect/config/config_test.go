package config

import (
	"maps"
	"strings"
	"testing"

	"github.com/millrace/millrace/sdk/connector"
)

func TestPipelineTakesScalarsAsWritten(t *testing.T) {
	p, err := ParsePipeline("p.yaml", []byte(`
topics:
  access-log:
    partitions: 3
    settings:
      retention.ms: 604800000
      cleanup.policy: "compact,delete"
connectors:
  in:
    connector.class: file-source
    follow: false
    ratio: 1.50
    empty:
`))
	if err != nil {
		t.Fatal(err)
	}
	topic := p.Topics["access-log"]
	if topic.Partitions != 3 || topic.Settings["retention.ms"] != "604800000" || topic.Settings["cleanup.policy"] != "compact,delete" {
		t.Errorf("topic is %+v", topic)
	}
	want := map[string]string{"name": "in", "connector.class": "file-source", "follow": "false", "ratio": "1.50", "empty": ""}
	if got := p.Connectors["in"]; !maps.Equal(got, want) {
		t.Errorf("connector is %v, want %v", got, want)
	}
}

func TestPipelineErrorsSayWhere(t *testing.T) {
	cases := []struct{ name, text, at, says string }{
		{"unknown key", "topics:\n  a:\n    partition: 3\n", "p.yaml:3:5:", "partition"},
		{"wrong type", "topics:\n  a:\n    partitions: many\n", "p.yaml:3:17:", "int"},
		{"not YAML", "topics:\n  a: [1, 2\n", "p.yaml:2:", ""},
		{"nested setting", "connectors:\n  a:\n    x:\n      y: 1\n", "p.yaml:4:", "setting must be"},
		{"duplicate", "topics:\n  a: {}\n  a: {}\n", "p.yaml:3:3:", "already defined"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParsePipeline("p.yaml", []byte(c.text))
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.HasPrefix(err.Error(), c.at) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %q, want it to begin with %q and to say %q", err, c.at, c.says)
			}
		})
	}
}

func TestSettingsFile(t *testing.T) {
	got, err := ParseSettings("b.yaml", []byte("log.retention.bytes: 1000000000000\nauto.create.topics.enable: false\n"))
	if err != nil || got["log.retention.bytes"] != "1000000000000" || got["auto.create.topics.enable"] != "false" {
		t.Errorf("got %v, %v", got, err)
	}
	for text, at := range map[string]string{"a: [1]\n": "b.yaml:1:4:", "a: 1\n  b: 2\n": "b.yaml:", "- a\n": "b.yaml:1:1:"} {
		if _, err := ParseSettings("b.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), at) {
			t.Errorf("%q: error is %v, want one at %s", text, err, at)
		}
	}
}

func TestEmptyPipelineIsEmpty(t *testing.T) {
	p, err := ParsePipeline("p.yaml", []byte("# nothing yet\n"))
	if err != nil || len(p.Topics)+len(p.Connectors) != 0 {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestParseClass(t *testing.T) {
	has := func(plugin string) []Kind {
		return map[string][]Kind{"file": {Source, Sink}, "watch": {Source}, "a-sink": {Sink}}[plugin]
	}
	cases := []struct {
		class, plugin string
		kind          Kind
	}{
		{"file-source", "file", Source}, {"file-sink", "file", Sink}, {"watch", "watch", Source},
		{"watch-source", "watch", Source}, {"a-sink", "a-sink", Sink}, {"a-sink-sink", "a-sink", Sink},
		{"file", "", ""}, {"watch-sink", "", ""}, {"none", "", ""},
	}
	for _, c := range cases {
		plugin, kind, err := ParseClass(c.class, has)
		if plugin != c.plugin || kind != c.kind || (err == nil) != (c.plugin != "") {
			t.Errorf("%s is %q, %q, %v; want %q, %q", c.class, plugin, kind, err, c.plugin, c.kind)
		}
	}
}

func TestSecretsAreHiddenAndComeBack(t *testing.T) {
	own := []connector.Field{{Name: "password", Type: connector.String, Secret: true}, {Name: "options", Type: connector.Map, Secret: true}, {Name: "user", Type: connector.String}}
	stored := map[string]string{"user": "u", "password": "p", "options.token": "t", "topic": "in", "pasword": "misspelled"}
	shown := Redact(stored, Source, own)
	if shown["password"] != Hidden || shown["options.token"] != Hidden || shown["pasword"] != Hidden || shown["user"] != "u" || shown["topic"] != "in" {
		t.Errorf("shown as %v", shown)
	}
	shown["user"] = "other"
	if full := Unredact(shown, stored); full["password"] != "p" || full["options.token"] != "t" || full["user"] != "other" {
		t.Errorf("put back as %v", full)
	}
}

func TestOwnLeavesOutCommonSettings(t *testing.T) {
	got := Own(map[string]string{"name": "n", "topics": "t", "tasks.max": "1", "path": "p"}, Sink)
	if !maps.Equal(got, map[string]string{"path": "p"}) {
		t.Errorf("got %v", got)
	}
}
