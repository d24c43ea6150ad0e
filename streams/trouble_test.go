package streams_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// wantAtLeast waits until everything is processed, and checks that nothing was lost.
func (c *cluster) wantAtLeast(j *job, truth map[string]int64) {
	c.t.Helper()
	eventually(c.t, "the job to catch up", func() (bool, string) {
		select {
		case <-j.done:
			return false, fmt.Sprintf("the job ended: %v", j.err)
		default:
		}
		lines, words := c.end("lines")-c.committed("lines"), c.end("wordcount-by-word-repartition")-c.committed("wordcount-by-word-repartition")
		return lines == 0 && words == 0, fmt.Sprintf("%d lines and %d words behind", lines, words)
	})
	got := c.table("words")
	for word, n := range truth {
		if got[word] < n {
			c.t.Errorf("word %s is counted %d times, but came %d times", word, got[word], n)
		}
	}
}

// TestJobSurvivesItsBroker kills the broker under the job, twice.
func TestJobSurvivesItsBroker(t *testing.T) {
	c := startCluster(t)
	c.countThrough(2, func(int) {
		c.broker.Kill()
		c.broker.Start()
	}).mustEnd()
}

// countThrough counts words in a job that is disturbed some times, each time after it has committed more, and checks that
// none is missing. The job still runs when it returns.
func (c *cluster) countThrough(times int, disturb func(i int)) *job {
	c.t.Helper()
	c.createTopic("lines", 2)
	c.createTopic("words", 1)
	j := startJob(c.t, wordCount(c.t), c.config(c.t.TempDir()))
	feed := c.feedWords()
	for i := range times {
		before := c.committed("lines")
		eventually(c.t, "commits", func() (bool, string) {
			now := c.committed("lines")
			return now > before+100, fmt.Sprintf("at %d", now)
		})
		disturb(i)
	}
	c.wantAtLeast(j, feed.stop())
	return j
}

// TestMemberThatTheGroupLostComesBack removes the job's member from the group behind its back.
func TestMemberThatTheGroupLostComesBack(t *testing.T) {
	c := startCluster(t)
	j := c.countThrough(3, func(int) { c.removeMembers("wordcount") })
	if s := j.app.Status(); s.Rebalances < 2 {
		t.Errorf("%d rebalances: the member was never lost", s.Rebalances)
	}
	j.mustEnd()
}

// removeMembers makes the members of a group leave it.
func (c *cluster) removeMembers(group string) {
	c.t.Helper()
	described, err := kadm.NewClient(c.client).DescribeGroups(c.t.Context(), group)
	if err != nil {
		c.t.Fatalf("describing group %s: %v", group, err)
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = group
	for _, m := range described[group].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		leave.Members = append(leave.Members, member)
	}
	if _, err := leave.RequestWith(c.t.Context(), c.client); err != nil {
		c.t.Fatalf("removing the members of group %s: %v", group, err)
	}
}

// TestTimersRunWhileTheInputIsQuiet has a processor that writes on a wall-clock timer.
func TestTimersRunWhileTheInputIsQuiet(t *testing.T) {
	c := startCluster(t)
	c.createTopic("in", 1)
	c.createTopic("ticks", 1)
	b := streams.NewBuilder("ticking")
	b.Stream("in", serde.String, serde.Int64).Process("ticker", func() *metronome { return &metronome{} }).To("ticks")
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	j := startJob(t, topology, c.config(t.TempDir()))
	eventually(t, "three ticks", func() (bool, string) {
		n := c.end("ticks")
		return n >= 3, fmt.Sprintf("%d", n)
	})
	j.mustEnd()
}

type metronome struct{ n int64 }

func (k *metronome) Init(c *streams.Context[string, int64]) error {
	c.EveryWallClock(10*time.Millisecond, func(time.Time) error {
		k.n++
		c.Emit("tick", k.n)
		return nil
	})
	return nil
}

func (k *metronome) Process(string, int64) error { return nil }

