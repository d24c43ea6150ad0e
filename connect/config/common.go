// Package config knows the configurations of Connect: the settings that all
// connectors have in common, how a connector's configuration is checked
// against them and the plugin's own, and the pipeline file that declares
// topics and connectors together.
//
// A connector's configuration is Kafka Connect's: a flat map of texts, with
// its names and values wherever it has any.
package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace/sdk/connector"
)

// Names of the settings that the runtime itself reads.
const (
	Name           = "name"
	Class          = "connector.class"
	TasksMax       = "tasks.max"
	KeyConverter   = "key.converter"
	ValueConverter = "value.converter"
	Topic          = "topic"
	Topics         = "topics"
	Tolerance      = "errors.tolerance"
	DeadLetters    = "errors.deadletterqueue.topic.name"
	DeadReplicas   = "errors.deadletterqueue.topic.replication.factor"
	DeadHeaders    = "errors.deadletterqueue.context.headers.enable"
)

// Kind tells the two kinds of connectors apart.
type Kind string

const (
	Source Kind = "source"
	Sink   Kind = "sink"
)

// both lists what sources and sinks have in common.
func both(converters []string) []connector.Field {
	converter := func(what string) string {
		return "how " + what + " become bytes in topics: " + strings.Join(converters, ", ") + ", or the class name of Kafka's converter of that kind"
	}
	return []connector.Field{
		{Name: Name, Type: connector.String, Required: true, Doc: "the connector's name, unique among the workers of a cluster"},
		{Name: Class, Type: connector.String, Required: true, Doc: "which connector: the name of a plugin, with -source or -sink behind it"},
		{Name: TasksMax, Type: connector.Integer, Default: "1", Min: 1, Max: 1000, Doc: "the most tasks that the work is split into; each is a process"},
		{Name: KeyConverter, Type: connector.String, Default: "json", Doc: converter("keys")},
		{Name: ValueConverter, Type: connector.String, Default: "json", Doc: converter("values")},
		schemasField(KeyConverter), schemasField(ValueConverter),
		{Name: Tolerance, Type: connector.String, Default: "none", Valid: []string{"none", "all"},
			Doc: "what one bad record does: none fails the task, all goes on without it (and counts and logs it)"},
	}
}

// schemasField is the one setting that configurations of Kafka Connect give to
// converters as a rule.
func schemasField(converter string) connector.Field {
	return connector.Field{Name: converter + ".schemas.enable", Type: connector.Boolean, Default: "false",
		Doc: "whether JSON carries its schema; only false so far",
		Check: func(text string) error {
			if text == "true" {
				return errors.New("JSON with schemas is not supported yet: set it to false")
			}
			return nil
		}}
}

// Fields lists the common settings of connectors of a kind.
func Fields(kind Kind, converters []string) []connector.Field {
	fields := both(converters)
	if kind == Source {
		return append(fields,
			connector.Field{Name: Topic, Type: connector.String, Doc: "the topic for records for which the connector names none"})
	}
	return append(fields,
		connector.Field{Name: Topics, Type: connector.List, Required: true, Doc: "the topics to read, separated by commas"},
		connector.Field{Name: DeadLetters, Type: connector.String,
			Doc: "the topic that bad records go to when errors.tolerance is all; empty means none"},
		connector.Field{Name: DeadReplicas, Type: connector.Integer, Default: "-1", Min: -1, Max: 32767,
			Doc: "replicas of that topic if it has to be created; -1 takes the broker's default"},
		connector.Field{Name: DeadHeaders, Type: connector.Boolean, Default: "true",
			Doc: "whether headers of a dead letter say where it came from and what was wrong"})
}

// ParseClass takes a connector.class apart: "file-sink" is the sink of the
// plugin "file". has tells which kinds a plugin offers, none if there is no
// such plugin; a plugin that has but one kind may be named without it.
func ParseClass(class string, has func(plugin string) []Kind) (plugin string, kind Kind, err error) {
	for _, k := range []Kind{Source, Sink} {
		if p, ok := strings.CutSuffix(class, "-"+string(k)); ok && slices.Contains(has(p), k) {
			return p, k, nil
		}
	}
	switch kinds := has(class); len(kinds) {
	case 0:
		return "", "", connector.Problemf(Class, "there is no connector %q; `millrace plugin list` shows those that there are", class)
	case 1:
		return class, kinds[0], nil
	default:
		return "", "", connector.Problemf(Class, "plugin %q has a source and a sink: write %s-source or %s-sink", class, class, class)
	}
}

// Check checks a whole configuration against the common settings and the
// plugin's own, and returns the problems, nil if there are none.
func Check(settings map[string]string, kind Kind, own []connector.Field, converters []string) []connector.Problem {
	problems := connector.Check(append(Fields(kind, converters), own...), settings)
	for i, p := range problems {
		if p.Setting == "transforms" || strings.HasPrefix(p.Setting, "transforms.") {
			problems[i].Message = "single-message transforms are not supported yet"
		}
	}
	return problems
}

// Own returns the settings that are the plugin's, without the common ones.
func Own(settings map[string]string, kind Kind) map[string]string {
	own := maps.Clone(settings)
	for _, f := range Fields(kind, nil) {
		delete(own, f.Name)
	}
	return own
}

// Hidden stands in replies for the value of a secret setting.
const Hidden = "[hidden]"

// Redact returns the settings with the values of secrets hidden, and of those
// that are neither common settings nor the plugin's own: such a one may be a
// secret whose name is misspelled, or was another one in an earlier version.
func Redact(settings map[string]string, kind Kind, own []connector.Field) map[string]string {
	shown := make(map[string]string, len(settings))
	fields := append(Fields(kind, nil), own...)
	for name, value := range settings {
		i := slices.IndexFunc(fields, func(f connector.Field) bool {
			return name == f.Name || f.Type == connector.Map && strings.HasPrefix(name, f.Name+".")
		})
		if i < 0 || fields[i].Secret {
			value = Hidden
		}
		shown[name] = value
	}
	return shown
}

// Unredact puts the stored values of secrets back where a configuration that
// was read from a reply, edited and sent again still holds [Hidden].
func Unredact(settings, stored map[string]string) map[string]string {
	full := make(map[string]string, len(settings))
	for name, value := range settings {
		if old, ok := stored[name]; ok && value == Hidden {
			value = old
		}
		full[name] = value
	}
	return full
}

// CheckName says what is wrong with a connector's name, nil if nothing is.
func CheckName(name string) error {
	switch {
	case name == "":
		return connector.Problemf(Name, "it is missing")
	case len(name) > 200:
		return connector.Problemf(Name, "it has %d characters; 200 are allowed", len(name))
	case strings.ContainsAny(name, "/\\") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return connector.Problemf(Name, "%q holds a slash or a control character", name)
	case !utf8.ValidString(name):
		return connector.Problemf(Name, "%q is not UTF-8", name)
	case name == "." || name == "..":
		return connector.Problemf(Name, "%q is the name of a folder", name)
	case strings.TrimSpace(name) != name:
		return connector.Problemf(Name, "%q begins or ends with a space", name)
	}
	return nil
}
