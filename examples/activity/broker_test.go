package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker/brokertest"
)

// TestJobRunsAgainstABroker runs the program itself, stops it in the middle and starts it again, and compares both results with
// the truth: a clean stop repeats nothing, so the numbers are exact.
func TestJobRunsAgainstABroker(t *testing.T) {
	cluster := brokertest.Start(t)
	client, err := kgo.NewClient(append(cluster.ClientOptions(), kgo.ConsumeTopics(pageViewsTopic, visitsTopic))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopics(t.Context(), 3, 1, nil, accessLogTopic, pageViewsTopic, visitsTopic, deadTopic); err != nil {
		t.Fatal(err)
	}
	lines := readLog(t)
	want := workOut(t, lines)
	results := &tables{pages: map[string]PageViews{}, visits: map[string]int64{}}
	stateDir := t.TempDir()

	half := len(lines) / 2
	produceLines(t, client, lines[:half], 0)
	stop := startJob(t, cluster.Addr(), stateDir)
	results.readUntil(t, client, workOut(t, lines[:half]))
	stop()
	produceLines(t, client, lines[half:], half)
	stop = startJob(t, cluster.Addr(), stateDir)
	results.readUntil(t, client, want)
	stop()
}

func produceLines(t *testing.T, client *kgo.Client, lines []string, from int) {
	t.Helper()
	var recs []*kgo.Record
	for i, line := range lines {
		recs = append(recs, &kgo.Record{Topic: accessLogTopic, Key: fmt.Appendf(nil, "access.log:%d", from+i), Value: []byte(line)})
	}
	if err := client.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// startJob runs the program until stop is called, which waits for its end.
func startJob(t *testing.T, brokers, stateDir string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-brokers", brokers, "-state-dir", stateDir, "-threads", "2"}, func(string) string { return "" }, io.Discard, t.Output())
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Fatalf("the job ended with: %v", err)
		}
	}
}

// tables are the job's results as a reader of its topics sees them.
type tables struct {
	pages  map[string]PageViews
	visits map[string]int64
}

// readUntil reads the job's results until they are as wanted.
func (tb *tables) readUntil(t *testing.T, client *kgo.Client, want truth) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !maps.Equal(tb.pages, want.pages) || !maps.Equal(tb.visits, want.visits) {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			diff(t, "page-views", tb.pages, want.pages)
			diff(t, "visits", tb.visits, want.visits)
			t.FailNow()
		}
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { tb.take(t, r) })
	}
}

func (tb *tables) take(t *testing.T, r *kgo.Record) {
	t.Helper()
	if r.Topic == pageViewsTopic {
		var k PageKey
		var v PageViews
		decode(t, r.Key, &k)
		decode(t, r.Value, &v)
		tb.pages[k.Path+" "+k.WindowStart.Format("2006-01-02T15:04")] = v
		return
	}
	var k VisitKey
	decode(t, r.Key, &k)
	key := fmt.Sprintf("%s %d %d", k.Visitor, k.Start.Unix(), k.End.Unix())
	if r.Value == nil {
		delete(tb.visits, key)
		return
	}
	var v Visit
	decode(t, r.Value, &v)
	tb.visits[key] = v.Hits
}

func decode(t *testing.T, b []byte, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("decoding %q: %v", b, err)
	}
}
