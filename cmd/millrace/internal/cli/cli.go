// Package cli holds the commands of the millrace binary.
//
// A command is a function of its arguments and three streams: it writes what
// was asked for to stdout, as text for people or as JSON with --output json,
// and all that is said about the work (logs, progress, errors) to stderr.
// So every command can be run in a test, and its output can be piped.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes of the binary.
const (
	exitOK = 0
	// exitFailed: the command was understood and could not be done.
	exitFailed = 1
	// exitUsage: the command line was wrong.
	exitUsage = 2
)

// Run executes one command line (without the program's name) and returns the
// exit code. It ends early, and cleanly, when ctx does.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &session{in: stdin, out: stdout, err: stderr}
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "millrace: %v\nRun 'millrace help' for the commands, or add --help to one for its flags.\n", err)
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitOK // Ctrl-C is how a running command is ended
	default:
		fmt.Fprintf(stderr, "millrace: %v\n", err)
		return exitFailed
	}
}

// usageError marks a mistake in the command line itself.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func newRoot(s *session) *cobra.Command {
	root := &cobra.Command{
		Use:   "millrace",
		Short: "A stream-processing platform: log broker, stream jobs, connectors",
		Long: `Millrace is a stream-processing platform in one binary: a commit log that
speaks the Apache Kafka protocol, a library for stream jobs in Go, and a
runtime for source and sink connectors.

Start here:
  millrace dev       a broker and a Connect worker on this machine
  millrace demo      a real pipeline from log file to SQLite, start to end

Commands that talk to a broker take its address from --brokers or from
MILLRACE_BROKERS (default localhost:9092); any Kafka cluster will do.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.Version = currentVersion().Version
	root.SetVersionTemplate("millrace {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().VarP(&s.format, "output", "o", "how results are printed: text or json")
	root.PersistentFlags().Var(&s.logLevel, "log-level", "what is logged to stderr: debug, info, warn or error")
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run:"},
		&cobra.Group{ID: groupData, Title: "Work with data:"},
		&cobra.Group{ID: groupConnect, Title: "Work with connectors:"},
	)
	addCommands(root, groupRun, newDev(s), newBroker(s), newConnect(s), newDemo(s))
	addCommands(root, groupData, newTopic(s), newProduce(s), newConsume(s), newGroup(s))
	addCommands(root, groupConnect, newConnector(s), newApply(s), newPlugin(s))
	root.AddCommand(newVersion(s))
	return root
}

const (
	groupRun     = "run"
	groupData    = "data"
	groupConnect = "connect"
)

func addCommands(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// noArgs, oneArg and someArgs check the count of arguments and say what was expected.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		if cmd.HasSubCommands() {
			return usagef("%s has no command %q", cmd.CommandPath(), args[0])
		}
		return usagef("%s takes no arguments, but got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s takes one argument, the %s, but got %d", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

func someArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s needs at least one argument: the %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// parent makes a command that only holds others.
func parent(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(children...)
	return c
}
