package streams_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestManyPartitionsAndFewThreads runs 200 tasks in two threads, on a backlog, and leaves nothing behind.
func TestManyPartitionsAndFewThreads(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 100)
	c.createTopic("words", 10)
	var lines []string
	for i := range 20_000 {
		lines = append(lines, fmt.Sprintf("k%d=w%d", i, i%1000))
	}
	c.produce("lines", lines...)
	clients := strings.Count(stacks(), clientLoop)
	cfg := c.config(t.TempDir())
	cfg.Threads = 2
	j := startJob(t, wordCount(t), cfg)
	if err := j.app.WaitCaughtUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, n := range c.table("words") {
		total += n
	}
	if total != 20_000 {
		t.Errorf("counted %d words of 20000", total)
	}
	began := time.Now()
	j.mustEnd()
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("a clean stop took %v", d)
	}
	eventually(t, "goroutines to end", func() (bool, string) {
		all := stacks()
		return !strings.Contains(all, "streams/internal/worker") && !strings.Contains(all, "streams/state") && strings.Count(all, clientLoop) == clients, all
	})
}

// clientLoop is a function that runs once for each Kafka client.
const clientLoop = "kgo.(*Client).updateMetadataLoop("

// stacks returns what all goroutines are at.
func stacks() string {
	buf := make([]byte, 4<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// TestDeletedInputTopicEndsTheJob deletes the input of a running job, makes it again, and moves the job's clock. Nobody is to
// wait for a topic that is gone, and a new topic is another one, which a restarted job reads from its start.
func TestDeletedInputTopicEndsTheJob(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 1)
	c.createTopic("words", 1)
	var ahead atomic.Int64
	var log lineCount
	cfg := c.config(t.TempDir())
	cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	j := startJob(t, wordCount(t), cfg)
	c.produce("lines", "a", "b", "a")
	wantCounts(t, map[string]int64{"a": 2, "b": 1}, j)
	j.caughtUp()
	if _, err := kadm.NewClient(c.client).DeleteTopics(t.Context(), "lines"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job to end", func() (bool, string) {
		ahead.Add(int64(100 * time.Millisecond))
		select {
		case <-j.done:
			return true, ""
		default:
			return false, fmt.Sprintf("%+v", j.app.Status())
		}
	})
	if j.err == nil || !strings.Contains(j.err.Error(), `input topic "lines" is gone`) {
		t.Errorf("the job ended with %v, want the topic", j.err)
	}
	if n := log.count(); n > 50 {
		t.Errorf("the job logged %d warnings", n)
	}
	if found, err := kadm.NewClient(c.client).ListTopics(t.Context()); err != nil || found.Has("lines") {
		t.Errorf("the job made its input topic again: %v, %v", found.Names(), err)
	}

	c.createTopic("lines", 1)
	fresh, err := kgo.NewClient(c.broker.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if err := fresh.ProduceSync(t.Context(), &kgo.Record{Topic: "lines", Value: []byte("b")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	j = startJob(t, wordCount(t), c.config(t.TempDir()))
	wantCounts(t, map[string]int64{"a": 2, "b": 2}, j)
	j.mustEnd()
}

// lineCount counts what is logged.
type lineCount struct{ n atomic.Int64 }

func (l *lineCount) Write(p []byte) (int, error) { l.n.Add(1); return len(p), nil }
func (l *lineCount) count() int64                { return l.n.Load() }

func TestDeletedChangelogEndsTheJob(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 1)
	c.createTopic("words", 1)
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	c.produce("lines", "a")
	wantCounts(t, map[string]int64{"a": 1}, j)
	if _, err := kadm.NewClient(c.client).DeleteTopics(t.Context(), "wordcount-counts-changelog"); err != nil {
		t.Fatal(err)
	}
	c.produce("lines", "a")
	select {
	case <-j.done:
	case <-time.After(patience):
		t.Fatal("the job goes on without its changelog")
	}
	if j.err == nil || !strings.Contains(j.err.Error(), `changelog "wordcount-counts-changelog"`) {
		t.Errorf("the job ended with %v, want the changelog", j.err)
	}
}

func TestUnusableStateFolderIsNamed(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 1)
	c.createTopic("words", 1)
	c.produce("lines", "a")
	file := filepath.Join(t.TempDir(), "file")
	inTheWay := t.TempDir()
	err := errors.Join(os.WriteFile(file, nil, 0o600), os.MkdirAll(filepath.Join(inTheWay, "wordcount"), 0o700),
		os.WriteFile(filepath.Join(inTheWay, "wordcount", "by-word-repartition_0"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"a file": file, "a file where a task's folder belongs": inTheWay} {
		t.Run(name, func(t *testing.T) {
			j := startJob(t, wordCount(t), c.config(dir))
			select {
			case <-j.done:
			case <-time.After(patience):
				t.Fatal("the job runs without its folder")
			}
			if j.err == nil || !strings.Contains(j.err.Error(), dir) {
				t.Errorf("the job ended with %v, want the folder's path", j.err)
			}
		})
	}
}

// TestJobSurvivesPowerCuts takes the power from the broker under the job: writes that were not acknowledged are lost.
func TestJobSurvivesPowerCuts(t *testing.T) {
	c := startCluster(t)
	c.countThrough(3, func(i int) {
		c.broker.CutPower(uint64(i))
		c.broker.Start()
	}).mustEnd()
}

// TestTasksMoveWhileTheyAreRestored starts and stops processes while another restores, again and again.
func TestTasksMoveWhileTheyAreRestored(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 4)
	c.createTopic("words", 1)
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	want := map[string]int64{}
	var words []string
	for i := range 5000 {
		w := fmt.Sprintf("w%d", i)
		want[w] = 1
		words = append(words, w)
	}
	c.produce("lines", words...)
	wantCounts(t, want, j)
	j.mustEnd()
	stays := startJob(t, wordCount(t), c.config(t.TempDir()))
	for i := range 5 {
		other := startJob(t, wordCount(t), c.config(t.TempDir()))
		eventually(t, "an assignment", func() (bool, string) {
			s := other.app.Status()
			return len(s.Tasks) > i%3, fmt.Sprintf("%+v", s)
		})
		other.mustEnd()
	}
	stays.running(8)
	wantCounts(t, want, stays)
	stays.mustEnd()
}

// TestFoldersOfTasksThatMovedAwayAreRemoved moves a process's clock over the delay.
func TestFoldersOfTasksThatMovedAwayAreRemoved(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 4)
	c.createTopic("words", 1)
	var ahead atomic.Int64
	dir := t.TempDir()
	cfg := c.config(dir)
	cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	j := startJob(t, wordCount(t), cfg)
	j.running(8)
	other := startJob(t, wordCount(t), c.config(t.TempDir()))
	other.running(4)
	folders := func() []string {
		all, err := filepath.Glob(filepath.Join(dir, "wordcount", "by-word-repartition_*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if n := len(folders()); n != 4 {
		t.Errorf("%d folders right after tasks moved, want all 4", n)
	}
	stays := 0
	for _, task := range j.running(4).Tasks {
		if strings.HasPrefix(task.ID, "by-word") {
			stays++
		}
	}
	ahead.Store(int64(time.Hour))
	eventually(t, "folders of moved tasks to go", func() (bool, string) {
		c.produce("lines", "k1=a", "k2=b", "k3=c", "k4=d", "k5=e", "k6=f") // commits go on
		got := folders()
		return len(got) == stays, fmt.Sprintf("%d of %v", stays, got)
	})
	other.mustEnd()
	j.running(8)
	j.mustEnd()
}
