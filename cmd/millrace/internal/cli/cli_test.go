package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/brokertest"
)

// beCommand makes the test binary be the millrace command, so that tests can
// run it as a process of its own and kill it. Its children inherit it.
const beCommand = "MILLRACE_TEST_BE_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(beCommand) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		os.Exit(Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// outcome is what a command left behind.
type outcome struct {
	code        int
	out, errOut string
}

// run runs a command within the test's process.
func run(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	code := Run(t.Context(), args, strings.NewReader(stdin), &out, &errOut)
	return outcome{code, out.String(), errOut.String()}
}

// must runs a command that has to succeed, and returns its output.
func must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	got := run(t, stdin, args...)
	if got.code != exitOK {
		t.Fatalf("millrace %s: exit code %d\n%s%s", strings.Join(args, " "), got.code, got.out, got.errOut)
	}
	return got.out
}

// process is a millrace command that runs as a process.
type process struct {
	*testing.T
	cmd   *exec.Cmd
	ready ready
	log   *bytes.Buffer
}

// start runs a command that prints where it serves.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], append(args, "--output", "json")...)
	cmd.Env = append(os.Environ(), beCommand+"=1")
	p := &process{T: t, cmd: cmd, log: &bytes.Buffer{}}
	cmd.Stderr = p.log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			p.kill()
		}
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("millrace %s did not become ready: %v\n%s", strings.Join(args, " "), err, p.log)
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	if err := json.Unmarshal(line, &p.ready); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop interrupts the process, as Ctrl-C does, and wants it to end well, soon.
func (p *process) stop() {
	p.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		p.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.Fatalf("after Ctrl-C: %v\n%s", err, p.log)
	}
	if took := time.Since(began); took > 10*time.Second {
		p.Errorf("the stop took %v", took)
	}
}

