package connectortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/sdk/connector"
)

func TestMain(m *testing.M) { Main(m, numbers()) }

// faultVariable names the fault of the connector under test; empty means none.
const faultVariable = "CONNECTORTEST_FAULT"

// numbers is a connector whose source counts and whose sink appends numbers to
// a file.
func numbers() connector.Plugin {
	return connector.Plugin{
		Name: "numbers", Version: "1",
		Spec: connector.Spec{
			Doc: "Counts.",
			Source: []connector.Field{
				{Name: "count", Type: connector.Integer, Required: true, Doc: "how far"},
				{Name: "wait", Type: connector.Boolean, Doc: "wait at the end"},
				{Name: "token", Type: connector.String, Secret: true, Doc: "a secret"},
			},
			Sink: []connector.Field{{Name: "path", Type: connector.String, Required: true, Doc: "the file"}},
		},
		NewSource: func() connector.Source { return &source{fault: os.Getenv(faultVariable)} },
		NewSink:   func() connector.Sink { return &sink{fault: os.Getenv(faultVariable)} },
	}
}

type source struct {
	fault       string
	next, count int
	wait        bool
}

func (s *source) Open(_ context.Context, task connector.Task) error {
	var cfg struct {
		Count int    `setting:"count"`
		Wait  bool   `setting:"wait"`
		Token string `setting:"token"`
	}
	if err := task.Settings.Decode(&cfg); err != nil {
		return err
	}
	if cfg.Count > 1_000_000 && s.fault != "accepts anything" {
		return connector.Problemf("count", "that is too far")
	}
	s.count, s.wait = cfg.Count, cfg.Wait
	if s.fault == "logs secrets" {
		task.Log.Info("logging in", "token", cfg.Token)
	}
	if at, ok := task.Resume["n"]; ok && s.fault != "ignores positions" {
		n, err := strconv.Atoi(at)
		if err != nil {
			return err
		}
		s.next = n + 1
	}
	return nil
}

func (s *source) Read(ctx context.Context, out *connector.Batch) error {
	if s.fault == "retries for ever" || s.fault == "retries for ever as a process" && os.Args[1] == serveArgument {
		return connector.Retry(errors.New("connection refused"), 0)
	}
	var buffer []byte
	for range 7 {
		if s.next >= s.count || out.Full() {
			break
		}
		position := strconv.Itoa(s.next)
		if s.fault == "shares positions" {
			position = strconv.Itoa(s.next / 2 * 2)
		}
		record := connector.NewRecord(connector.Origin{Partition: "n", Position: position}, connector.Value{}, connector.TextValue(strconv.Itoa(s.next)))
		switch s.fault {
		case "uses a buffer again":
			buffer = strconv.AppendInt(buffer[:0], int64(s.next), 10)
			record.Value = connector.TextBytesValue(buffer)
		case "asks for a partition":
			record.Partition = 0
		case "has no positions":
			record.Origin = connector.Origin{}
		}
		out.Append(record)
		s.next++
	}
	switch {
	case out.Len() > 0:
		return nil
	case s.fault == "waits at the end":
		select {}
	case !s.wait:
		return io.EOF
	case s.fault == "ignores cancellation", s.fault == "ignores cancellation as a process" && os.Args[1] == serveArgument:
		select {}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *source) Close(context.Context) error { return nil }

type sink struct {
	fault string
	path  string
	kept  string
}

func (s *sink) Open(_ context.Context, task connector.Task) error {
	s.path = task.Settings.Get("path")
	return nil
}

func (s *sink) Write(_ context.Context, in *connector.Batch) error {
	bad := connector.RecordErrors{}
	written, err := os.ReadFile(s.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text := string(written)
	for i, r := range in.Rows() {
		line := r.Value.Text() + "\n"
		switch {
		case r.Value.Text() == "bad" && s.fault == "names the wrong record":
			bad[0] = errors.New("bad")
		case r.Value.Text() == "bad":
			bad[i] = errors.New("bad")
		case s.fault != "writes twice" && strings.Contains("\n"+text, "\n"+line): // it came again
		default:
			text += line
		}
	}
	if s.fault == "keeps for later" {
		s.kept = text
		return nil
	}
	next := s.path + ".new" // so that a kill leaves the old or the new
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.Rename(next, s.path); err != nil {
		return err
	}
	if len(bad) > 0 {
		return bad
	}
	return nil
}

func (s *sink) Close(context.Context) error {
	if s.kept == "" {
		return nil
	}
	return os.WriteFile(s.path, []byte(s.kept), 0o600)
}

func TestGoodConnectorPasses(t *testing.T) {
	source := Source{
		Plugin: numbers(),
		Setup: func(_ *testing.T, records int) map[string]string {
			return map[string]string{"count": strconv.Itoa(records), "token": "hush-hush"}
		},
		Idle: func(*testing.T) map[string]string { return map[string]string{"count": "0", "wait": "true"} },
		WrongSettings: []WrongSettings{
			{Setting: "count", Settings: map[string]string{"count": "1000001"}},
			{Setting: "count", Settings: map[string]string{"count": ""}},
			{Setting: "wait", Settings: map[string]string{"wait": "?"}},
		},
	}
	switch os.Getenv(faultVariable) {
	case "has no Setup":
		source.Setup = nil
	case "has no Main": // it has, or this could get out of hand; the suite must stop before that counts
		t.Setenv(mainVariable, "")
	}
	TestSource(t, source)
	TestSink(t, Sink{
		Plugin: numbers(),
		Setup: func(t *testing.T) map[string]string {
			return map[string]string{"path": filepath.Join(t.TempDir(), "numbers")}
		},
		Record:     func(i int) connector.Record { return connector.Record{Value: connector.TextValue(strconv.Itoa(i))} },
		BadRecord:  func() connector.Record { return connector.Record{Value: connector.TextValue("bad")} },
		Idempotent: true,
		Written: func(t *testing.T, settings map[string]string) []int {
			text, err := os.ReadFile(settings["path"])
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			var all []int
			for line := range strings.Lines(string(text)) {
				n, err := strconv.Atoi(strings.TrimSpace(line))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, n)
			}
			return all
		},
	})
}

// The suite must fail, and say what is wrong, for a connector with a fault.
func TestFaultyConnectorsFail(t *testing.T) {
	if os.Getenv(faultVariable) != "" {
		t.Skip("this is the run with a fault")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for fault, want := range map[string]string{
		"accepts anything":       "the settings were accepted",
		"logs secrets":           `the secret setting "token" is in the log`,
		"ignores positions":      "records were read, there are",
		"shares positions":       "have the position",
		"ignores cancellation":   "Read, after its context was cancelled, takes more than",
		"names the wrong record": "want RecordErrors of index 3",
		"writes twice":           "more than once",
		"keeps for later":        "the records that are there are []",
		"waits at the end":       "should return io.EOF",
		"retries for ever":       "at last because of: connection refused",
		"uses a buffer again":    "read in large batches, source partition",
		"asks for a partition":   "make records with NewRecord",
		"has no positions":       "has no Origin.Position",
		"has no Setup":           "Source.Setup is required",

		"retries for ever as a process":     "at last because of: connection refused",
		"ignores cancellation as a process": "as_a_process/stops_when_cancelled",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(self, "-test.run=^TestGoodConnectorPasses$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s", faultVariable, fault))
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("the run ended with %v, want a failure with %q:\n%s", err, want, out)
			}
		})
	}
}
