package streams_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/state"
)

// TestIdlePartitionsHaveALag restarts a job whose input has nothing new, in a partition that was never written too.
func TestIdlePartitionsHaveALag(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 2)
	c.createTopic("words", 1)
	dir := t.TempDir()
	for run := range 2 {
		j := startJob(t, wordCount(t), c.config(dir))
		if run == 0 {
			c.produce("lines", "k=a b a")
		}
		eventually(t, "no lag", func() (bool, string) {
			s := j.app.Status()
			total := int64(0)
			for _, task := range s.Tasks {
				for _, in := range task.Inputs {
					if in.Lag != 0 || in.Next != in.End || in.Committed != in.Next {
						return false, fmt.Sprintf("run %d: %+v", run, task)
					}
					total += in.End
				}
			}
			return len(s.Tasks) == 4 && total == 4, fmt.Sprintf("run %d: %+v", run, s)
		})
		j.mustEnd()
	}
}

func TestSourceThatBeginsAtTheEndMissesNothingAfterItsFirstRun(t *testing.T) {
	c := startCluster(t)
	c.createTopic("in", 1)
	c.createTopic("out", 1)
	b := streams.NewBuilder("latest")
	b.Stream("in", serde.String, serde.String, streams.FromEnd()).To("out")
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	c.produce("in", "k=old")
	j := startJob(t, topology, c.config(t.TempDir()))
	j.running(1)
	j.mustEnd()
	c.produce("in", "k=new")
	j = startJob(t, topology, c.config(t.TempDir()))
	eventually(t, "the record that came between the runs", func() (bool, string) {
		n := c.end("out")
		return n == 1, fmt.Sprint(n)
	})
	j.mustEnd()
}

func TestWaitCaughtUpFollowsRecordsToTheEnd(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 3)
	c.createTopic("words", 1)
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	other := startJob(t, wordCount(t), c.config(t.TempDir()))
	want := map[string]int64{}
	for i := range 10 {
		c.produce("lines", fmt.Sprintf("k%d=a b", i))
		want["a"]++
		want["b"]++
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := j.app.WaitCaughtUp(ctx)
		cancel()
		if got := c.table("words"); err != nil || !maps.Equal(got, want) {
			t.Fatalf("caught up, %v, with %v, want %v", err, got, want)
		}
	}
	other.mustEnd()
	j.mustEnd()
}

func TestWaitCaughtUpEnds(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 1)
	c.createTopic("words", 1)
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	j.running(2)
	j.mustEnd()
	if err := j.app.WaitCaughtUp(t.Context()); !errors.Is(err, streams.ErrEnded) {
		t.Errorf("waiting for a job that has ended: %v, want ErrEnded", err)
	}
	app, err := streams.New(wordCount(t), c.config(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := app.WaitCaughtUp(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a job that is not started: %v, want the context's error", err)
	}
}

func TestQueryOfAnUnknownStoreSaysWhichThereAre(t *testing.T) {
	app, err := streams.New(wordCount(t), streams.Config{Brokers: []string{"127.0.0.1:1"}, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = app.Query(state.NewKeyValue("nope", serde.String, serde.Int64)).Get("a")
	if err == nil || errors.Is(err, state.ErrUnavailable) || !strings.Contains(err.Error(), `no store "nope": it has "counts"`) {
		t.Errorf("query of an unknown store: %v", err)
	}
	_, _, err = app.Query(state.KeyValueRef[string, int64]{}).Get("a")
	if err == nil || errors.Is(err, state.ErrUnavailable) || !strings.Contains(err.Error(), "reference") {
		t.Errorf("query with a zero reference: %v", err)
	}
}
