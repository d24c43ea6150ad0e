package streams_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// patience is how long tests wait for what must come.
const patience = 30 * time.Second

// cluster is a broker with a client to it.
type cluster struct {
	t      testing.TB
	broker *brokertest.Cluster
	client *kgo.Client
}

func startCluster(t testing.TB, opts ...brokertest.Option) *cluster {
	t.Helper()
	// Short sessions, so that a member that dies is missed soon.
	broker := brokertest.Start(t, append([]brokertest.Option{brokertest.Setting("group.min.session.timeout.ms", "100")}, opts...)...)
	client, err := kgo.NewClient(append(broker.ClientOptions(), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.MetadataMinAge(10*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &cluster{t, broker, client}
}

func (c *cluster) createTopic(name string, partitions int32) {
	c.t.Helper()
	if _, err := kadm.NewClient(c.client).CreateTopic(c.t.Context(), partitions, 1, nil, name); err != nil {
		c.t.Fatalf("creating topic %s: %v", name, err)
	}
}

// produce writes values with keys, given as "key=value" or "value".
func (c *cluster) produce(topic string, records ...string) {
	c.t.Helper()
	var rs []*kgo.Record
	for _, text := range records {
		r := &kgo.Record{Topic: topic, Value: []byte(text)}
		if k, v, ok := strings.Cut(text, "="); ok {
			r.Key, r.Value = []byte(k), []byte(v)
		}
		rs = append(rs, r)
	}
	if err := c.client.ProduceSync(c.t.Context(), rs...).FirstErr(); err != nil {
		c.t.Fatalf("producing to %s: %v", topic, err)
	}
}

// produceAt writes records, as produce does, with a time.
func (c *cluster) produceAt(topic string, at time.Time, values ...string) {
	c.t.Helper()
	var rs []*kgo.Record
	for _, text := range values {
		r := &kgo.Record{Topic: topic, Value: []byte(text), Timestamp: at}
		if k, v, ok := strings.Cut(text, "="); ok {
			r.Key, r.Value = []byte(k), []byte(v)
		}
		rs = append(rs, r)
	}
	if err := c.client.ProduceSync(c.t.Context(), rs...).FirstErr(); err != nil {
		c.t.Fatalf("producing to %s: %v", topic, err)
	}
}

// wordCount counts the words of topic "lines" in store "counts" and sends the counts to "words".
func wordCount(t testing.TB, opts ...streams.StoreOption) *streams.Topology {
	t.Helper()
	b := streams.NewBuilder("wordcount")
	b.Stream("lines", serde.String, serde.String).
		FlatMapValues(func(_, line string, emit func(string)) {
			for _, w := range strings.Fields(line) {
				emit(w)
			}
		}).
		GroupBy("by-word", func(_, word string) string { return word }, serde.String).
		Count("counts", opts...).
		ToStream().
		To("words")
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

var countsRef = state.NewKeyValue("counts", serde.String, serde.Int64)

// job is a running App.
type job struct {
	t    testing.TB
	app  *streams.App
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func (c *cluster) config(dir string) streams.Config {
	return streams.Config{
		Brokers: []string{c.broker.Addr()}, StateDir: dir, CommitInterval: 50 * time.Millisecond,
		Client: []kgo.Opt{kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(50 * time.Millisecond), kgo.FetchMaxWait(20 * time.Millisecond)},
		Log:    slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
}

func startJob(t testing.TB, topology *streams.Topology, cfg streams.Config) *job {
	t.Helper()
	app, err := streams.New(topology, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	j := &job{t: t, app: app, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(j.done)
		j.err = app.Run(ctx)
	}()
	t.Cleanup(j.end)
	return j
}

// end stops the job cleanly; its error is for the test to look at.
func (j *job) end() {
	j.stop()
	select {
	case <-j.done:
	case <-time.After(patience):
		j.t.Errorf("the job did not stop within %v", patience)
	}
}

func (j *job) mustEnd() {
	j.t.Helper()
	j.end()
	if j.err != nil {
		j.t.Fatalf("the job ended with: %v", j.err)
	}
}

// eventually polls until cond holds; it fails the test with what cond said last.
func eventually(t testing.TB, what string, cond func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ok, detail := cond()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s: %s", patience, what, detail)
		}
		time.Sleep(5 * time.Millisecond) // between polls
	}
}

// counts reads the committed counts of several apps.
func counts(apps ...*streams.App) (map[string]int64, error) {
	out := map[string]int64{}
	reached := false
	var last error
	for _, a := range apps {
		err := a.Query(countsRef).All(func(k string, n int64, _ window.Instant) bool {
			out[k] += n
			return true
		})
		if err != nil {
			last = err
		} else {
			reached = true
		}
	}
	if !reached {
		return nil, last
	}
	return out, nil
}

func wantCounts(t testing.TB, want map[string]int64, jobs ...*job) {
	t.Helper()
	var apps []*streams.App
	for _, j := range jobs {
		apps = append(apps, j.app)
	}
	eventually(t, fmt.Sprintf("counts %v", want), func() (bool, string) {
		for _, j := range jobs {
			select {
			case <-j.done:
				return false, fmt.Sprintf("a job ended: %v", j.err)
			default:
			}
		}
		got, err := counts(apps...)
		return err == nil && maps.Equal(got, want), fmt.Sprintf("got %v, %v", got, err)
	})
}

func TestJobCountsWords(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 3)
	c.createTopic("words", 2)
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	c.produce("lines", "a b a", "c", "x=a c")
	wantCounts(t, map[string]int64{"a": 3, "b": 1, "c": 2}, j)
	if got := c.table("words"); !maps.Equal(got, map[string]int64{"a": 3, "b": 1, "c": 2}) {
		t.Errorf("topic words ends with %v", got)
	}
	j.mustEnd()
}

// table reads a topic of string keys and int64 values to its end, and returns the last value of each key.
func (c *cluster) table(topic string) map[string]int64 {
	c.t.Helper()
	ends, err := kadm.NewClient(c.client).ListEndOffsets(c.t.Context(), topic)
	if err != nil {
		c.t.Fatalf("ends of %s: %v", topic, err)
	}
	left := map[int32]int64{}
	starts := map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
			starts[o.Partition] = kgo.NewOffset().AtStart()
		}
	})
	reader, err := kgo.NewClient(append(c.broker.ClientOptions(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}))...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	out := map[string]int64{}
	for len(left) > 0 {
		fs := reader.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			c.t.Fatalf("reading %s: %v", topic, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			n, err := serde.Int64.Decode(r.Value)
			if err != nil {
				c.t.Errorf("value of %s: %v", topic, err)
			}
			out[string(r.Key)] = n
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return out
}

// TestGroupOfTheClientOptionsIsIgnored gives options that are for consumers. No client of the job may join that group.
func TestGroupOfTheClientOptionsIsIgnored(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 1)
	c.createTopic("words", 1)
	c.createTopic("other", 1)
	cfg := c.config(t.TempDir())
	cfg.Client = append(cfg.Client, kgo.ConsumerGroup("stray"), kgo.ConsumeTopics("other"))
	j := startJob(t, wordCount(t), cfg)
	c.produce("lines", "a")
	wantCounts(t, map[string]int64{"a": 1}, j)
	groups, err := kadm.NewClient(c.client).ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := groups.Groups(); len(got) != 1 || got[0] != "wordcount" {
		t.Errorf("the cluster has groups %v, want that of the job", got)
	}
	j.mustEnd()
}
