package streams_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// restored waits until all tasks run, and returns the status.
func (j *job) running(tasks int) streams.Status {
	j.t.Helper()
	var s streams.Status
	eventually(j.t, fmt.Sprintf("%d running tasks", tasks), func() (bool, string) {
		s = j.app.Status()
		n := 0
		for _, task := range s.Tasks {
			if task.Running {
				n++
			}
		}
		select {
		case <-j.done:
			return false, fmt.Sprintf("the job ended: %v", j.err)
		default:
			return n == tasks && len(s.Tasks) == tasks, fmt.Sprintf("%+v", s)
		}
	})
	return s
}

func TestRestartOnTheSameFolderRestoresNothing(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 2)
	c.createTopic("words", 1)
	dir := t.TempDir()
	j := startJob(t, wordCount(t), c.config(dir))
	c.produce("lines", "a b a", "x=c c")
	wantCounts(t, map[string]int64{"a": 2, "b": 1, "c": 2}, j)
	j.mustEnd()

	j = startJob(t, wordCount(t), c.config(dir))
	s := j.running(4)
	if s.Restored != 0 || s.FullRestores != 0 {
		t.Errorf("restored %d records and %d stores from the start, want none", s.Restored, s.FullRestores)
	}
	c.produce("lines", "a")
	wantCounts(t, map[string]int64{"a": 3, "b": 1, "c": 2}, j)
	j.mustEnd()
}

func TestNewFolderIsRestoredFromTheChangelogs(t *testing.T) {
	for name, opts := range map[string][]streams.StoreOption{"on disk": nil, "in memory": {streams.InMemory()}} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t)
			c.createTopic("lines", 2)
			c.createTopic("words", 1)
			j := startJob(t, wordCount(t, opts...), c.config(t.TempDir()))
			c.produce("lines", "a b a", "x=c c")
			wantCounts(t, map[string]int64{"a": 2, "b": 1, "c": 2}, j)
			j.mustEnd()

			j = startJob(t, wordCount(t, opts...), c.config(t.TempDir()))
			if s := j.running(4); s.FullRestores == 0 || s.Restored == 0 {
				t.Errorf("status %+v, want full restores", s)
			}
			c.produce("lines", "a")
			wantCounts(t, map[string]int64{"a": 3, "b": 1, "c": 2}, j)
			j.mustEnd()
		})
	}
}

