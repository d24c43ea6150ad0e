package host

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// readAll reads until the end.
func readAll(t testing.TB, s *Source, each func(read int)) []string {
	t.Helper()
	var all []string
	for {
		b, err := s.Read(context.Background())
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("reading after %d records: %v", len(all), err)
		}
		all = append(all, texts(b)...)
		if each != nil {
			each(len(all))
		}
	}
}

// readError reads until an error other than the end.
func readError(t testing.TB, s *Source) (read []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		b, err := s.Read(ctx)
		if err != nil {
			return read, err
		}
		read = append(read, texts(b)...)
	}
}

func killProcess(t testing.TB, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("killing process %d: %v", pid, err)
	}
}

func TestSourceIsReadToItsEnd(t *testing.T) {
	s := openSource(t, newTestHost(t, nil), TaskConfig{Settings: map[string]string{"count": "95"}})
	requireTexts(t, readAll(t, s, nil), numbersUpTo(95))
	if _, err := s.Read(context.Background()); err != io.EOF {
		t.Errorf("after the end, Read returned %v, want io.EOF", err)
	}
	status := s.Status()
	if !status.HasProgress || status.Progress != (connector.Progress{Done: 95, Total: 95, Unit: "numbers"}) {
		t.Errorf("progress is %+v", status.Progress)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("closing: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.cfg.StateDir, "closed")); err != nil {
		t.Errorf("the connector's Close was not called: %v", err)
	}
}

func TestSourceResumesBehindTheStoredPosition(t *testing.T) {
	s := openSource(t, newTestHost(t, nil), TaskConfig{
		Settings: map[string]string{"count": "12"}, Resume: map[string]string{"numbers": "10"}})
	requireTexts(t, readAll(t, s, nil), []string{"11", "12"})
}

// A plugin that dies under a living worker costs and invents no record,
// whatever it was doing: reading, waiting with a batch for the worker to take
// it, or starting again.
func TestKilledSourceResumesBehindTheLastRecordTaken(t *testing.T) {
	for _, c := range []struct {
		name      string
		pause     string
		afterKill time.Duration // before the next Read
	}{
		{"while it reads", "3ms", 0},
		{"while a batch waits", "0", 0},
		{"and the batch that it read is asked for later", "0", 30 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := openSource(t, newTestHost(t, nil), TaskConfig{Settings: map[string]string{"count": "600", "batch": "7", "pause": c.pause}})
			kills := 0
			got := readAll(t, s, func(read int) {
				if pid := s.Status().PID; read/100 > kills && read < 600 && pid != 0 {
					kills++
					killProcess(t, pid)
					time.Sleep(c.afterKill)
				}
			})
			requireTexts(t, got, numbersUpTo(600))
			if status := s.Status(); kills < 4 || status.Restarts < kills {
				t.Errorf("%d kills, %d restarts", kills, status.Restarts)
			}
		})
	}
}

func TestCancelledReadLosesNothing(t *testing.T) {
	s := openSource(t, newTestHost(t, nil), TaskConfig{Settings: map[string]string{"count": "100", "pause": "5ms"}})
	var got []string
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		b, err := s.Read(ctx)
		cancel()
		switch {
		case err == nil:
			got = append(got, texts(b)...)
			continue
		case errors.Is(err, context.DeadlineExceeded):
			continue
		case err != io.EOF:
			t.Fatal(err)
		}
		break
	}
	requireTexts(t, got, numbersUpTo(100))
}

func TestLargeBatchesAreCutAndLargeRecordsPass(t *testing.T) {
	h := newTestHost(t, func(c *Config) { c.BatchBytes = 400 })
	s := openSource(t, h, TaskConfig{Settings: map[string]string{"count": "300", "batch": "100"}})
	b, err := s.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() > 10 {
		t.Errorf("a batch of %d records was not cut to 400 bytes", b.Len())
	}
	rest := readAll(t, s, nil)
	requireTexts(t, append(texts(b), rest...), numbersUpTo(300))

	sink := openSink(t, h, TaskConfig{Settings: map[string]string{"path": filepath.Join(t.TempDir(), "out")}})
	large := strings.Repeat("x", 10<<20)
	if err := sink.Write(context.Background(), batchOf("small", large)); err != nil {
		t.Fatalf("a record of 10 MiB: %v", err)
	}
}

