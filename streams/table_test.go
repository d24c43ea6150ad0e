package streams_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

func TestTableEmitsItsChangesAndDeletes(t *testing.T) {
	b := streams.NewBuilder("app")
	prices := b.Table("prices", serde.String, serde.Int64)
	prices.ToStream().To("all")
	prices.Filter(func(_ string, p int64) bool { return p >= 10 }).ToStream().To("dear")
	prices.FilterNot(func(_ string, p int64) bool { return p >= 10 }).MapValues(func(k string, p int64) string { return k + "!" }).ToStream().To("cheap")
	d := streamstest.New(t, build(t, b))
	in := d.Input("prices", serde.String, serde.Int64)
	in.Send("tea", 5, noon)
	in.Send("tea", 12, noon)
	in.Send("tea", 13, noon)
	d.Restart()
	in.Send("tea", 6, noon)
	in.Delete("tea", noon)
	in.Delete("tea", noon)
	in.SendKeyless(1, noon)
	wantLines(t, d.Output("all", serde.String, serde.Int64), "tea=5", "tea=12", "tea=13", "tea=6", "tea deleted")
	wantLines(t, d.Output("dear", serde.String, serde.Int64), "tea=12", "tea=13", "tea deleted")
	wantLines(t, d.Output("cheap", serde.String, serde.String), "tea=tea!", "tea deleted", "tea=tea!", "tea deleted")
	if n := d.Dropped()["table prices: null key"]; n != 1 {
		t.Errorf("dropped %v, want one null key", d.Dropped())
	}
}

func TestChangesMapFilterAndLeadBackToATable(t *testing.T) {
	b := streams.NewBuilder("app")
	changes := b.Table("in", serde.String, serde.Int64, streams.StoredAs("rows")).ToStream()
	changes.FilterNot(func(_ string, v int64, present bool) bool { return present && v == 2 }).
		Map(func(k string, v int64, present bool) (string, int64, bool) { return k + k, v * 10, present }).
		Peek(func(string, int64, bool) {}).
		ToTable("again").ToStream().To("again")
	changes.Present().MapValues(func(_ string, v int64) int64 { return -v }).To("present")
	changes.MapValues(func(_ string, v int64) string { return "v" }).
		Filter(func(_, _ string, present bool) bool { return !present }).To("deletes")
	changes.ToFunc(func(k string) string { return "of-" + k })
	changes.Merge(changes).ToPartitioned("merged", func(_ string, n int32) int32 { return n - 1 })
	d := streamstest.NewWith(t, build(t, b), streamstest.Config{Partitions: map[string]int32{"in": 2, "merged": 3}})
	in := d.Input("in", serde.String, serde.Int64)
	in.Send("a", 1, noon)
	in.Send("a", 2, noon)
	in.Delete("a", noon)
	wantLines(t, d.Output("again", serde.String, serde.Int64), "aa=10", "aa deleted")
	wantLines(t, d.Output("present", serde.String, serde.Int64), "a=-1", "a=-2")
	wantLines(t, d.Output("deletes", serde.String, serde.String), "a deleted")
	wantLines(t, d.Output("of-a", serde.String, serde.Int64), "a=1", "a=2", "a deleted")
	merged := d.Output("merged", serde.String, serde.Int64).All()
	if len(merged) != 6 || merged[5].Partition != 2 || merged[5].Present {
		t.Errorf("merged %v, want each change twice, in the last partition", merged)
	}
}

func TestStreamToTable(t *testing.T) {
	b := streams.NewBuilder("app")
	texts(b).SelectKey(func(_, v string) string { return v[:1] }).ToTable("latest", streams.InMemory()).ToStream().To("out")
	d := streamstest.New(t, build(t, b))
	in := d.Input("in", serde.String, serde.String)
	in.Send("x", "a1", noon)
	in.Send("y", "a2", noon)
	wantLines(t, d.Output("out", serde.String, serde.String), "a=a1", "a=a2")
	if len(d.Records("app-latest-repartition")) != 2 {
		t.Error("the new key did not go through an internal topic")
	}
}

