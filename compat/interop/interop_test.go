//go:build interop

// Package interop runs clients of other projects against a real Millrace
// broker: the clients that people already have must work unchanged.
//
// get.sh brings the clients. Run it all with `make interop`.
package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var broker string // host:port of the broker under test

func TestMain(m *testing.M) {
	code, err := withBroker(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		code = 1
	}
	os.Exit(code)
}

// withBroker runs the built binary as users do, on a folder and port of its own.
func withBroker(run func() int) (int, error) {
	dir, err := os.MkdirTemp("", "millrace-interop-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command(built("millrace"), "broker", "--data", dir, "--listen", "127.0.0.1:0", "--output", "json",
		"--log-level", "warn", "--set", "group.initial.rebalance.delay.ms=0")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting the broker (run `make build` first): %w", err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	var ready struct {
		Kafka string `json:"kafka"`
	}
	if err := json.NewDecoder(stdout).Decode(&ready); err != nil {
		return 0, fmt.Errorf("waiting for the broker to say where it serves: %w", err)
	}
	broker = ready.Kafka
	return run(), nil
}

func built(name string) string {
	path, _ := filepath.Abs(filepath.Join("..", "..", "build", name))
	return path
}

// need skips a test whose client is not on this machine. In CI every client
// must be there, so that a green run means that all of them worked.
func need(t *testing.T, path, what string) {
	t.Helper()
	if _, err := exec.LookPath(path); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing, and in CI it must be there", what)
	}
	t.Skipf("%s is not on this machine", what)
}

// run executes a client to its end and returns its standard output.
func run(t *testing.T, input string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s\n%s", filepath.Base(name), strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// lines makes n different lines that compress well.
func lines(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("line %06d of a text that repeats itself, itself, itself", i)
	}
	return out
}

// stored reads n records back with a client of a third project.
func stored(t *testing.T, topic string, n int) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("reading %s after %d of %d records: %v", topic, len(records), n, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

func sameLines(t *testing.T, who string, got string, want []string) {
	t.Helper()
	have := strings.Split(strings.TrimRight(got, "\n"), "\n")
	if len(have) != len(want) {
		t.Fatalf("%s read %d lines, want %d", who, len(have), len(want))
	}
	for i := range want {
		if have[i] != want[i] {
			t.Fatalf("%s read %q as line %d, want %q", who, have[i], i, want[i])
		}
	}
}
