package streams_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it)\n--- got\n%s--- want\n%s", path, got, want)
	}
}

type order struct{ Customer, Item string }

// wideJob has one of nearly everything. Extra adds stateless operators and a whole branch in front of it, as later edits of
// a job do.
func wideJob(t *testing.T, extra bool) *streams.Topology {
	b := streams.NewBuilder("shop")
	if extra {
		b.Stream("returns", serde.String, serde.String).Filter(func(string, string) bool { return true }).
			GroupByKey().Count("returns-per-customer").ToStream().To("returns-per-customer")
	}
	orders := b.Stream("orders", serde.String, serde.JSON[order]())
	if extra {
		orders = orders.Peek(func(string, order) {}).Filter(func(string, order) bool { return true })
	}
	parsed := orders.TryMap("check", func(k string, o order) (string, order, error) { return k, o, nil })
	items := parsed.GroupBy("by-item", func(_ string, o order) string { return o.Item }, serde.String)
	items.Count("per-item").ToStream().To("per-item")
	items.WindowedBy(window.Tumbling(time.Minute).Grace(10*time.Second)).Count("per-minute", streams.InMemory(), streams.LateTo("late")).ToStream().To("per-minute")
	parsed.GroupByKey().WindowedBySession(window.Session(time.Hour)).Count("visits", streams.Unlogged()).ToStream().To("visits")

	customers := b.Table("customers", serde.String, serde.String)
	parts := orders.MapValues(func(_ string, o order) string { return o.Item }).
		Merge(customers.ToStream().Present()).Split()
	parts.Branch("books", func(_, v string) bool { return v == "book" }).To("books")
	parts.Rest("others").ToFunc(func(_, v string) string { return v })
	return build(t, b)
}

func TestTopologyIsDrawnTheSameEveryTime(t *testing.T) {
	topology := wideJob(t, false)
	golden(t, "wide.txt", topology.String())
	golden(t, "wide.mmd", topology.Mermaid())
}

// TestEditingRenamesNothing: what has state keeps its names, wherever operators are added.
func TestEditingRenamesNothing(t *testing.T) {
	before, after := wideJob(t, false).Graph(), wideJob(t, true).Graph()
	for _, s := range before.Stores {
		if got, ok := after.Store(s.Name); !ok || got.Changelog != s.Changelog {
			t.Errorf("store %s became %v", s.Name, got)
		}
	}
	for _, sub := range before.Subs {
		got, ok := after.Sub(sub.Name)
		if !ok || strings.Join(got.Stores, " ") != strings.Join(sub.Stores, " ") {
			t.Errorf("sub-topology %s with stores %v became %v", sub.Name, sub.Stores, got)
		}
	}
	for _, topic := range before.Topics {
		found := false
		for _, other := range after.Topics {
			found = found || other.Name == topic.Name
		}
		if !found {
			t.Errorf("topic %s is gone", topic.Name)
		}
	}
}

func TestBuildReturnsEveryError(t *testing.T) {
	b := streams.NewBuilder("my app")
	s := b.Stream("in", serde.String, serde.JSON[order](), streams.EventTime(func(int, order) (time.Time, bool) { return noon, true }))
	b.Stream("in", serde.String, serde.String)
	s.Filter(nil)
	s.MapValues(func(_ string, o order) struct{ X int } { return struct{ X int }{} }).To("nowhere")
	s.Map(func(_ string, o order) (order, string) { return o, "" }).GroupByKey().Count("twice")
	s.GroupByKey().Count("twice")
	s.GroupByKey().Count("no/slashes")
	s.GroupByKey().Count("plain", streams.LateTo("late"))
	s.GroupByKey().WindowedBy(window.Tumbling(0)).Count("zero")
	s.GroupByKey().WindowedBySession(window.Session(-time.Second)).Count("negative")
	s.To("")
	s.To("bad topic")
	s.Repartition("few", streams.Partitions(-1))
	_, err := b.Build()
	if err == nil {
		t.Fatal("built")
	}
	for _, want := range []string{
		`application id "my app": ' ' is not allowed`,
		`stream in: its EventTime takes (int, streams_test.order), but the source's types are (string, streams_test.order)`,
		`stream in-2: source of topic in is taken by stream in`,
		`filter-1: its function is nil`,
		`to nowhere: there is no serde for the value type struct { X int }: set it with With`,
		`repartition twice: there is no serde for the key type streams_test.order`,
		`operator name twice is taken by count twice`,
		`operator name "no/slashes": '/' is not allowed`,
		`count plain: LateTo is for windows`,
		`count zero: the size of a tumbling window is 0s: it is at least 1ms`,
		`count negative: the gap of a session is -1s`,
		`to-1: topic "": must not be`,
		`to bad topic: topic "bad topic": ' ' is not allowed`,
		`repartition few: it asks for -1 partitions`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no error about: %s", want)
		}
	}
	if t.Failed() {
		t.Logf("errors:\n%v", err)
	}
}

