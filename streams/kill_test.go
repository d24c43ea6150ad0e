package streams_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams"
)

// The environment of the job process: the test binary run again.
const (
	jobBrokerEnv = "MILLRACE_TEST_JOB_BROKER"
	jobDirEnv    = "MILLRACE_TEST_JOB_DIR"
)

// TestJobProcess is not a test: it is the job that TestKilledJobLosesNothing starts and kills. It ends cleanly on an
// interrupt.
func TestJobProcess(t *testing.T) {
	addr := os.Getenv(jobBrokerEnv)
	if addr == "" {
		t.Skip("the process of another test")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	app, err := streams.New(wordCount(t), streams.Config{
		Brokers: []string{addr}, StateDir: os.Getenv(jobDirEnv), Threads: 2, CommitInterval: 50 * time.Millisecond,
		Client: []kgo.Opt{kgo.SessionTimeout(500 * time.Millisecond), kgo.HeartbeatInterval(50 * time.Millisecond), kgo.FetchMaxWait(20 * time.Millisecond)},
		Log:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// jobProcess is a running job process.
type jobProcess struct {
	cmd *exec.Cmd
	log *os.File
}

func startJobProcess(t *testing.T, c *cluster, dir string) *jobProcess {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	p := &jobProcess{cmd: exec.Command(os.Args[0], "-test.run=^TestJobProcess$"), log: log}
	p.cmd.Env = append(os.Environ(), jobBrokerEnv+"="+c.broker.Addr(), jobDirEnv+"="+dir)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting the job process: %v", err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have ended
		_ = p.cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("job process %d:\n%s", p.cmd.Process.Pid, text)
		}
		_ = log.Close()
	})
	return p
}

func (p *jobProcess) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("killing the job process: %v", err)
	}
	_ = p.cmd.Wait() // says that it was killed
}

func (p *jobProcess) end(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatalf("interrupting the job process: %v", err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the job process did not end cleanly: %v", err)
	}
}

// kills is how often the job is killed: MILLRACE_KILLS, or a few.
func kills(t *testing.T) int {
	text := os.Getenv("MILLRACE_KILLS")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("MILLRACE_KILLS: %v", err)
	}
	return n
}

// TestKilledJobLosesNothing kills a counting job with SIGKILL while records keep coming. At the end no key may be missing
// and no count below the truth; what was counted twice is at most what lay behind the last commit at each kill. Of that the job
// had processed only a part, but which part nobody outside can tell: what it wrote since the commit is just what is
// repeated, so that a bound taken from there would hold for any job, and what it processed without writing died with it.
// As the job keeps up with its input, the difference is small; the log has the numbers.
func TestKilledJobLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := startCluster(t)
	c.createTopic("lines", 4)
	c.createTopic("words", 2)
	dir := t.TempDir()
	feed := c.feedWords()

	var repeatable [2]int64 // records that were behind the commits when the job was killed, by part of the job
	p := startJobProcess(t, c, dir)
	for range kills(t) {
		before := c.committed("lines")
		eventually(t, "commits", func() (bool, string) {
			now := c.committed("lines")
			return now > before, fmt.Sprintf("at %d", now)
		})
		time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond) // the moment of the kill is the seed's
		p.kill(t)
		for i, topic := range []string{"lines", "wordcount-by-word-repartition"} {
			repeatable[i] += c.end(topic) - c.committed(topic)
		}
		p = startJobProcess(t, c, dir)
	}
	truth := feed.stop()
	eventually(t, "the job to catch up", func() (bool, string) {
		lines, words := c.end("lines")-c.committed("lines"), c.end("wordcount-by-word-repartition")-c.committed("wordcount-by-word-repartition")
		return lines == 0 && words == 0, fmt.Sprintf("%d lines and %d words behind", lines, words)
	})
	p.end(t)

	got := c.table("words")
	var total, want int64
	for word, n := range truth {
		if got[word] < n {
			t.Errorf("word %s is counted %d times, but came %d times", word, got[word], n)
		}
		total += got[word]
		want += n
	}
	repartitioned := c.end("wordcount-by-word-repartition")
	if extra := repartitioned - want; extra < 0 || extra > repeatable[0] {
		t.Errorf("the first part wrote %d words for %d: %d too many, at most %d were behind its commits", repartitioned, want, extra, repeatable[0])
	}
	if extra := total - repartitioned; extra < 0 || extra > repeatable[1] {
		t.Errorf("the second part counted %d for %d words: %d too many, at most %d were behind its commits", total, repartitioned, extra, repeatable[1])
	}
	t.Logf("%d words, counted %d: %d and %d more, of %v that could be", want, total, repartitioned-want, total-repartitioned, repeatable)

	// After a clean stop and start, on this folder and on a new one, counts are what they were.
	for _, dir := range []string{dir, t.TempDir()} {
		j := startJob(t, wordCount(t), c.config(dir))
		j.running(8)
		again, err := counts(j.app)
		if err != nil || !maps.Equal(again, got) {
			t.Errorf("after a restart the counts are %v, %v, want %v", again, err, got)
		}
		j.mustEnd()
	}
}