func TestAckReachesTheSource(t *testing.T) {
	s := openSource(t, newTestHost(t, nil), TaskConfig{Settings: map[string]string{"count": "5"}})
	readAll(t, s, nil)
	if !s.WantsAcks() {
		t.Error("the source is an Acker, but WantsAcks is false")
	}
	if err := s.Ack(context.Background(), map[string]string{"numbers": "5"}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(s.cfg.StateDir, "acked")); err != nil || string(got) != "5" {
		t.Errorf("acked %q, %v", got, err)
	}
}

func TestSourceThatFailsSaysWhy(t *testing.T) {
	for _, c := range []struct {
		mode, wantErr string
		wantRead      int
	}{
		{"open-fails", "logging in with [hidden]: refused", 0},
		{"open-problem", "count: must not be 40", 0},
		{"read-fails", "the numbers ran out", 10},
		{"read-panics", "panic: cannot count that far", 10},
		{"read-panics", "plugin_test.go:", 10},
		{"read-log-fatals", "out of numbers", 10},
		{"dies-at-once", "exit status 7", 0},
	} {
		t.Run(c.mode+", "+c.wantErr, func(t *testing.T) {
			t.Parallel()
			var log logBuffer
			h := newTestHost(t, func(cfg *Config) { cfg.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
			s := openSource(t, h, TaskConfig{Settings: map[string]string{"count": "40", "mode": c.mode, "password": `hush "hush"`}})
			read, err := readError(t, s)
			if err == nil || !strings.Contains(err.Error(), c.wantErr) {
				t.Fatalf("error is %v, want %q in it", err, c.wantErr)
			}
			if len(read) != c.wantRead {
				t.Errorf("read %d records before, want %d", len(read), c.wantRead)
			}
			status := s.Status()
			if status.State != Failed || status.Err == nil {
				t.Errorf("status is %+v", status)
			}
			if all := err.Error() + status.Err.Error() + log.String(); strings.Contains(all, "hush") {
				t.Errorf("the secret is in: %s", all)
			}
			if err := s.Close(context.Background()); err != nil {
				t.Errorf("closing: %v", err)
			}
		})
	}
}

func TestRetryOfReadIsShownAndGoesOn(t *testing.T) {
	var seen []string
	s := openSource(t, newTestHost(t, nil), TaskConfig{
		Settings: map[string]string{"count": "20", "mode": "read-retries"},
		OnStatus: func(status Status) {
			if status.Err != nil {
				seen = append(seen, status.State.String()+": "+status.Err.Error())
			}
		},
	})
	requireTexts(t, readAll(t, s, nil), numbersUpTo(20))
	_ = s.Close(context.Background())
	if len(seen) != 1 || seen[0] != "running: a moment, please" {
		t.Errorf("statuses with an error: %q", seen)
	}
}

func TestRetryOfOpenStartsAgainUntilItWorks(t *testing.T) {
	s := openSource(t, newTestHost(t, nil), TaskConfig{Settings: map[string]string{"count": "3", "mode": "open-retries"}})
	eventually(t, "more retries than crashes would be allowed", func() bool { return s.Status().Restarts > 5 })
	if err := os.WriteFile(filepath.Join(s.cfg.StateDir, "ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	requireTexts(t, readAll(t, s, nil), numbersUpTo(3))
}

func TestStartThatFailsSaysWhy(t *testing.T) {
	for plugin, want := range map[string]string{
		"chatty":             `it printed "hello from an author who debugs" to standard output before it called connector.Serve`,
		"chatty-on-the-line": `it printed "loading..." to standard output before`,
		"early-exit":         "no licence file found",
	} {
		t.Run(plugin, func(t *testing.T) {
			t.Parallel()
			s := openSource(t, newTestHost(t, nil), TaskConfig{Plugin: plugin})
			if _, err := readError(t, s); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error is %v, want %q in it", err, want)
			}
		})
	}
}

func TestCloseWorksInEveryState(t *testing.T) {
	for _, c := range []struct {
		name, plugin, mode string
		state              State
		wantErr            string
	}{
		{"while the process starts", "never-serves", "", Starting, ""},
		{"while the connector opens", "", "open-hangs", Starting, ""},
		{"while it backs off", "", "dies-at-once", BackingOff, ""},
		{"while it runs", "", "", Running, ""},
		{"when it failed", "", "open-fails", Failed, ""},
		{"while it will not close", "", "close-hangs", Running, "Close did not return within"},
		{"while its Read does not return", "", "read-blocks", Running, "Read, whose context had ended, did not return within"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, func(cfg *Config) {
				cfg.StopTimeout = 300 * time.Millisecond
				if c.state == BackingOff {
					cfg.Backoff = Backoff{First: time.Hour, Longest: time.Hour}
				}
			})
			dir := t.TempDir()
			s := openSource(t, h, TaskConfig{Plugin: c.plugin, StateDir: dir, Settings: map[string]string{"mode": c.mode}})
			eventually(t, "state "+c.state.String(), func() bool { return s.Status().State == c.state })
			reading := make(chan error, 1)
			go func() {
				_, err := s.Read(context.Background())
				for err == nil {
					_, err = s.Read(context.Background())
				}
				reading <- err
			}()
			if c.mode == "read-blocks" {
				eventually(t, "the connector's Read", func() bool { return pathExists(filepath.Join(dir, "reading")) })
			}
			begin := time.Now()
			err := s.Close(context.Background())
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("closing took %v", took)
			}
			if (c.wantErr == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("closing: %v, want %q", err, c.wantErr)
			}
			if status := s.Status(); status.State != Stopped || status.PID != 0 {
				t.Errorf("status is %+v", status)
			}
			if err := <-reading; c.state != Failed && !errors.Is(err, ErrClosed) {
				t.Errorf("the Read that was waiting returned %v, want ErrClosed", err)
			}
		})
	}
}

