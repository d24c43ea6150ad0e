package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/connect/config"
	"github.com/millrace/millrace/connect/convert"
	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/sdk/connector"
)

func newPlugin(s *session) *cobra.Command {
	return parent("plugin", "List connector plugins and show their settings", newPluginList(s), newPluginShow(s), newPluginServe())
}

// newHost makes a host of the bundled plugins and those in folders.
func newHost(s *session, dirs []string) (*host.Host, error) {
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("looking into --plugin-dir: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("--plugin-dir %s is a file; expected a folder", dir)
		}
	}
	return host.New(host.Config{Bundled: bundled(), Dirs: dirs, Log: s.logger(), LogLevel: s.logLevel.Level})
}

const pluginDirHelp = "folder with executables called millrace-plugin-NAME; may be given several times"

func newPluginList(s *session) *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plugins that can be run here",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := newHost(s, dirs)
			if err != nil {
				return err
			}
			type row struct {
				Name    string   `json:"name"`
				Version string   `json:"version"`
				Classes []string `json:"classes"`
				Doc     string   `json:"doc"`
				Path    string   `json:"path,omitempty"`
				Error   string   `json:"error,omitempty"`
			}
			rows, cells := []row{}, [][]string{}
			for _, p := range h.Plugins(cmd.Context()) {
				r := row{Name: p.Name, Version: p.Version, Classes: []string{}, Doc: p.Spec.Doc, Path: p.Path}
				if p.HasSource {
					r.Classes = append(r.Classes, p.Name+"-source")
				}
				if p.HasSink {
					r.Classes = append(r.Classes, p.Name+"-sink")
				}
				if p.Err != nil {
					r.Error = p.Err.Error()
				}
				rows = append(rows, r)
				cells = append(cells, []string{r.Name, r.Version, strings.Join(r.Classes, ", "), cmp.Or(r.Error, r.Doc)})
			}
			return s.table(rows, []string{"PLUGIN", "VERSION", "CLASSES", "WHAT IT DOES"}, cells)
		},
	}
	cmd.Flags().StringArrayVar(&dirs, "plugin-dir", nil, pluginDirHelp)
	return cmd
}

func newPluginShow(s *session) *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		ValidArgsFunction: completion(bundledNames).args,
		Use:               "show NAME",
		Short:             "Show the settings of a plugin, or of a connector class such as file-sink",
		Args:              oneArg("plugin's name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := newHost(s, dirs)
			if err != nil {
				return err
			}
			p, err := h.Plugin(cmd.Context(), args[0])
			if base := pluginOfClass(args[0]); errors.Is(err, host.ErrUnknownPlugin) && base != args[0] {
				p, err = h.Plugin(cmd.Context(), base)
			}
			if err != nil {
				return err
			}
			if s.json() {
				return s.printJSON(p.Manifest)
			}
			fmt.Fprintf(s.out, "%s %s: %s\n", p.Name, p.Version, p.Spec.Doc)
			if p.HasSource {
				printFields(s, p.Name+"-source", p.Spec.Source, config.Fields(config.Source, convert.Names))
			}
			if p.HasSink {
				printFields(s, p.Name+"-sink", p.Spec.Sink, config.Fields(config.Sink, convert.Names))
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&dirs, "plugin-dir", nil, pluginDirHelp)
	return cmd
}

// pluginOfClass is the plugin's name in a connector.class such as file-sink.
func pluginOfClass(class string) string {
	return strings.TrimSuffix(strings.TrimSuffix(class, "-source"), "-sink")
}

func printFields(s *session, class string, own, common []connector.Field) {
	fmt.Fprintf(s.out, "\nSettings of %s:\n", class)
	printFieldList(s, own)
	kind := class[strings.LastIndex(class, "-")+1:]
	fmt.Fprintf(s.out, "\nSettings of every %s:\n", kind)
	printFieldList(s, common)
}

func printFieldList(s *session, fields []connector.Field) {
	for _, f := range fields {
		about := string(f.Type)
		switch {
		case f.Required:
			about += ", required"
		case f.Default != "":
			about += ", default " + f.Default
		}
		if len(f.Valid) > 0 {
			about += ", one of " + strings.Join(f.Valid, ", ")
		}
		fmt.Fprintf(s.out, "\n  %s (%s)\n      %s\n", f.Name, about, f.Doc)
	}
}

// newPluginServe is what the runtime starts; it is of no use by hand.
func newPluginServe() *cobra.Command {
	return &cobra.Command{
		Use:    "serve NAME",
		Short:  "Run a bundled plugin for a Connect worker",
		Hidden: true,
		Args:   oneArg("plugin's name"),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, p := range bundled() {
				if p.Name == args[0] {
					connector.Serve(p)
					return nil
				}
			}
			return usagef("there is no bundled plugin %q", args[0])
		},
	}
}