func awaiting(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("did not happen within 60 s: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestTopicsRecordsAndGroups(t *testing.T) {
	at := []string{"--brokers", brokertest.Start(t).Addr()}
	with := func(args ...string) []string { return append(args, at...) }

	if out := must(t, "", with("topic", "create", "t", "--partitions", "3", "--set", "retention.ms=1000000")...); !strings.Contains(out, "3 partitions") {
		t.Errorf("create said %q", out)
	}
	if got := run(t, "", with("topic", "create", "t")...); got.code != exitFailed || !strings.Contains(got.errOut, "TOPIC_ALREADY_EXISTS") {
		t.Errorf("creating it twice: %+v", got)
	}
	must(t, "", with("topic", "create", "t", "--if-missing")...)
	if got := run(t, "", with("topic", "create", "u", "--set", "retention.msec=1")...); got.code != exitFailed || !strings.Contains(got.errOut, "retention.ms") {
		t.Errorf("an unknown setting: %+v", got)
	}
	must(t, "a:1\nb:2\n\nc:3\nlast", with("produce", "plain", "-z", "zstd")...)
	must(t, "a:1\nb:2\n", with("produce", "t", "-k", ":", "-H", "from=test")...)
	if got := run(t, "no separator\n", with("produce", "t", "-k", ":")...); got.code != exitFailed || !strings.Contains(got.errOut, "line 1") {
		t.Errorf("a line without separator: %+v", got)
	}
	if out := must(t, "", with("consume", "plain", "--until-end")...); out != "a:1\nb:2\n\nc:3\nlast\n" {
		t.Errorf("consume printed %q", out)
	}
	if out := must(t, "", with("consume", "plain", "--until-end", "--from", "3", "--show-key", "--key-separator", "=")...); out != "=c:3\n=last\n" {
		t.Errorf("consume from 3 printed %q", out)
	}
	if out := must(t, "", with("consume", "plain", "--until-end", "--from", "end")...); out != "" {
		t.Errorf("consume from the end printed %q", out)
	}
	out := must(t, "", with("consume", "t", "--group", "g", "-n", "2", "-o", "json")...)
	if !strings.Contains(out, `"headers":{"from":"test"}`) || !strings.Contains(out, `"key":"a"`) {
		t.Errorf("as JSON: %s", out)
	}
	var groups []groupDescription
	if err := json.Unmarshal([]byte(must(t, "", with("group", "describe", "g", "-o", "json")...)), &groups); err != nil || groups[0].Lag != 0 || groups[0].State != "Empty" {
		t.Errorf("describe: %+v, %v", groups, err)
	}
	must(t, "", with("group", "reset-offsets", "g", "--topic", "t", "--to", "start")...)
	if out := must(t, "", with("group", "describe", "g")...); !strings.Contains(out, "lag 2") {
		t.Errorf("after the reset: %s", out)
	}
	must(t, "", with("group", "delete", "g")...)
	if out := must(t, "", with("group", "list", "-o", "json")...); strings.TrimSpace(out) != "[]" {
		t.Errorf("after the delete: %s", out)
	}
	if out := must(t, "", with("topic", "describe", "t")...); !strings.Contains(out, "1000000") {
		t.Errorf("describe: %s", out)
	}
	if out := must(t, "", "__complete", "topic", "delete", at[0], at[1], ""); !strings.Contains(out, "plain\nt\n") {
		t.Errorf("completion offers %q", out)
	}
	must(t, "", with("topic", "delete", "t", "plain")...)
	if out := must(t, "", with("topic", "list")...); strings.Contains(out, "plain") {
		t.Errorf("after the delete: %s", out)
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := free.Addr().String()
	_ = free.Close()
	cases := []struct {
		args []string
		code int
		says string
	}{
		{[]string{"tpoic"}, exitUsage, `no command "tpoic"`},
		{[]string{"topic", "lst"}, exitUsage, `no command "lst"`},
		{[]string{"topic", "create"}, exitUsage, "at least one argument"},
		{[]string{"consume"}, exitUsage, "one argument, the topic"},
		{[]string{"topic", "list", "--nope"}, exitUsage, "--nope"},
		{[]string{"topic", "list", "-o", "xml"}, exitUsage, "neither text nor json"},
		{[]string{"consume", "t", "--from", "yesterday"}, exitUsage, "start, end, an offset"},
		{[]string{"produce", "t", "-z", "zip"}, exitUsage, "gzip"},
		{[]string{"produce", "t", "-H", "x"}, exitUsage, "NAME=VALUE"},
		{[]string{"topic", "list", "--sasl-mechanism", "plain"}, exitUsage, "--sasl-user"},
		{[]string{"topic", "list", "--tls-ca", "/no/such/file"}, exitFailed, "/no/such/file"},
		{[]string{"apply"}, exitUsage, "-f"},
		{[]string{"apply", "-f", "/no/such/file"}, exitFailed, "/no/such/file"},
		{[]string{"connector", "list", "--connect-url", "http://" + closed}, exitFailed, "no Connect worker answers"},
		{[]string{"connector", "list", "--connect-url", "nonsense"}, exitUsage, "not an address"},
		{[]string{"plugin", "show", "fiel"}, exitFailed, "file"},
		{[]string{"broker", "--listen", "19092"}, exitUsage, "host:port"},
		{[]string{"broker", "--listen", "localhost:99999"}, exitUsage, "65535"},
		{[]string{"consume", "t", "-n", "-1"}, exitUsage, "--count"},
		{[]string{"plugin", "list", "--plugin-dir", "/no/such/folder"}, exitFailed, "/no/such/folder"},
		{[]string{"broker", "--set", "x"}, exitUsage, "NAME=VALUE"},
		{[]string{"broker", "--data", t.TempDir(), "--set", "log.retention.huors=1"}, exitFailed, "log.retention.hours"},
		{[]string{"broker", "--data", t.TempDir(), "--set", "log.retention.hours=many"}, exitFailed, "log.retention.hours"},
		{[]string{"demo", "--job", "/no/such/job"}, exitFailed, "/no/such/job"},
	}
	for _, c := range cases {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			got := run(t, "", c.args...)
			if got.code != c.code || !strings.Contains(got.errOut, c.says) {
				t.Errorf("exit code %d with %q; want %d with %q", got.code, got.errOut, c.code, c.says)
			}
		})
	}
}

func TestUnreachableBrokerIsSaidSoon(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	got := run(t, "", "topic", "list", "--brokers", silent.Addr().String())
	if got.code != exitFailed || !strings.Contains(got.errOut, "--brokers") || time.Since(began) > 2*reachTimeout {
		t.Errorf("after %v: %+v", time.Since(began), got)
	}
}

func TestBrokerFilesThatAreWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.yaml")
	if err := os.WriteFile(file, []byte("num.partitions: 3\nlog.retention.hours: [1]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, "", "broker", "--data", t.TempDir(), "--config", file)
	if got.code != exitFailed || !strings.Contains(got.errOut, file+":2:22:") {
		t.Errorf("a file with a list: %+v", got)
	}
}

func TestHelpOfEveryCommandIsWorthReading(t *testing.T) {
	for _, command := range strings.Fields("dev broker connect demo topic produce consume group connector apply plugin version") {
		out := must(t, "", command, "--help")
		if !strings.Contains(out, "Usage:") || len(out) < 200 {
			t.Errorf("millrace %s --help prints only %q", command, out)
		}
	}
	if out := must(t, "", "completion", "bash"); !strings.Contains(out, "__start_millrace") {
		t.Error("no completion for bash")
	}
}

func TestDevContinuesWhereItWas(t *testing.T) {
	dir := t.TempDir()
	input, output := filepath.Join(dir, "in.txt"), filepath.Join(dir, "out")
	writeLines(t, input, 0, 1000)
	pipeline := filepath.Join(dir, "pipeline.yaml")
	text := fmt.Sprintf(`
topics:
  lines: {partitions: 2}
connectors:
  in: {connector.class: file-source, topic: lines, paths: %s, key.converter: string, value.converter: string, poll.interval: 20ms}
  out: {connector.class: file-sink, topics: lines, path: %s, key.converter: string, value.converter: string, format: value}
`, input, output)
	if err := os.WriteFile(pipeline, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"dev", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--connect-listen", "127.0.0.1:0", "--commit-interval", "50ms"}
	p := start(t, args...)
	at := []string{"--brokers", p.ready.Kafka, "--connect-url", p.ready.Connect}
	if out := must(t, "", append([]string{"apply", "-f", pipeline}, at...)...); strings.Count(out, "create") != 3 {
		t.Errorf("apply said %q", out)
	}
	if out := must(t, "", append([]string{"apply", "-f", pipeline}, at...)...); !strings.Contains(out, "nothing to do") {
		t.Errorf("the second apply said %q", out)
	}
	if err := os.WriteFile(pipeline, []byte(strings.Replace(text, "{partitions: 2}", "{partitions: 3, settings: {retention.ms: 86400000}}", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "", append([]string{"apply", "-f", pipeline}, at...)...); !strings.Contains(out, "partitions: 2 -> 3") || !strings.Contains(out, "retention.ms: 604800000 -> 86400000") {
		t.Errorf("applying changes said %q", out)
	}
	if out := must(t, "", append([]string{"apply", "-f", pipeline}, at...)...); !strings.Contains(out, "nothing to do") {
		t.Errorf("applying them again said %q", out)
	}
	awaiting(t, "1000 lines", func() bool { return len(sinkLines(output)) >= 1000 })
	p.stop()

	writeLines(t, input, 1000, 1500)
	p = start(t, args...)
	awaiting(t, "1500 lines", func() bool { return len(sinkLines(output)) >= 1500 })
	p.stop()
	if got := sinkLines(output); len(got) != 1500 {
		t.Errorf("there are %d lines after a clean stop and start, want 1500", len(got))
	}
}

func TestSecondBrokerOnAFolderOrPortIsRefused(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "broker", "--data", dir, "--listen", "127.0.0.1:0")
	if got := run(t, "", "broker", "--data", dir, "--listen", "127.0.0.1:0"); got.code != exitFailed || !strings.Contains(got.errOut, dir) || !strings.Contains(got.errOut, "in use") {
		t.Errorf("the same folder: %+v", got)
	}
	if got := run(t, "", "broker", "--data", t.TempDir(), "--listen", p.ready.Kafka); got.code != exitFailed || !strings.Contains(got.errOut, p.ready.Kafka) {
		t.Errorf("the same port: %+v", got)
	}
	p.stop()
	meta := filepath.Join(dir, "meta.properties")
	text, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(meta, bytes.Replace(text, []byte("version=1"), []byte("version=9"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(t, "", "broker", "--data", dir, "--listen", "127.0.0.1:0"); got.code != exitFailed || !strings.Contains(got.errOut, "newer") {
		t.Errorf("a folder of a newer format: %+v", got)
	}
}

// writeLines appends numbered lines to a file.
func writeLines(t *testing.T, file string, from, to int) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for i := from; i < to; i++ {
		fmt.Fprintf(w, "line %06d\n", i)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

// sinkLines reads what the file sink has written.
func sinkLines(dir string) []string {
	var all []string
	files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		all = append(all, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
	}
	return all
}