func TestRecordsOfAPluginMustHavePositions(t *testing.T) {
	sent := new(connector.Batch)
	sent.Append(connector.NewRecord(connector.Origin{Position: "1"}, connector.Value{}, connector.TextValue("v")))
	sent.Append(connector.NewRecord(connector.Origin{Partition: "p"}, connector.Value{}, connector.TextValue("v")))
	frame, _, err := connector.NewEncoder().Encode(sent, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = decodeRead(connector.NewDecoder(), frame, new(connector.Batch))
	if err == nil || !strings.Contains(err.Error(), "record 1 of a batch has no position") {
		t.Errorf("got %v", err)
	}
}

func TestErrorOfCloseIsReturnedOrLoggedWithoutSecrets(t *testing.T) {
	const want = "closing the connector: logging out [hidden]: refused"
	var log logBuffer
	h := newTestHost(t, func(cfg *Config) { cfg.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	s := openSource(t, h, TaskConfig{Settings: map[string]string{"mode": "close-fails", "password": "hush-hush"}})
	if _, err := s.Read(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(context.Background()); err == nil || err.Error() != want {
		t.Errorf("closing: %v, want %q", err, want)
	}
	s = openSource(t, h, TaskConfig{Settings: map[string]string{"mode": "read-and-close-fail", "password": "hush-hush"}})
	if _, err := readError(t, s); err == nil || err.Error() != "the numbers ran out" {
		t.Errorf("reading: %v", err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("closing what has failed: %v", err)
	}
	if got := log.String(); !strings.Contains(got, want) || strings.Contains(got, "hush-hush") {
		t.Errorf("logged %s", got)
	}
}