// TestRefusedMessageGoesToTheProductionHandler has a sink whose records are larger than the topic takes.
func TestRefusedMessageGoesToTheProductionHandler(t *testing.T) {
	c := startCluster(t)
	c.createTopic("in", 1)
	c.createTopic("dead", 1)
	small := "200"
	if _, err := kadm.NewClient(c.client).CreateTopic(t.Context(), 1, 1, map[string]*string{"max.message.bytes": &small}, "out"); err != nil {
		t.Fatal(err)
	}
	b := streams.NewBuilder("large")
	b.Stream("in", serde.String, serde.Bytes).To("out")
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var failed atomic.Int64
	cfg := c.config(t.TempDir())
	cfg.Handlers.Production = func(f streams.Failure) streams.Outcome {
		failed.Add(1)
		if f.Topic != "out" || len(f.Value) != 1000 {
			t.Errorf("failure %+v, want the record as it was sent", f)
		}
		return streams.DeadLetter("dead")
	}
	j := startJob(t, topology, cfg)
	c.produce("in", "k=small")
	eventually(t, "the small record", func() (bool, string) { n := c.end("out"); return n == 1, fmt.Sprint(n) })
	large := make([]byte, 1000)
	for i := range large {
		large[i] = byte(i*i + i>>3) // does not compress below the limit
	}
	c.produce("in", "k="+string(large))
	eventually(t, "the dead letter", func() (bool, string) { n := c.end("dead"); return n == 1, fmt.Sprint(n) })
	j.caughtUp()
	if failed.Load() != 1 {
		t.Errorf("the handler was called %d times, want once", failed.Load())
	}
	j.mustEnd()
}

// TestSessionsMergeAcrossRestarts counts a visit that goes on after the job was started elsewhere.
func TestSessionsMergeAcrossRestarts(t *testing.T) {
	c := startCluster(t)
	c.createTopic("clicks", 1)
	c.createTopic("visits", 1)
	b := streams.NewBuilder("visits")
	table := b.Stream("clicks", serde.String, serde.String).
		GroupByKey().
		WindowedBySession(window.Session(30 * time.Minute)).
		Count("sessions")
	table.ToStream().To("visits")
	topology, err := b.Build()
	ref, ok := table.SessionStore()
	if err != nil || !ok {
		t.Fatal(err, ok)
	}
	at := time.Date(2015, 5, 17, 10, 0, 0, 0, time.UTC)
	expect := func(j *job, want string) {
		t.Helper()
		eventually(t, want, func() (bool, string) {
			got := ""
			err := j.app.QuerySession(ref).All(func(k string, s window.Span, n int64) bool {
				got += fmt.Sprintf("%s %v %d;", k, time.Duration(s.End-s.Start-1)*time.Millisecond, n)
				return true
			})
			return got == want, fmt.Sprintf("%s %v", got, err)
		})
	}
	j := startJob(t, topology, c.config(t.TempDir()))
	c.produceAt("clicks", at, "ann=1")
	c.produceAt("clicks", at.Add(20*time.Minute), "ann=2")
	expect(j, "ann 20m0s 2;")
	j.mustEnd()
	j = startJob(t, topology, c.config(t.TempDir()))
	c.produceAt("clicks", at.Add(45*time.Minute), "ann=3")
	expect(j, "ann 45m0s 3;")
	j.mustEnd()
}

func TestInternalTopicOfTheWrongSizeIsNamed(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 2)
	c.createTopic("wordcount-counts-changelog", 3)
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	select {
	case <-j.done:
	case <-time.After(patience):
		t.Fatal("the job runs with a changelog that does not fit")
	}
	if j.err == nil || !strings.Contains(j.err.Error(), `"wordcount-counts-changelog" has 3 partitions, but the job needs 2`) {
		t.Errorf("the job ended with %v, want the topic and both counts", j.err)
	}
}