// feeder writes words to topic "lines" until it is stopped.
type feeder struct {
	c     *cluster
	quit  chan struct{}
	done  sync.WaitGroup
	truth map[string]int64
}

func (c *cluster) feedWords() *feeder {
	f := &feeder{c: c, quit: make(chan struct{}), truth: map[string]int64{}}
	tick := time.NewTicker(5 * time.Millisecond)
	f.done.Go(func() {
		defer tick.Stop()
		for i := 0; ; {
			select {
			case <-f.quit:
				return
			case <-tick.C:
			}
			var rs []*kgo.Record
			for range 20 {
				word := fmt.Sprintf("word%d", i%101)
				rs = append(rs, &kgo.Record{Topic: "lines", Key: strconv.AppendInt(nil, int64(i), 10), Value: []byte(word)})
				f.truth[word]++
				i++
			}
			if err := c.client.ProduceSync(context.Background(), rs...).FirstErr(); err != nil {
				c.t.Errorf("producing: %v", err)
				return
			}
		}
	})
	return f
}

func (f *feeder) stop() map[string]int64 {
	close(f.quit)
	f.done.Wait()
	return f.truth
}

// committed is the sum of the job's committed offsets of a topic.
func (c *cluster) committed(topic string) int64 {
	c.t.Helper()
	offsets, err := kadm.NewClient(c.client).FetchOffsetsForTopics(c.t.Context(), "wordcount", topic)
	if err != nil {
		c.t.Fatalf("committed offsets: %v", err)
	}
	var sum int64
	offsets.Each(func(o kadm.OffsetResponse) { sum += max(o.At, 0) })
	return sum
}

// end is the sum of the ends of a topic's partitions.
func (c *cluster) end(topic string) int64 {
	c.t.Helper()
	ends, err := kadm.NewClient(c.client).ListEndOffsets(c.t.Context(), topic)
	if err != nil {
		c.t.Fatalf("ends of %s: %v", topic, err)
	}
	var sum int64
	ends.Each(func(o kadm.ListedOffset) { sum += max(o.Offset, 0) })
	return sum
}

// TestKilledProcessIsTakenOver kills one of two processes of a job; the other goes on with its tasks.
func TestKilledProcessIsTakenOver(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	c := startCluster(t)
	c.createTopic("lines", 4)
	c.createTopic("words", 1)
	stays := startJob(t, wordCount(t), c.config(t.TempDir()))
	stays.running(8)
	p := startJobProcess(t, c, t.TempDir())
	eventually(t, "tasks to move to the other process", func() (bool, string) {
		n := len(stays.app.Status().Tasks)
		return n <= 3, fmt.Sprintf("%d tasks are here", n) // one of three threads is here
	})
	feed := c.feedWords()
	before := c.committed("lines")
	eventually(t, "commits", func() (bool, string) {
		now := c.committed("lines")
		return now > before+500, fmt.Sprintf("at %d", now)
	})
	p.kill(t)
	stays.running(8)
	c.wantAtLeast(stays, feed.stop())
	got, err := counts(stays.app)
	if table := c.table("words"); err != nil || !maps.Equal(got, table) {
		t.Errorf("the stores say %v, %v, and topic words %v", got, err, table)
	}
	stays.mustEnd()
}
