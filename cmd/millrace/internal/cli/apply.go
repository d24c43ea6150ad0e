package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millrace/millrace/connect"
	"github.com/millrace/millrace/connect/config"
)

func newApply(s *session) *cobra.Command {
	conn, rest := &connection{}, &restClient{}
	var file string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make topics and connectors be as a pipeline file says",
		Long: `Make topics and connectors be as a pipeline file says. The differences are
printed first; what is as it should be is left alone, so applying the same file
again changes nothing. What the file does not name is not touched.

A pipeline file:

  topics:
    access-log:
      partitions: 3
      settings:
        retention.ms: 604800000
  connectors:
    access-log-in:
      connector.class: file-source
      topic: access-log
      value.converter: string
      paths: /var/log/nginx/access.log`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("name the pipeline file with -f; - means standard input")
			}
			pipeline, err := readPipeline(s, file)
			if err != nil {
				return err
			}
			return conn.withAdmin(cmd, func(admin *kadm.Client) error {
				return apply(cmd.Context(), s, admin, rest, pipeline, dryRun)
			})
		},
	}
	conn.addFlags(cmd.Flags())
	rest.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&file, "file", "f", "", "the pipeline file; - means standard input")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the differences and change nothing")
	return cmd
}

func readPipeline(s *session, file string) (config.Pipeline, error) {
	if file == "-" {
		text, err := io.ReadAll(s.in)
		if err != nil {
			return config.Pipeline{}, fmt.Errorf("reading standard input: %w", err)
		}
		return config.ParsePipeline("standard input", text)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return config.Pipeline{}, fmt.Errorf("reading the pipeline: %w", err)
	}
	return config.ParsePipeline(file, text)
}

// step is one difference between the file and the cluster, and its remedy.
type step struct {
	Kind   string   `json:"kind"`
	Name   string   `json:"name"`
	Action string   `json:"action"`
	Detail []string `json:"detail,omitempty"`
	do     func(context.Context) error
}

func apply(ctx context.Context, s *session, admin *kadm.Client, rest *restClient, p config.Pipeline, dryRun bool) error {
	if len(p.Topics)+len(p.Connectors) == 0 {
		return errors.New("the file names no topics and no connectors")
	}
	steps, topicErr := diffTopics(ctx, admin, p)
	connectors, err := diffConnectors(ctx, rest, p)
	if err = errors.Join(topicErr, err); err != nil {
		return err
	}
	steps = append(steps, connectors...)
	if err := printSteps(s, steps); err != nil || dryRun {
		return err
	}
	for _, st := range steps {
		if err := st.do(ctx); err != nil {
			return fmt.Errorf("%s %s: %w", st.Kind, st.Name, err)
		}
	}
	return nil
}

func printSteps(s *session, steps []step) error {
	if s.json() {
		return s.printJSON(append([]step{}, steps...))
	}
	if len(steps) == 0 {
		fmt.Fprintln(s.out, "nothing to do: everything is as the file says")
	}
	for _, st := range steps {
		fmt.Fprintf(s.out, "%s %s %s\n", st.Action, st.Kind, st.Name)
		for _, line := range st.Detail {
			fmt.Fprintln(s.out, "    "+line)
		}
	}
	return nil
}

func diffTopics(ctx context.Context, admin *kadm.Client, p config.Pipeline) ([]step, error) {
	if len(p.Topics) == 0 {
		return nil, nil
	}
	existing, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing topics: %w", err)
	}
	var steps []step
	for _, name := range slices.Sorted(maps.Keys(p.Topics)) {
		want := p.Topics[name]
		if !existing.Has(name) {
			steps = append(steps, createTopicStep(admin, name, want))
			continue
		}
		more, err := changeTopicSteps(ctx, admin, name, want, len(existing[name].Partitions))
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	return steps, nil
}

func createTopicStep(admin *kadm.Client, name string, want config.TopicSpec) step {
	settings := map[string]*string{}
	var detail []string
	for _, key := range slices.Sorted(maps.Keys(want.Settings)) {
		value := want.Settings[key]
		settings[key] = &value
		detail = append(detail, key+": "+value)
	}
	return step{Kind: "topic", Name: name, Action: "create", Detail: detail, do: func(ctx context.Context) error {
		r, err := admin.CreateTopic(ctx, cmp.Or(want.Partitions, -1), cmp.Or(want.Replication, -1), settings, name)
		return withMessage(err, r.ErrMessage)
	}}
}