func TestDamagedFolderIsRestored(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 1)
	c.createTopic("words", 1)
	dir := t.TempDir()
	j := startJob(t, wordCount(t), c.config(dir))
	c.produce("lines", "a b a")
	wantCounts(t, map[string]int64{"a": 2, "b": 1}, j)
	j.mustEnd()
	// The file that says which tables the database has.
	manifests, err := filepath.Glob(filepath.Join(dir, "wordcount", "by-word-repartition_0", "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("manifests: %v, %v", manifests, err)
	}
	for _, m := range manifests {
		if err := os.WriteFile(m, []byte("damage"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	j = startJob(t, wordCount(t), c.config(dir))
	c.produce("lines", "a")
	wantCounts(t, map[string]int64{"a": 3, "b": 1}, j)
	j.mustEnd()
}

func TestTrimmedChangelogIsRestoredFromItsStart(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 1)
	c.createTopic("words", 1)
	// Kafka deletes records of topics only whose policy includes it.
	deletable := streams.ChangelogSetting("cleanup.policy", "compact,delete")
	dir := t.TempDir()
	j := startJob(t, wordCount(t, deletable), c.config(dir))
	c.produce("lines", "a b a")
	wantCounts(t, map[string]int64{"a": 2, "b": 1}, j)
	j.mustEnd()

	// Another instance, elsewhere, writes more; then all of it goes.
	j = startJob(t, wordCount(t, deletable), c.config(t.TempDir()))
	c.produce("lines", "b")
	wantCounts(t, map[string]int64{"a": 2, "b": 2}, j)
	j.mustEnd()
	adm := kadm.NewClient(c.client)
	ends, err := adm.ListEndOffsets(t.Context(), "wordcount-counts-changelog")
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := adm.DeleteRecords(t.Context(), ends.Offsets())
	if err = errors.Join(err, deleted.Error()); err != nil {
		t.Fatal(err)
	}
	j = startJob(t, wordCount(t, deletable), c.config(dir))
	if s := j.running(2); s.FullRestores != 1 {
		t.Errorf("%d full restores, want 1: the changelog begins after the stored offset", s.FullRestores)
	}
	c.produce("lines", "z")
	wantCounts(t, map[string]int64{"z": 1}, j)
	j.mustEnd()
}

// TestDamagedChangelogEndsTheJob has a value in the changelog that no store wrote. The task restores once more, finds the
// same, and gives up, saying which store it is.
func TestDamagedChangelogEndsTheJob(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 1)
	c.createTopic("words", 1)
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	j.running(2)
	j.mustEnd()
	c.produce("wordcount-counts-changelog", "a=short")
	j = startJob(t, wordCount(t), c.config(t.TempDir()))
	c.produce("lines", "a")
	select {
	case <-j.done:
	case <-time.After(patience):
		t.Fatal("the job goes on with a damaged store")
	}
	if !errors.Is(j.err, state.ErrCorrupt) || !strings.Contains(j.err.Error(), `"counts"`) {
		t.Errorf("the job ended with %v, want ErrCorrupt and the store's name", j.err)
	}
	if s := j.app.Status(); s.FullRestores != 2 {
		t.Errorf("%d full restores, want 2", s.FullRestores)
	}
}

// TestInternalTopicsArePurged moves the job's clock over the purge interval.
func TestInternalTopicsArePurged(t *testing.T) {
	c := startCluster(t)
	c.createTopic("clicks", 1)
	c.createTopic("out", 1)
	b := streams.NewBuilder("purged")
	b.Stream("clicks", serde.String, serde.String).
		GroupBy("by-page", func(_, page string) string { return page }, serde.String).
		WindowedBy(window.Tumbling(time.Second)).
		Count("per-second").
		ToStream().To("out")
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var ahead atomic.Int64
	cfg := c.config(t.TempDir())
	cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	j := startJob(t, topology, cfg)
	at := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 10 {
		c.produceAt("clicks", at.Add(time.Duration(i)*time.Hour), "page")
	}
	eventually(t, "ten windows", func() (bool, string) {
		s := j.app.Status()
		return s.Processed == 20, fmt.Sprintf("%+v", s)
	})
	j.caughtUp()
	ahead.Store(int64(time.Hour))
	adm := kadm.NewClient(c.client)
	eventually(t, "the starts of the internal topics to move", func() (bool, string) {
		starts, err := adm.ListStartOffsets(t.Context(), "purged-by-page-repartition", "purged-per-second-changelog")
		if err != nil {
			return false, err.Error()
		}
		repartition, _ := starts.Lookup("purged-by-page-repartition", 0)
		changelog, _ := starts.Lookup("purged-per-second-changelog", 0)
		// Commits go on, and the next purge is due.
		c.produceAt("clicks", at.Add(20*time.Hour), "page")
		ahead.Add(int64(time.Minute))
		return repartition.Offset >= 10 && changelog.Offset > 0, fmt.Sprintf("repartition %d, changelog %d", repartition.Offset, changelog.Offset)
	})
	j.mustEnd()
}

// TestCrashBetweenStepsOfACommit ends the job at each step of a commit, on the same folder and on a new one. Nothing may
// be lost, and what is counted twice is at most what came since the commit before.
func TestCrashBetweenStepsOfACommit(t *testing.T) {
	crash := errors.New("crash")
	for step, name := range map[streams.CommitStep]string{
		streams.BeforeFlush: "before flush", streams.BeforeState: "before state", streams.BeforeOffsets: "before offsets", streams.AfterOffsets: "after offsets",
	} {
		for _, folder := range []string{"same folder", "new folder"} {
			t.Run(name+" on the "+folder, func(t *testing.T) {
				t.Parallel()
				c := startCluster(t)
				c.createTopic("lines", 2)
				c.createTopic("words", 1)
				dir := t.TempDir()
				j := startJob(t, wordCount(t), c.config(dir))
				c.produce("lines", "a b", "x=a")
				wantCounts(t, map[string]int64{"a": 2, "b": 1}, j)
				j.mustEnd()

				var armed atomic.Bool
				j = startJob(t, wordCount(t), streams.InterruptCommits(c.config(dir), func(s streams.CommitStep) error {
					if armed.Load() && s == step {
						return crash
					}
					return nil
				}))
				j.running(4)
				armed.Store(true)
				c.produce("lines", "a b", "x=a")
				select {
				case <-j.done:
				case <-time.After(patience):
					t.Fatal("the job did not crash")
				}
				if !errors.Is(j.err, crash) {
					t.Fatalf("the job ended with %v, want the crash", j.err)
				}

				if folder == "new folder" {
					dir = t.TempDir()
				}
				j = startJob(t, wordCount(t), c.config(dir))
				c.produce("lines", "end")
				eventually(t, "the last record", func() (bool, string) {
					got, err := counts(j.app)
					return got["end"] == 1, fmt.Sprintf("%v, %v", got, err)
				})
				j.caughtUp()
				got, err := counts(j.app)
				if err != nil {
					t.Fatal(err)
				}
				// The first part of the job repeats "a b" and "a" into the repartition topic, and the second part
				// may repeat that: each at most once.
				if got["a"] < 4 || got["a"] > 2+2*4 || got["b"] < 2 || got["b"] > 1+4 {
					t.Errorf("counts %v: lost or invented something", got)
				}
				if table := c.table("words"); !maps.Equal(table, got) {
					t.Errorf("topic words says %v, the store %v", table, got)
				}
				j.mustEnd()
			})
		}
	}
}

// caughtUp waits until everything is processed and committed.
func (j *job) caughtUp() {
	j.t.Helper()
	eventually(j.t, "no lag", func() (bool, string) {
		s := j.app.Status()
		for _, task := range s.Tasks {
			for _, in := range task.Inputs {
				if !task.Running || in.Lag > 0 || in.Next >= 0 && in.Committed < in.Next {
					return false, fmt.Sprintf("%+v", task)
				}
			}
		}
		return len(s.Tasks) > 0, fmt.Sprintf("%+v", s)
	})
}

func TestInstancesShareThePartitionsAndTakeOver(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 4)
	c.createTopic("words", 1)
	want := map[string]int64{}
	send := func(n int) {
		var lines []string
		for i := range n {
			w := fmt.Sprintf("w%d", i%17)
			want[w]++
			lines = append(lines, fmt.Sprintf("k%d=%s", i, w))
		}
		c.produce("lines", lines...)
	}
	first := startJob(t, wordCount(t), c.config(t.TempDir()))
	send(100)
	wantCounts(t, want, first)

	cfg := c.config(t.TempDir())
	cfg.Threads = 2
	second := startJob(t, wordCount(t), cfg)
	eventually(t, "tasks on both", func() (bool, string) {
		a, b := first.app.Status(), second.app.Status()
		n := 0
		for _, task := range append(a.Tasks, b.Tasks...) {
			if task.Running {
				n++
			}
		}
		// Three threads share eight tasks; one of them is in the first process.
		return n == 8 && len(a.Tasks) >= 2 && len(a.Tasks) <= 3 && len(b.Tasks) >= 5, fmt.Sprintf("%d and %d tasks", len(a.Tasks), len(b.Tasks))
	})
	send(100)
	wantCounts(t, want, first, second)
	first.mustEnd()
	second.running(8)
	send(100)
	wantCounts(t, want, second)
	second.mustEnd()
}

