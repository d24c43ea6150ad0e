package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/connect/config"
	"github.com/millrace/millrace/connect/convert"
	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/sdk/connector"
)

// class is what a connector.class stands for: the source or the sink of a
// plugin.
type class struct {
	host    *host.Host
	name    string // of the plugin
	version string
	kind    config.Kind
	// fields are the plugin's own settings.
	fields []connector.Field
}

// class looks up a connector.class. A class that is not there is a [connector.Problem].
func (w *Worker) class(ctx context.Context, name string) (class, error) {
	if name == "" {
		return class{}, connector.Problemf(config.Class, "it is missing: it says which connector to run")
	}
	var found host.Info
	var failure error
	plugin, kind, err := config.ParseClass(name, func(plugin string) []config.Kind {
		info, err := w.cfg.Host.Plugin(ctx, plugin)
		if err == nil {
			err = info.Err
		}
		if err != nil {
			if !errors.Is(err, host.ErrUnknownPlugin) {
				failure = fmt.Errorf("looking at plugin %s: %w", plugin, err)
			}
			return nil
		}
		found = info
		return kindsOf(info)
	})
	if err != nil {
		return class{}, errors.Join(failure, err)
	}
	c := class{host: w.cfg.Host, name: plugin, version: found.Version, kind: kind, fields: found.Spec.Source}
	if kind == config.Sink {
		c.fields = found.Spec.Sink
	}
	return c, nil
}

func kindsOf(info host.Info) []config.Kind {
	var kinds []config.Kind
	if info.HasSource {
		kinds = append(kinds, config.Source)
	}
	if info.HasSink {
		kinds = append(kinds, config.Sink)
	}
	return kinds
}

// checkConfig checks a connector's whole configuration against its spec,
// without starting anything.
func (w *Worker) checkConfig(ctx context.Context, settings map[string]string) (class, error) {
	c, err := w.class(ctx, settings[config.Class])
	if err != nil {
		return class{}, configError(settings[config.Name], err)
	}
	if problems := c.problems(settings); len(problems) > 0 {
		return class{}, &ConfigError{settings[config.Name], problems}
	}
	return c, nil
}

func (c class) hostKind() host.Kind {
	if c.kind == config.Sink {
		return host.KindSink
	}
	return host.KindSource
}

// problems checks against the spec, without starting anything.
func (c class) problems(settings map[string]string) []connector.Problem {
	problems := config.Check(settings, c.kind, c.fields, convert.Names)
	for _, setting := range []string{config.KeyConverter, config.ValueConverter} {
		if name := settings[setting]; name != "" {
			if _, err := convert.Lookup(name); err != nil {
				problems = append(problems, connector.Problem{Setting: setting, Message: err.Error()})
			}
		}
	}
	for _, f := range c.fields {
		if f.Secret && settings[f.Name] == config.Hidden {
			problems = append(problems, connector.Problem{Setting: f.Name, Message: "it is hidden, and there is no earlier value: give the secret itself"})
		}
	}
	topics := splitTopics(settings[config.Topics])
	if dead := settings[config.DeadLetters]; dead != "" && slices.Contains(topics, dead) {
		problems = append(problems, connector.Problem{Setting: config.DeadLetters, Message: "it is one of the topics to read, so dead letters would come again and again"})
	}
	if c.kind == config.Sink && len(topics) == 0 && settings[config.Topics] != "" {
		problems = append(problems, connector.Problem{Setting: config.Topics, Message: "it names no topic"})
	}
	if settings[config.DeadLetters] != "" && settings[config.Tolerance] != "all" {
		problems = append(problems, connector.Problem{Setting: config.DeadLetters,
			Message: "it is used only with errors.tolerance=all, as otherwise a bad record fails the task"})
	}
	return problems
}

// validate has the plugin's own code check what only it can tell.
func (c class) validate(ctx context.Context, own map[string]string) error {
	problems, err := c.host.Validate(ctx, c.name, c.hostKind(), own)
	if err != nil {
		return fmt.Errorf("having plugin %s check the configuration: %w", c.name, err)
	}
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

func (c class) split(ctx context.Context, own map[string]string, most int) ([]map[string]string, error) {
	return c.host.Split(ctx, c.name, c.hostKind(), own, most)
}

// configError makes a [ConfigError] of the problems in err, if it has any, and
// returns it as it is otherwise.
func configError(name string, err error) error {
	if problems := connector.Problems(err); len(problems) > 0 {
		return &ConfigError{name, problems}
	}
	return err
}

// Plugins lists the connector classes that can be run, in order.
func (w *Worker) Plugins(ctx context.Context) ([]Plugin, error) {
	plugins := []Plugin{}
	for _, info := range w.cfg.Host.Plugins(ctx) {
		if info.Err != nil {
			w.cfg.Log.Warn("a plugin cannot be used", "plugin", info.Name, "path", info.Path, "err", info.Err)
			continue
		}
		for _, kind := range kindsOf(info) {
			plugins = append(plugins, Plugin{Class: info.Name + "-" + string(kind), Type: string(kind), Version: info.Version, Doc: info.Spec.Doc})
		}
	}
	return plugins, ctx.Err()
}

// kafkaTypes are the types of settings as Kafka Connect names them.
var kafkaTypes = map[connector.FieldType]string{
	connector.String: "STRING", connector.Integer: "LONG", connector.Number: "DOUBLE", connector.Boolean: "BOOLEAN",
	connector.Duration: "STRING", connector.Size: "STRING", connector.List: "LIST", connector.Map: "STRING",
}

// validation puts the outcome of a check into the shape of Kafka Connect.
func validation(className string, c class, settings map[string]string, problems []connector.Problem) Validation {
	v := Validation{Name: className, ErrorCount: len(problems), Groups: []string{"Common", "Connector"}}
	shown := config.Redact(settings, c.kind, c.fields)
	common := config.Fields(c.kind, convert.Names)
	known := map[string]bool{}
	for i, f := range slices.Concat(common, c.fields) {
		known[f.Name] = true
		group := "Common"
		if i >= len(common) {
			group = "Connector"
		}
		v.Configs = append(v.Configs, ValidationSetting{definition(f, group, i+1), value(f.Name, shown, f.Valid, problems)})
	}
	for _, p := range problems { // of settings that nobody knows
		if !known[p.Setting] {
			known[p.Setting] = true
			unknown := connector.Field{Name: p.Setting, Type: connector.String}
			v.Configs = append(v.Configs, ValidationSetting{definition(unknown, "Connector", len(v.Configs)+1), value(p.Setting, shown, nil, problems)})
		}
	}
	return v
}

func definition(f connector.Field, group string, order int) SettingDefinition {
	d := SettingDefinition{Name: f.Name, Type: kafkaTypes[f.Type], Required: f.Required, Importance: "MEDIUM", Documentation: f.Doc,
		Group: group, DisplayName: f.Name, Width: "MEDIUM", Dependents: []string{}, Order: order}
	if f.Secret {
		d.Type = SecretType
	}
	if f.Required {
		d.Importance = "HIGH"
	} else {
		d.Default = &f.Default
	}
	return d
}

func value(name string, shown map[string]string, valid []string, problems []connector.Problem) SettingValue {
	v := SettingValue{Name: name, Recommended: append([]string{}, valid...), Errors: []string{}, Visible: true}
	if text, ok := shown[name]; ok {
		v.Value = &text
	}
	for _, p := range problems {
		if p.Setting == name {
			v.Errors = append(v.Errors, p.Message)
		}
	}
	return v
}