func TestWindowedTablesAndTheirChanges(t *testing.T) {
	b := streams.NewBuilder("app")
	w := window.Tumbling(time.Minute).Grace(time.Minute)
	counts := texts(b).GroupByKey().WindowedBy(w).Count("counts")
	if _, ok := counts.SessionStore(); ok {
		t.Error("a table of tumbling windows has a session store")
	}
	ref, _ := counts.WindowStore()
	seen := 0
	counts.Filter(func(_ window.Windowed[string], n int64) bool { return n >= 2 }).
		MapValues(func(k window.Windowed[string], n int64) string { return k.Start.Time().Format("15:04") }).
		ToStream().
		Peek(func(window.Windowed[string], string, bool) { seen++ }).
		FilterNot(func(window.Windowed[string], string, bool) bool { return false }).
		To("often")
	counts.FilterNot(func(_ window.Windowed[string], n int64) bool { return n >= 2 }).ToStream().
		Filter(func(_ window.Windowed[string], _ int64, present bool) bool { return !present }).
		To("not-rare")
	d := streamstest.New(t, build(t, b))
	in := d.Input("in", serde.String, serde.String)
	in.Send("a", "", noon)
	in.Send("a", "", noon)
	in.Send("a", "", at(time.Minute))
	often := d.Output("often", windowKey(w), serde.String).All()
	if len(often) != 1 || often[0].Value != "12:00" || often[0].Key.Span != w.Of(window.At(noon)) || seen != 1 {
		t.Errorf("often %v, seen %d, want one row of the window at noon", often, seen)
	}
	rare := d.Output("not-rare", windowKey(w), serde.Int64).All()
	if len(rare) != 1 || rare[0].Present {
		t.Errorf("got %v, want the one row that ceased to be rare deleted", rare)
	}
	var starts []window.Instant
	err := d.Window(ref).Fetch("a", window.Span{Start: 0, End: 1 << 60}, func(start window.Instant, n int64, _ window.Instant) bool {
		starts = append(starts, start)
		return true
	})
	if err != nil || len(starts) != 2 {
		t.Errorf("the store has windows %v, %v, want two", starts, err)
	}
}

func TestSerdesOfTablesAndChangesCanBeReplaced(t *testing.T) {
	b := streams.NewBuilder("app")
	w := window.Tumbling(time.Minute)
	asText := serde.JSON[int64]()
	rows := b.Table("in", serde.String, serde.Int64)
	rows.With(serde.String, asText).ToStream().To("rows")
	counts := rows.ToStream().Present().GroupByKey().WindowedBy(w).Count("counts")
	counts.With(serde.String, asText).ToStream().To("counts")
	total := int64(0)
	changes := counts.ToStream().
		MapValues(func(_ window.Windowed[string], n int64) int64 { return n * 100 }).
		With(serde.String, asText)
	changes.To("hundreds")
	changes.ForEach(func(_ window.Windowed[string], n int64, present bool) { total += n })
	rows.ToStream().ForEach(func(_ string, n int64, present bool) { total += n })
	d := streamstest.New(t, build(t, b))
	d.Input("in", serde.String, serde.Int64).Send("a", 7, noon)
	for topic, want := range map[string]string{"rows": "7", "counts": "1", "hundreds": "100"} {
		if got := string(d.Records(topic)[0].Value); got != want {
			t.Errorf("topic %s has %q, want %q", topic, got, want)
		}
	}
	if total != 107 {
		t.Errorf("ForEach saw values of %d together, want 107", total)
	}
}

func TestWhereASourceBegins(t *testing.T) {
	b := streams.NewBuilder("app")
	texts(b)
	b.Stream("new-only", serde.String, serde.String, streams.FromEnd())
	fromStart := map[string]bool{}
	for _, p := range build(t, b).Programs() {
		for _, in := range p.Inputs {
			fromStart[in.Topic] = in.FromStart
		}
	}
	if !fromStart["in"] || fromStart["new-only"] {
		t.Errorf("begins at the start: %v", fromStart)
	}
}