func TestFailingRecordEndsTheJobAndTheOthersAreCommitted(t *testing.T) {
	c := startCluster(t)
	c.createTopic("numbers", 2)
	c.createTopic("out", 1)
	b := streams.NewBuilder("picky")
	b.Stream("numbers", serde.String, serde.String).
		TryMap("parse", func(k, v string) (string, string, error) {
			if v == "bad" {
				return "", "", errors.New("cannot parse")
			}
			return k, v, nil
		}).
		To("out")
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	j := startJob(t, topology, c.config(t.TempDir()))
	c.produce("numbers", "k=1", "k=bad", "k=2")
	select {
	case <-j.done:
	case <-time.After(patience):
		t.Fatal("the job goes on after a failure that nobody handles")
	}
	if j.err == nil || !strings.Contains(j.err.Error(), "cannot parse") || !strings.Contains(j.err.Error(), "numbers[") {
		t.Errorf("the job ended with %v, want the cause and where the record is", j.err)
	}
}

func TestMissingInputTopicIsNamed(t *testing.T) {
	c := startCluster(t)
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	select {
	case <-j.done:
	case <-time.After(patience):
		t.Fatal("the job runs without its input topic")
	}
	if j.err == nil || !strings.Contains(j.err.Error(), `"lines"`) {
		t.Errorf("the job ended with %v, want the topic's name", j.err)
	}
}

