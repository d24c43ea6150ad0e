package streams_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// waitCaughtUp waits until the job has caught up.
func (j *job) waitCaughtUp() {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), patience)
	defer cancel()
	if err := j.app.WaitCaughtUp(ctx); err != nil {
		j.t.Fatal(err)
	}
}

// manyWords writes n different words to topic lines, and returns their counts.
func (c *cluster) manyWords(n int) map[string]int64 {
	c.t.Helper()
	want := map[string]int64{}
	var lines []string
	for i := range n {
		word := fmt.Sprintf("word%d", i)
		lines = append(lines, fmt.Sprintf("%d=%s", i, word))
		want[word]++
	}
	c.produce("lines", lines...)
	return want
}

// TestCaughtUpJobAnswersForAllThatItRead starts jobs on input that is processed already, with nothing or everything to restore.
func TestCaughtUpJobAnswersForAllThatItRead(t *testing.T) {
	for _, threads := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d threads", threads), func(t *testing.T) {
			c := startCluster(t)
			c.createTopic("lines", 3)
			c.createTopic("words", 1)
			want := c.manyWords(3000)
			kept := t.TempDir()
			for round, dir := range []string{kept, t.TempDir(), t.TempDir(), kept} {
				cfg := c.config(dir)
				cfg.Threads = threads
				j := startJob(t, wordCount(t), cfg)
				j.waitCaughtUp()
				got, err := counts(j.app)
				status := j.app.Status()
				if err != nil || !maps.Equal(got, want) {
					t.Errorf("round %d: a job that caught up has %d words, %v, want %d", round, len(got), err, len(want))
				}
				running := 0
				for _, task := range status.Tasks {
					if task.Running {
						running++
					}
				}
				if running != 6 {
					t.Errorf("round %d: a job that caught up runs %d tasks, want 6: %+v", round, running, status.Tasks)
				}
				j.mustEnd()
			}
		})
	}
}

// TestCaughtUpJobsHaveAllTasks starts a second process, to which tasks move.
func TestCaughtUpJobsHaveAllTasks(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 3)
	c.createTopic("words", 1)
	want := c.manyWords(3000)
	first := startJob(t, wordCount(t), c.config(t.TempDir()))
	first.waitCaughtUp()
	second := startJob(t, wordCount(t), c.config(t.TempDir()))
	second.waitCaughtUp()
	for i, j := range []*job{first, second} {
		if n := len(j.app.Status().Tasks); n != 3 {
			t.Errorf("process %d has %d tasks, want 3", i, n)
		}
	}
	got, err := counts(first.app, second.app)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("together the processes have %d words, %v, want %d", len(got), err, len(want))
	}
	second.mustEnd()
	first.mustEnd()
}

// TestQueriesAreWholeOrUnavailable queries from when a job starts on an empty folder until it is restored.
func TestQueriesAreWholeOrUnavailable(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 8)
	c.createTopic("words", 1)
	want := c.manyWords(3000)
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	j.waitCaughtUp()
	j.mustEnd()

	j = startJob(t, wordCount(t), c.config(t.TempDir()))
	var waited atomic.Bool
	go func() {
		defer waited.Store(true)
		_ = j.app.WaitCaughtUp(t.Context()) // the queries tell
	}()
	for done := false; !done; {
		done = waited.Load()
		n := 0
		err := j.app.Query(countsRef).All(func(string, int64, window.Instant) bool { n++; return true })
		if n != len(want) && (n != 0 || !errors.Is(err, state.ErrUnavailable)) {
			t.Fatalf("a query gave %d of %d words, and %v", n, len(want), err)
		}
	}
	j.mustEnd()
}

func TestNewWantsATopology(t *testing.T) {
	for _, cfg := range []streams.Config{{}, {Brokers: []string{"127.0.0.1:1"}}} {
		if _, err := streams.New(nil, cfg); err == nil {
			t.Errorf("New took no topology, with %+v", cfg)
		}
	}
}