// TestUncommittedWritesAreBounded has an interval that never ends, and more state than may be uncommitted.
func TestUncommittedWritesAreBounded(t *testing.T) {
	c := startCluster(t)
	c.createTopic("in", 1)
	b := streams.NewBuilder("big")
	b.Table("in", serde.String, serde.String, streams.StoredAs("kept")).ToStream()
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.config(t.TempDir())
	cfg.CommitInterval = time.Hour
	cfg.StateBytes = 8 << 20
	j := startJob(t, topology, cfg)
	value := strings.Repeat("x", 1000)
	for range 10 {
		var records []string
		for i := range 1000 {
			records = append(records, fmt.Sprintf("key%d=%s", i, value))
		}
		c.produce("in", records...)
	}
	eventually(t, "all records", func() (bool, string) {
		s := j.app.Status()
		return s.Processed == 10_000, fmt.Sprintf("%+v", s)
	})
	// 10 MB were written, and a quarter of 8 MiB may be uncommitted.
	if s := j.app.Status(); s.Commits < 4 || s.Tasks[0].UncommittedBytes > 3<<20 {
		t.Errorf("%d commits, %d bytes uncommitted", s.Commits, s.Tasks[0].UncommittedBytes)
	}
	j.mustEnd()
}

// TestStaticMemberRestartsWithoutMovingTasks restarts a process whose instance id the group knows.
func TestStaticMemberRestartsWithoutMovingTasks(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 2)
	c.createTopic("words", 1)
	dirs := []string{t.TempDir(), t.TempDir()}
	start := func(i int) *job {
		cfg := c.config(dirs[i])
		cfg.InstanceID = fmt.Sprintf("instance%d", i)
		cfg.Client = append(cfg.Client, kgo.SessionTimeout(20*time.Second))
		return startJob(t, wordCount(t), cfg)
	}
	stays, restarts := start(0), start(1)
	stays.running(2)
	restarts.running(2)
	c.produce("lines", "a b", "x=a")
	wantCounts(t, map[string]int64{"a": 2, "b": 1}, stays, restarts)
	before := stays.app.Status().Rebalances
	restarts.mustEnd()
	restarts = start(1)
	restarts.running(2)
	if s := restarts.app.Status(); s.FullRestores != 0 {
		t.Errorf("the restarted process restored %d stores from the start", s.FullRestores)
	}
	c.produce("lines", "a", "x=b")
	wantCounts(t, map[string]int64{"a": 3, "b": 2}, stays, restarts)
	if after := stays.app.Status(); after.Rebalances != before || len(after.Tasks) != 2 {
		t.Errorf("the other process was assigned tasks %d times before and %d times after, and has %d", before, after.Rebalances, len(after.Tasks))
	}
	restarts.mustEnd()
	stays.mustEnd()
}

// TestJobWaitsForItsCluster starts the job before the broker.
func TestJobWaitsForItsCluster(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 1)
	c.createTopic("words", 1)
	c.broker.Stop()
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	eventually(t, "the job to start", func() (bool, string) { p := j.app.Status().Phase; return p == streams.Starting, p.String() })
	c.broker.Start()
	c.produce("lines", "a")
	wantCounts(t, map[string]int64{"a": 1}, j)
	j.mustEnd()
}

func TestQueryOfAJobThatDoesNotRun(t *testing.T) {
	app, err := streams.New(wordCount(t), streams.Config{Brokers: []string{"127.0.0.1:1"}, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := app.Query(countsRef).Get("a"); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("query: %v, want ErrUnavailable", err)
	}
	if s := app.Status(); s.Phase != streams.Created || len(s.Tasks) != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestConfigErrorsAreAllReported(t *testing.T) {
	_, err := streams.New(wordCount(t), streams.Config{Threads: -1})
	if err == nil || !strings.Contains(err.Error(), "no brokers") || !strings.Contains(err.Error(), "negative") {
		t.Errorf("New: %v, want both faults", err)
	}
}

// TestJobThatEndsWhileItRestoresEndsCleanly stops a job in the middle of everything that it does at its start.
func TestJobThatEndsWhileItRestoresEndsCleanly(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 4)
	c.createTopic("words", 1)
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	c.produce("lines", "a b c d e f g")
	wantCounts(t, map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}, j)
	j.mustEnd()
	for wait := range 20 {
		j := startJob(t, wordCount(t), c.config(t.TempDir()))
		time.Sleep(time.Duration(wait) * 5 * time.Millisecond) // the moment of the stop
		j.mustEnd()
	}
}