func TestSecondProcessOnAFolderIsRefused(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 1)
	dir := t.TempDir()
	j := startJob(t, wordCount(t), c.config(dir))
	j.running(2)
	other := startJob(t, wordCount(t), c.config(dir))
	select {
	case <-other.done:
	case <-time.After(patience):
		t.Fatal("two apps run in one folder")
	}
	if other.err == nil || !strings.Contains(other.err.Error(), "StateDir") {
		t.Errorf("the second app ended with %v, want advice about StateDir", other.err)
	}
	j.mustEnd()
}

// TestWindowsOfOldDataSurviveANewFolder counts windows of the year 2001. No broker that looks at the clock may delete
// their changelog.
func TestWindowsOfOldDataSurviveANewFolder(t *testing.T) {
	c := startCluster(t)
	c.createTopic("old", 1)
	c.createTopic("out", 1)
	start := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	made := func() (*streams.Topology, state.WindowRef[string, int64]) {
		b := streams.NewBuilder("history")
		table := b.Stream("old", serde.String, serde.String, streams.EventTime(func(_, v string) (time.Time, bool) {
			d, err := time.ParseDuration(v)
			return start.Add(d), err == nil
		})).
			GroupByKey().
			WindowedBy(window.Tumbling(time.Minute).Grace(time.Hour)).
			Count("per-minute")
		table.ToStream().To("out")
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		ref, ok := table.WindowStore()
		if !ok {
			t.Fatal("the table has no window store")
		}
		return topology, ref
	}
	topology, ref := made()
	windows := func(j *job) map[string]int64 {
		out := map[string]int64{}
		_ = j.app.QueryWindow(ref).All(window.Span{Start: 0, End: 1 << 60}, func(k string, s window.Instant, n int64, _ window.Instant) bool {
			out[fmt.Sprintf("%s+%v", k, time.Duration(s-window.At(start))*time.Millisecond)] = n
			return true
		})
		return out
	}
	expect := func(j *job, want map[string]int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("windows %v", want), func() (bool, string) {
			got := windows(j)
			return maps.Equal(got, want), fmt.Sprintf("%v", got)
		})
	}
	j := startJob(t, topology, c.config(t.TempDir()))
	c.produce("old", "k=5s", "k=30s", "k=10m")
	expect(j, map[string]int64{"k+0s": 2, "k+10m0s": 1})
	j.mustEnd()

	j = startJob(t, topology, c.config(t.TempDir()))
	c.produce("old", "k=50s", "k=62m") // the first window is still open; then it closes
	expect(j, map[string]int64{"k+10m0s": 1, "k+1h2m0s": 1})
	j.mustEnd()

	// Stream time came back with the committed offset: the first window stays closed.
	j = startJob(t, topology, c.config(t.TempDir()))
	c.produce("old", "k=20s", "k=11m")
	expect(j, map[string]int64{"k+10m0s": 1, "k+11m0s": 1, "k+1h2m0s": 1})
	j.mustEnd()
}