// changeTopicSteps adds partitions. A change that this cluster cannot make is
// an error before anything is done, so that nothing is half applied.
func changeTopicSteps(ctx context.Context, admin *kadm.Client, name string, want config.TopicSpec, have int) ([]step, error) {
	var steps []step
	switch n := int(want.Partitions); {
	case n > have:
		steps = append(steps, step{Kind: "topic", Name: name, Action: "grow", Detail: []string{fmt.Sprintf("partitions: %d -> %d", have, n)},
			do: func(ctx context.Context) error {
				r, err := admin.UpdatePartitions(ctx, n, name)
				if err == nil {
					err = withMessage(r[name].Err, r[name].ErrMessage)
				}
				return err
			}})
	case n != 0 && n < have:
		return nil, fmt.Errorf("topic %s has %d partitions and the file says %d: partitions cannot be taken away; delete the topic, or change the file", name, have, n)
	}
	if len(want.Settings) == 0 {
		return steps, nil
	}
	changes, detail, err := diffSettings(ctx, admin, name, want.Settings)
	if err != nil || len(changes) == 0 {
		return steps, err
	}
	return append(steps, step{Kind: "topic", Name: name, Action: "change", Detail: detail, do: func(ctx context.Context) error {
		r, err := admin.AlterTopicConfigs(ctx, changes, name)
		if err != nil {
			return fmt.Errorf("changing settings: %w", err)
		}
		if len(r) == 1 {
			err = withMessage(r[0].Err, r[0].ErrMessage)
		}
		return err
	}}), nil
}

func diffSettings(ctx context.Context, admin *kadm.Client, name string, want map[string]string) ([]kadm.AlterConfig, []string, error) {
	described, err := admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return nil, nil, fmt.Errorf("describing topic %s: %w", name, err)
	}
	on, err := described.On(name, nil)
	if err = errors.Join(err, on.Err); err != nil {
		return nil, nil, fmt.Errorf("describing topic %s: %w", name, err)
	}
	have := map[string]string{}
	for _, c := range on.Configs {
		have[c.Key] = c.MaybeValue()
	}
	var changes []kadm.AlterConfig
	var detail []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value := want[key]; have[key] != value {
			changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
			detail = append(detail, fmt.Sprintf("%s: %s -> %s", key, have[key], value))
		}
	}
	return changes, detail, nil
}

// diffConnectors compares every connector, so that all mistakes are told at once.
func diffConnectors(ctx context.Context, rest *restClient, p config.Pipeline) ([]step, error) {
	var steps []step
	var mistakes []error
	for _, name := range slices.Sorted(maps.Keys(p.Connectors)) {
		st, err := diffConnector(ctx, rest, name, p.Connectors[name])
		mistakes = append(mistakes, err)
		if st != nil {
			steps = append(steps, *st)
		}
	}
	return steps, errors.Join(mistakes...)
}

// diffConnector returns nil if the connector is as it should be.
func diffConnector(ctx context.Context, rest *restClient, name string, want map[string]string) (*step, error) {
	var have map[string]string
	err := rest.call(ctx, http.MethodGet, nil, &have, "connectors", name, "config")
	missing := isNotFound(err)
	if err != nil && !missing {
		return nil, err
	}
	if !missing && len(settingsDiff(have, want)) == 0 {
		return nil, nil
	}
	action := "change"
	if missing {
		action = "create"
	}
	detail, err := checked(ctx, rest, name, have, want)
	if err != nil {
		return nil, err
	}
	return &step{Kind: "connector", Name: name, Action: action, Detail: detail, do: func(ctx context.Context) error {
		return rest.call(ctx, http.MethodPut, want, nil, "connectors", name, "config")
	}}, nil
}

// checked has the worker check a configuration before anything is changed, and
// returns the differences with the values of secrets hidden.
func checked(ctx context.Context, rest *restClient, name string, have, want map[string]string) ([]string, error) {
	if want[config.Class] == "" {
		return nil, fmt.Errorf("connector %s: %s is missing: it says which connector to run, such as file-source", name, config.Class)
	}
	var v connect.Validation
	if err := rest.call(ctx, http.MethodPut, want, &v, "connector-plugins", want[config.Class], "config", "validate"); err != nil {
		return nil, fmt.Errorf("connector %s: %w", name, err)
	}
	shown := maps.Clone(want)
	var problems []error
	for _, c := range v.Configs {
		if _, ok := shown[c.Definition.Name]; ok && c.Definition.Type == connect.SecretType {
			shown[c.Definition.Name] = config.Hidden
		}
		for _, problem := range c.Value.Errors {
			problems = append(problems, fmt.Errorf("connector %s: %s: %s", name, c.Value.Name, problem))
		}
	}
	return settingsDiff(have, shown), errors.Join(problems...)
}

// settingsDiff tells the differences of two configurations, a line each. The
// worker hides secrets, so theirs cannot be seen: they are sent always, and it
// is the worker who finds that nothing changed.
func settingsDiff(have, want map[string]string) []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		switch old, ok := have[key]; {
		case !ok && key != config.Name:
			lines = append(lines, key+": "+want[key])
		case ok && old == config.Hidden:
			lines = append(lines, key+": "+config.Hidden)
		case ok && old != want[key]:
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", key, old, want[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[key]; !ok && key != config.Name {
			lines = append(lines, key+": "+have[key]+" -> (none)")
		}
	}
	return lines
}