func TestABuilderBuildsOnce(t *testing.T) {
	if _, err := streams.NewBuilder("app").Build(); err == nil || !strings.Contains(err.Error(), "reads no topic") {
		t.Errorf("an empty job: error %v", err)
	}
	b := streams.NewBuilder("app")
	s := texts(b)
	s.To("out")
	topology := build(t, b)
	s.To("late")
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "after Build") {
		t.Errorf("a second Build: error %v", err)
	}
	d := streamstest.New(t, topology) // is as it was built
	d.Input("in", serde.String, serde.String).Send("a", "1", noon)
	wantLines(t, d.Output("out", serde.String, serde.String), "a=1")
	if topics := d.Topics(); len(topics) != 2 {
		t.Errorf("topics %v, want none that was added after Build", topics)
	}

	one, two := streams.NewBuilder("one"), streams.NewBuilder("two")
	texts(one).Merge(texts(two)).To("out")
	if _, err := one.Build(); err == nil || !strings.Contains(err.Error(), "another Builder") {
		t.Errorf("a merge across builders: error %v", err)
	}
}

func TestTopicsBeforeOneStoreMustBePartitionedAlike(t *testing.T) {
	job := func(repartition bool) *streams.Topology {
		b := streams.NewBuilder("app")
		left := b.Stream("left", serde.String, serde.String)
		right := b.Stream("right", serde.String, serde.String)
		if repartition {
			right = right.Repartition("aligned")
		}
		left.Merge(right).GroupByKey().Count("counts").ToStream().To("out")
		return build(t, b)
	}
	cfg := streamstest.Config{Partitions: map[string]int32{"left": 2, "right": 3}}
	_, err := streamstest.TryStart(t, job(false), cfg)
	if err == nil || !strings.Contains(err.Error(), `store "counts" is fed by topics "left" with 2 partitions and "right" with 3`) {
		t.Errorf("error %v, want one about the partitions", err)
	}
	d := streamstest.NewWith(t, job(true), cfg)
	left, right := d.Input("left", serde.String, serde.String), d.Input("right", serde.String, serde.String)
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		left.Send(k, "", noon)
		right.Send(k, "", noon)
	}
	for k, n := range streamstest.Rows(d.Output("out", serde.String, serde.Int64)) {
		if n != 2 {
			t.Errorf("key %s was counted %d times in its store, want 2: its records met different parts of it", k, n)
		}
	}
}

func TestTopicsMergeByEventTime(t *testing.T) {
	b := streams.NewBuilder("app")
	left := b.Stream("left", serde.String, serde.String)
	left.Merge(b.Stream("right", serde.String, serde.String)).To("out")
	d := streamstest.New(t, build(t, b))
	l, r := d.Input("left", serde.String, serde.String), d.Input("right", serde.String, serde.String)
	d.Together(func() {
		for i := range 3 {
			l.Send("left", "", at(time.Duration(2*i)*time.Second))
		}
		for i := range 3 {
			r.Send("right", "", at(time.Duration(2*i+1)*time.Second))
		}
	})
	wantLines(t, d.Output("out", serde.String, serde.String), "left=", "right=", "left=", "right=", "left=", "right=")
}
