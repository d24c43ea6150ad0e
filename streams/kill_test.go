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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
)

// The environment of the job process: the test binary run again.
const (
	jobBrokerEnv = "MILLRACE_TEST_JOB_BROKER"
	jobDirEnv    = "MILLRACE_TEST_JOB_DIR"
	jobNotesEnv  = "MILLRACE_TEST_JOB_NOTES"
)

// The topics that wordCount reads.
var wordTopics = [2]string{"lines", "wordcount-by-word-repartition"}

// note is told of each record right after it was read, before anything is done with it.
type note func(topic string, partition int32, offset int64) error

// notes is a processor of nothing: it passes on where records come from.
type notes struct {
	note
	ctx *streams.Context[string, string]
}

func (n *notes) Init(ctx *streams.Context[string, string]) error {
	n.ctx = ctx
	return nil
}

func (n *notes) Process(string, string) error {
	topic, partition, offset, _ := n.ctx.Origin()
	return n.note(topic, partition, offset)
}

// notedWordCount is wordCount that tells of every record that one of its two parts reads.
func notedWordCount(t testing.TB, n note) *streams.Topology {
	t.Helper()
	b := streams.NewBuilder("wordcount")
	lines := b.Stream("lines", serde.String, serde.String)
	lines.Process[string, string]("note-lines", func() *notes { return &notes{note: n} })
	words := lines.
		FlatMapValues(func(_, line string, emit func(string)) {
			for _, w := range strings.Fields(line) {
				emit(w)
			}
		}).
		SelectKey(func(_, word string) string { return word }).
		With(serde.String, serde.String).
		Repartition("by-word")
	words.Process[string, string]("note-words", func() *notes { return &notes{note: n} })
	words.GroupByKey().Count("counts").ToStream().To("words")
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// noNotes is for jobs of which nobody asks.
func noNotes(string, int32, int64) error { return nil }

// TestJobProcess is not a test: it is the job that TestKilledJobLosesNothing starts and kills. It ends cleanly on an
// interrupt.
func TestJobProcess(t *testing.T) {
	addr := os.Getenv(jobBrokerEnv)
	if addr == "" {
		t.Skip("the process of another test")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	file, err := os.OpenFile(os.Getenv(jobNotesEnv), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	// One write for each record, so that a killed process has left all.
	topology := notedWordCount(t, func(topic string, partition int32, offset int64) error {
		_, err := fmt.Fprintln(file, topic, partition, offset)
		return err
	})
	app, err := streams.New(topology, streams.Config{
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
	cmd   *exec.Cmd
	log   *os.File
	notes string // the file
}

func startJobProcess(t *testing.T, c *cluster, dir string) *jobProcess {
	t.Helper()
	own := t.TempDir()
	log, err := os.OpenFile(filepath.Join(own, "log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	p := &jobProcess{cmd: exec.Command(os.Args[0], "-test.run=^TestJobProcess$"), log: log, notes: filepath.Join(own, "notes")}
	p.cmd.Env = append(os.Environ(), jobBrokerEnv+"="+c.broker.Addr(), jobDirEnv+"="+dir, jobNotesEnv+"="+p.notes)
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

// progress is what job processes processed of a topic's partitions, by their notes.
type progress struct {
	next     map[int32]int64 // the offset after the last one
	repeated int64           // records that one process, alive, read twice: it lost its membership
}

// read adds what a process that has ended noted of a topic.
func (p *progress) read(t *testing.T, topic, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	next := map[int32]int64{}
	for line := range strings.Lines(string(text)) {
		var from string
		var partition int32
		var offset int64
		if _, err := fmt.Sscan(line, &from, &partition, &offset); err != nil {
			t.Fatalf("note %q: %v", line, err)
		}
		if from != topic {
			continue
		}
		if at, ok := next[partition]; ok && offset < at {
			p.repeated++
		}
		next[partition] = max(next[partition], offset+1)
	}
	for partition, at := range next {
		p.next[partition] = max(p.next[partition], at)
	}
}

// beyond is how many records were processed and not committed. What is committed must have been processed.
func (p *progress) beyond(t *testing.T, topic string, committed map[int32]int64) (n int64) {
	t.Helper()
	for partition, at := range committed {
		if next := p.next[partition]; at > next {
			t.Errorf("%s[%d] is committed up to %d, but processed up to %d: records are lost", topic, partition, at, next)
		}
	}
	for partition, next := range p.next {
		n += max(next-committed[partition], 0)
	}
	return n
}

// TestKilledJobLosesNothing kills a counting job with SIGKILL while records keep coming. At the end no key may be missing and
// no count below the truth. Nothing may be committed that was not processed. And what was counted twice is at most what the
// job had processed beyond its commits at each kill, as it noted itself, record by record.
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

	done := [2]progress{{next: map[int32]int64{}}, {next: map[int32]int64{}}} // by part of the job
	var repeatable [2]int64                                                   // what the job had processed beyond its commits when it was killed
	p := startJobProcess(t, c, dir)
	for kill := range kills(t) {
		before := c.committed("lines")
		eventually(t, "commits", func() (bool, string) {
			now := c.committed("lines")
			return now > before, fmt.Sprintf("at %d", now)
		})
		time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond) // the moment of the kill is the seed's
		p.kill(t)
		var beyond, behind [2]int64
		for i, topic := range wordTopics {
			done[i].read(t, topic, p.notes)
			beyond[i] = done[i].beyond(t, topic, c.committedOf(topic))
			behind[i] = c.end(topic) - c.committed(topic)
			repeatable[i] += beyond[i]
		}
		t.Logf("kill %d: %v processed beyond the commits, of %v on the broker", kill, beyond, behind)
		p = startJobProcess(t, c, dir)
	}
	truth := feed.stop()
	eventually(t, "the job to catch up", func() (bool, string) {
		lines, words := c.end(wordTopics[0])-c.committed(wordTopics[0]), c.end(wordTopics[1])-c.committed(wordTopics[1])
		return lines == 0 && words == 0, fmt.Sprintf("%d lines and %d words behind", lines, words)
	})
	p.end(t)
	for i, topic := range wordTopics {
		done[i].read(t, topic, p.notes)
		if n := done[i].beyond(t, topic, c.committedOf(topic)); n != 0 {
			t.Errorf("a clean stop left %d records of %s uncommitted", n, topic)
		}
		repeatable[i] += done[i].repeated
	}

	got := c.table("words")
	var total, want int64
	for word, n := range truth {
		if got[word] < n {
			t.Errorf("word %s is counted %d times, but came %d times", word, got[word], n)
		}
		total += got[word]
		want += n
	}
	repartitioned := c.end(wordTopics[1])
	if extra := repartitioned - want; extra < 0 || extra > repeatable[0] {
		t.Errorf("the first part wrote %d words for %d: %d too many, at most %d were processed beyond its commits", repartitioned, want, extra, repeatable[0])
	}
	if extra := total - repartitioned; extra < 0 || extra > repeatable[1] {
		t.Errorf("the second part counted %d for %d words: %d too many, at most %d were processed beyond its commits", total, repartitioned, extra, repeatable[1])
	}
	t.Logf("%d words, counted %d: %d and %d more, of %v that could be (repeated without a kill: %d and %d)",
		want, total, repartitioned-want, total-repartitioned, repeatable, done[0].repeated, done[1].repeated)

	// After a clean stop and start, on this folder and on a new one, counts are what they were.
	for _, dir := range []string{dir, t.TempDir()} {
		j := startJob(t, notedWordCount(t, noNotes), c.config(dir))
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

// committedOf is the job's committed offsets of a topic, by partition.
func (c *cluster) committedOf(topic string) map[int32]int64 {
	c.t.Helper()
	offsets, err := kadm.NewClient(c.client).FetchOffsetsForTopics(c.t.Context(), "wordcount", topic)
	if err != nil {
		c.t.Fatalf("committed offsets: %v", err)
	}
	out := map[int32]int64{}
	offsets.Each(func(o kadm.OffsetResponse) { out[o.Partition] = max(o.At, 0) })
	return out
}

// committed is the sum of the job's committed offsets of a topic.
func (c *cluster) committed(topic string) (sum int64) {
	c.t.Helper()
	for _, at := range c.committedOf(topic) {
		sum += at
	}
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
	stays := startJob(t, notedWordCount(t, noNotes), c.config(t.TempDir()))
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
