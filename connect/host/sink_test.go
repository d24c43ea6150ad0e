package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

func readLines(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func TestKilledSinkIsSentTheBatchAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	s := openSink(t, newTestHost(t, nil), TaskConfig{Settings: map[string]string{"path": path}})
	const batches, size, kills = 120, 5, 6
	for n := range batches {
		if n%(batches/kills) == 10 {
			pid := s.Status().PID
			delay := time.Duration(n) * 20 * time.Microsecond // at different moments of a Write
			go func() {
				time.Sleep(delay)
				killProcess(t, pid)
			}()
		}
		var texts []string
		for i := range size {
			texts = append(texts, strconv.Itoa(n*size+i+1))
		}
		if err := s.Write(context.Background(), batchOf(texts...)); err != nil {
			t.Fatalf("writing batch %d: %v", n, err)
		}
	}
	// The test's sink does not recognise what it has written, so a batch
	// whose answer was lost is there twice: nothing else may be.
	seen := make(map[string]int)
	next := 1
	lines := readLines(t, path)
	for _, line := range lines {
		if seen[line]++; seen[line] == 1 {
			if line != strconv.Itoa(next) {
				t.Fatalf("line %q is where %d should be", line, next)
			}
			next++
		}
	}
	if next-1 != batches*size {
		t.Errorf("%d records arrived, want %d", next-1, batches*size)
	}
	if extra := len(lines) - batches*size; extra > kills*size {
		t.Errorf("%d lines too many, for %d kills", extra, kills)
	}
}

func TestBadRecordsAreNamedByTheirIndexInTheWholeBatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	h := newTestHost(t, func(c *Config) { c.BatchBytes = 200 }) // a few records a piece
	s := openSink(t, h, TaskConfig{Settings: map[string]string{"path": path}})
	var texts, good []string
	for i := range 50 {
		text := strconv.Itoa(i)
		if i == 3 || i == 41 {
			text += " bad"
		} else {
			good = append(good, text)
		}
		texts = append(texts, text)
	}
	err := s.Write(context.Background(), batchOf(texts...))
	bad, ok := errors.AsType[connector.RecordErrors](err)
	if !ok || len(bad) != 2 || bad[3] == nil || bad[41] == nil {
		t.Fatalf("error is %v", err)
	}
	if got := bad[41].Error(); got != `"41 bad" is bad` {
		t.Errorf("the cause is %q", got)
	}
	requireTexts(t, readLines(t, path), good)
}

func TestUnflushedRecordsOfAKilledSinkAreAskedForAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	s := openSink(t, newTestHost(t, nil), TaskConfig{Plugin: "flushing", Settings: map[string]string{"path": path}})
	ctx := context.Background()
	write := func(text string) {
		t.Helper()
		if err := s.Write(ctx, batchOf(text)); err != nil {
			t.Fatalf("writing %q: %v", text, err)
		}
	}
	write("1")
	if !s.NeedsFlush() {
		t.Error("NeedsFlush is false")
	}
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	write("2")
	killProcess(t, s.Status().PID)
	eventually(t, "the restart", func() bool { return s.Status().Restarts == 1 && s.Status().State == Running })
	if err := s.Write(ctx, batchOf("3")); !errors.Is(err, ErrRewind) {
		t.Fatalf("writing after the loss: %v, want ErrRewind", err)
	}
	write("2")
	write("3")
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	requireTexts(t, readLines(t, path), []string{"1", "2", "3"})
}

func TestSinkRetriesAndFails(t *testing.T) {
	dir := t.TempDir()
	h := newTestHost(t, nil)
	retrying := openSink(t, h, TaskConfig{Settings: map[string]string{"path": filepath.Join(dir, "a"), "mode": "retries"}})
	if err := retrying.Write(context.Background(), batchOf("1")); err != nil {
		t.Fatal(err)
	}
	requireTexts(t, readLines(t, filepath.Join(dir, "a")), []string{"1"})

	failing := openSink(t, h, TaskConfig{Settings: map[string]string{"path": filepath.Join(dir, "b"), "mode": "fails"}})
	for range 2 { // it stays failed
		if err := failing.Write(context.Background(), batchOf("1")); err == nil || err.Error() != "out of paper" {
			t.Fatalf("error is %v", err)
		}
	}
}

func TestCancelledWriteCanBeFollowedByAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	s := openSink(t, newTestHost(t, nil), TaskConfig{Settings: map[string]string{"path": path, "mode": "hangs"}})
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		err := s.Write(ctx, batchOf("1"))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error is %v", err)
		}
	}
}

func TestWriteEndsWithClose(t *testing.T) {
	s := openSink(t, newTestHost(t, nil), TaskConfig{Settings: map[string]string{"path": filepath.Join(t.TempDir(), "out"), "mode": "hangs"}})
	written := make(chan error, 1)
	go func() { written <- s.Write(context.Background(), batchOf("1")) }()
	eventually(t, "the process", func() bool { return s.Status().State == Running })
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("closing: %v", err)
	}
	if err := <-written; !errors.Is(err, ErrClosed) {
		t.Errorf("Write returned %v, want ErrClosed", err)
	}
}
