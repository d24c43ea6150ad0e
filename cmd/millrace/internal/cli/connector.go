package cli

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/connect"
	"github.com/millrace/millrace/connect/config"
)

func newConnector(s *session) *cobra.Command {
	rest := &restClient{}
	cmd := parent("connector", "Create, list, watch and change the connectors of a Connect worker",
		newConnectorList(s, rest), newConnectorCreate(s, rest), newConnectorStatus(s, rest), newConnectorConfig(s, rest),
		newConnectorValidate(s, rest),
		newConnectorAction(s, rest, "pause", "Stop moving records, and keep the tasks ready", "paused", http.MethodPut, "pause"),
		newConnectorAction(s, rest, "resume", "Move records again after a pause or stop", "resumed", http.MethodPut, "resume"),
		newConnectorAction(s, rest, "stop", "End the tasks' processes, and keep the connector", "stopped", http.MethodPut, "stop"),
		newConnectorAction(s, rest, "restart", "Start the tasks' processes anew", "restarted", http.MethodPost, "restart"),
		newConnectorAction(s, rest, "delete", "End a connector and forget its configuration", "deleted", http.MethodDelete))
	rest.addFlags(cmd.PersistentFlags())
	return cmd
}

func newConnectorList(s *session, rest *restClient) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List connectors with their states",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var names []string
			if err := rest.call(cmd.Context(), http.MethodGet, nil, &names, "connectors"); err != nil {
				return err
			}
			all, cells := []connect.ConnectorStatus{}, [][]string{}
			for _, name := range names {
				var status connect.ConnectorStatus
				if err := rest.call(cmd.Context(), http.MethodGet, nil, &status, "connectors", name, "status"); err != nil {
					return err
				}
				all = append(all, status)
				cells = append(cells, []string{name, status.Type, string(status.Connector.State), taskStates(status)})
			}
			return s.table(all, []string{"CONNECTOR", "TYPE", "STATE", "TASKS"}, cells)
		},
	}
}

// taskStates sums up the tasks: "2 RUNNING, 1 FAILED".
func taskStates(status connect.ConnectorStatus) string {
	count := map[string]int{}
	for _, t := range status.Tasks {
		count[string(t.State)]++
	}
	text := ""
	for _, state := range slices.Sorted(maps.Keys(count)) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", count[state], state)
	}
	return text
}

func newConnectorStatus(s *session, rest *restClient) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: completion(rest.connectorNames).args,
		Use:               "status NAME",
		Short:             "Show what a connector and its tasks are doing, and why one failed",
		Args:              oneArg("connector's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var status connect.ConnectorStatus
			if err := rest.call(cmd.Context(), http.MethodGet, nil, &status, "connectors", args[0], "status"); err != nil {
				return err
			}
			if s.json() {
				return s.printJSON(status)
			}
			fmt.Fprintf(s.out, "%s  %s, %s\n", status.Name, status.Type, status.Connector.State)
			if status.Connector.Trace != "" {
				fmt.Fprintln(s.out, status.Connector.Trace)
			}
			var cells [][]string
			for _, t := range status.Tasks {
				cells = append(cells, []string{strconv.Itoa(t.ID), stateText(t.Status), strconv.FormatInt(t.Records, 10), strconv.FormatInt(t.Skipped, 10), t.WorkerID, t.Trace})
			}
			return s.table(nil, []string{"TASK", "STATE", "RECORDS", "SKIPPED", "WORKER", "CAUSE"}, cells)
		},
	}
}

// stateText tells a failure that is being mended from one for good.
func stateText(s connect.Status) string {
	if s.Retrying {
		return string(s.State) + ", starting again"
	}
	return string(s.State)
}

func newConnectorConfig(s *session, rest *restClient) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: completion(rest.connectorNames).args,
		Use:               "config NAME",
		Short:             "Show a connector's configuration, secrets hidden",
		Args:              oneArg("connector's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var settings map[string]string
			if err := rest.call(cmd.Context(), http.MethodGet, nil, &settings, "connectors", args[0], "config"); err != nil {
				return err
			}
			var cells [][]string
			for _, name := range slices.Sorted(maps.Keys(settings)) {
				cells = append(cells, []string{name, settings[name]})
			}
			return s.table(settings, []string{"SETTING", "VALUE"}, cells)
		},
	}
}

// settingsOf reads NAME=VALUE pairs as a connector's configuration.
func settingsOf(pairs []string) (map[string]string, error) {
	parsed, err := parseSettings(pairs)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for name, value := range parsed {
		settings[name] = *value
	}
	return settings, nil
}

func newConnectorCreate(s *session, rest *restClient) *cobra.Command {
	var pairs []string
	cmd := &cobra.Command{
		Use:   "create NAME --set NAME=VALUE...",
		Short: "Create a connector",
		Long: `Create a connector from settings on the command line. For more than a few,
and to keep them in a file, use 'millrace apply'.`,
		Example: `  millrace connector create logs --set connector.class=file-source \
      --set topic=logs --set paths='/var/log/*.log' --set value.converter=string`,
		Args: oneArg("connector's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, err := settingsOf(pairs)
			if err != nil {
				return err
			}
			body := map[string]any{"name": args[0], "config": settings}
			var info connect.Info
			if err := rest.call(cmd.Context(), http.MethodPost, body, &info, "connectors"); err != nil {
				return err
			}
			return s.result(info, "created %s", info.Name)
		},
	}
	cmd.Flags().StringArrayVar(&pairs, "set", nil, "a setting, NAME=VALUE; may be given several times")
	return cmd
}

func newConnectorValidate(s *session, rest *restClient) *cobra.Command {
	var pairs []string
	cmd := &cobra.Command{
		Use:   "validate CLASS --set NAME=VALUE...",
		Short: "Check a configuration without creating anything",
		Args:  oneArg("connector's class"),
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, err := settingsOf(pairs)
			if err != nil {
				return err
			}
			if settings[config.Name] == "" {
				settings[config.Name] = args[0] // what is not created needs no name
			}
			var v connect.Validation
			if err := rest.call(cmd.Context(), http.MethodPut, settings, &v, "connector-plugins", args[0], "config", "validate"); err != nil {
				return err
			}
			return reportValidation(s, v)
		},
	}
	cmd.Flags().StringArrayVar(&pairs, "set", nil, "a setting, NAME=VALUE; may be given several times")
	return cmd
}

func reportValidation(s *session, v connect.Validation) error {
	if s.json() {
		return s.printJSON(v)
	}
	for _, c := range v.Configs {
		for _, problem := range c.Value.Errors {
			fmt.Fprintf(s.out, "%s: %s\n", c.Value.Name, problem)
		}
	}
	if v.ErrorCount > 0 {
		return fmt.Errorf("the configuration has %d errors", v.ErrorCount)
	}
	fmt.Fprintln(s.out, "the configuration is right")
	return nil
}

// newConnectorAction makes a command that does one thing to one connector.
func newConnectorAction(s *session, rest *restClient, use, short, done, method string, path ...string) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: completion(rest.connectorNames).args,
		Use:               use + " NAME",
		Short:             short,
		Args:              oneArg("connector's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := rest.call(cmd.Context(), method, nil, nil, append([]string{"connectors", args[0]}, path...)...); err != nil {
				return err
			}
			return s.result(map[string]string{"connector": args[0], "done": done}, "%s %s", done, args[0])
		},
	}
}
