// Command startup measures how long a broker takes from the start of its
// process to its first answer to a Metadata request.
//
//	go run ./bench/startup --binary ./bin/millrace -n 20
//
// It does so on a new data folder each time, on a folder that holds a topic
// with records and was closed cleanly, and on one whose broker was killed.
// Without --binary it runs the broker package in a process of its own, so that
// the binary's other parts are left out.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/millrace/millrace/broker"
)

// The program runs itself as the broker when these are set.
const (
	envFolder = "MILLRACE_BENCH_FOLDER"
	envListen = "MILLRACE_BENCH_LISTEN"
)

func main() {
	if folder := os.Getenv(envFolder); folder != "" {
		exit(serve(folder, os.Getenv(envListen)))
	}
	exit(run(os.Args[1:], os.Stdout))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "startup:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve is the broker under measurement.
func serve(folder, listen string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	b, err := broker.New(ctx, broker.Config{
		Disk:   broker.OnDisk(folder),
		Listen: listen,
		Log:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	return b.Run(ctx)
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("startup", flag.ContinueOnError)
	binary := flags.String("binary", "", "the `path` of the millrace binary; empty: the broker package by itself")
	runs := flags.Int("n", 20, "how many `times` to start in each case")
	output := flags.String("output", "text", "`format` of the result: text or json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *runs < 1 || *output != "text" && *output != "json" {
		return errors.New("-n must be at least 1, and --output text or json")
	}
	root, err := os.MkdirTemp("", "millrace-startup-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	results, err := measure(starter{binary: *binary, log: os.Stderr}, root, *runs)
	if err != nil {
		return err
	}
	if *output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(results)
	}
	return print(out, results)
}

// Result is the outcome of one case, in milliseconds.
type Result struct {
	Case   string  `json:"case"`
	Runs   int     `json:"runs"`
	Median float64 `json:"median_ms"`
	P90    float64 `json:"p90_ms"`
	Max    float64 `json:"max_ms"`
}

func summarize(name string, times []time.Duration) Result {
	slices.Sort(times)
	ms := func(at float64) float64 {
		return float64(times[int(at*float64(len(times)-1)+0.5)].Microseconds()) / 1000
	}
	return Result{name, len(times), ms(0.5), ms(0.9), ms(1)}
}

func print(out io.Writer, results []Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "data folder\truns\tmedian\tp90\tmax\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%.1f ms\t%.1f ms\t%.1f ms\t\n", r.Case, r.Runs, r.Median, r.P90, r.Max)
	}
	return w.Flush()
}
