// Command activity is a stream job over a web server's access log. It reads lines of the combined log format from the topic
// access-log, and keeps two topics up to date: page-views, the views and bytes of each page in each minute, and visits,
// the hits of each visitor in a row. Lines that do not parse go to access-log.dead.
//
// job.go is the job, parse.go knows the log format. See README.md for how to run it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/millrace/millrace/streams"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "activity:", err)
		os.Exit(1)
	}
}

// run is the program with everything it depends on.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("activity", flag.ContinueOnError)
	flags.SetOutput(stderr)
	brokers := flags.String("brokers", or(env("MILLRACE_BROKERS"), "localhost:9092"), "addresses of `brokers`, host:port,...; also MILLRACE_BROKERS")
	stateDir := flags.String("state-dir", "", "`folder` for the job's state (default: in the user's cache folder)")
	threads := flags.Int("threads", 0, "how many partitions to process at the same time (default 1)")
	draw := flags.Bool("topology", false, "print the job's topology and exit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}

	topology, err := Topology()
	if err != nil {
		return err
	}
	if *draw {
		_, err := fmt.Fprint(stdout, topology)
		return err
	}
	app, err := streams.New(topology, streams.Config{
		Brokers:  strings.Split(*brokers, ","),
		StateDir: *stateDir,
		Threads:  *threads,
		Handlers: Handlers(),
		Log:      slog.New(slog.NewTextHandler(stderr, nil)),
	})
	if err != nil {
		return err
	}
	return app.Run(ctx)
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
