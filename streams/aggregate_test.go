package streams_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

func header(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

func TestCountOfANewKeyGoesThroughARepartitionTopic(t *testing.T) {
	b := streams.NewBuilder("app")
	words := texts(b).FlatMapValues(func(_, v string, emit func(string)) {
		for word := range strings.FieldsSeq(v) {
			emit(word)
		}
	})
	words.GroupBy("by-word", func(_, w string) string { return w }, serde.String).Count("counts").ToStream().To("out")
	d := streamstest.NewWith(t, build(t, b), streamstest.Config{Partitions: map[string]int32{"in": 3}})
	in := d.Input("in", serde.String, serde.String)
	in.Send("x", "to be or not to be", noon)
	in.Send("y", "to do", at(-time.Hour))
	got := streamstest.Rows(d.Output("out", serde.String, serde.Int64))
	if want := map[string]int64{"to": 3, "be": 2, "or": 1, "not": 1, "do": 1}; !maps.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
	if got := d.Topics(); strings.Join(got, " ") != "app-by-word-repartition app-counts-changelog in out" {
		t.Errorf("topics %v", got)
	}
	records := d.Records("out")
	last := records[slices.IndexFunc(records, func(r *kgo.Record) bool { return string(r.Key) == "to" && r.Value[7] == 3 })]
	if !last.Timestamp.Equal(noon) {
		t.Errorf("the older record's result has time %v, want that of the newest record counted, %v", last.Timestamp, noon)
	}
}

func TestReduceAndAggregateKeepTheirState(t *testing.T) {
	b := streams.NewBuilder("app")
	s := texts(b)
	s.GroupByKey().Reduce("longest", func(_, kept, next string) string {
		if len(next) > len(kept) {
			return next
		}
		return kept
	}).ToStream().To("longest")
	all := s.GroupByKey().Aggregate("all", func() []string { return nil },
		func(_, v string, kept []string) []string { return append(kept, v) }, serde.JSON[[]string]())
	all.ToStream().To("all")
	d := streamstest.New(t, build(t, b))
	in := d.Input("in", serde.String, serde.String)
	in.Send("k", "bb", noon)
	in.Send("k", "a", noon)
	d.Restart()
	in.Send("k", "ccc", noon)
	wantLines(t, d.Output("longest", serde.String, serde.String), "k=bb", "k=bb", "k=ccc")
	wantLines(t, d.Output("all", serde.String, serde.JSON[[]string]()), "k=[bb]", "k=[bb a]", "k=[bb a ccc]")
	ref, ok := all.Store()
	if !ok {
		t.Fatal("an aggregate has no store")
	}
	if v, ok, err := d.KeyValue(ref).Get("k"); err != nil || !ok || len(v) != 3 {
		t.Errorf("store has %v, %v, %v, want three values", v, ok, err)
	}
}

func windowKey(w window.Time) serde.Serde[window.Windowed[string]] {
	return streams.WindowedKey(serde.String, w)
}

func TestWindowsCountAndDropWhatIsLate(t *testing.T) {
	w := window.Tumbling(time.Minute).Grace(10 * time.Second)
	b := streams.NewBuilder("app")
	texts(b).GroupByKey().WindowedBy(w).Count("counts", streams.LateTo("late")).ToStream().
		Map(func(k window.Windowed[string], n int64, present bool) (string, int64, bool) {
			return k.Key + "@" + k.Start.Time().Format("15:04"), n, present
		}).To("out")
	d := streamstest.New(t, build(t, b))
	in := d.Input("in", serde.String, serde.String)
	out := d.Output("out", serde.String, serde.Int64)

	in.Send("a", "", at(0))
	in.Send("a", "", at(59*time.Second))
	in.Send("a", "", at(60*time.Second)) // the end is not inside
	in.Send("a", "", at(69*time.Second))
	in.Send("a", "in grace", at(30*time.Second))
	wantLines(t, out, "a@12:00=1", "a@12:00=2", "a@12:01=1", "a@12:01=2", "a@12:00=3")

	in.Send("b", "", at(70*time.Second)) // closes 12:00 for all keys
	in.Send("a", "late", at(30*time.Second))
	wantLines(t, out, "b@12:01=1")

	d.Restart() // stream time survives
	in.Send("a", "late again", at(31*time.Second))
	wantLines(t, out)
	wantLines(t, d.Output("late", serde.String, serde.String), "a=late", "a=late again")
	if got := d.Dropped()["count counts (tumbling 1m0s, grace 10s): late"] + d.Dropped()["count counts: late"]; got != 1 {
		t.Errorf("late records since the restart: %d, want 1; all: %v", got, d.Dropped())
	}
	in.Send("a", "", at(71*time.Second))
	wantLines(t, out, "a@12:01=3")
}

func TestWindowsOfAbsurdTimes(t *testing.T) {
	w := window.Tumbling(time.Minute)
	b := streams.NewBuilder("app")
	texts(b).GroupByKey().WindowedBy(w).Count("counts").ToStream().To("out")
	d := streamstest.New(t, build(t, b))
	in := d.Input("in", serde.String, serde.String)
	for _, ms := range []int64{0, 1<<63 - 1, 1<<63 - 2} {
		in.Send("a", "", time.UnixMilli(ms))
	}
	in.Send("a", "late", noon)
	got := d.Output("out", windowKey(w), serde.Int64).All()
	if len(got) != 3 || got[2].Value != 2 {
		t.Errorf("got %v, want three results, of which the last counts two", got)
	}
}

// sessionLines shows sessions as key[first..last] in seconds from noon.
func sessionJob(t *testing.T, gap, grace time.Duration, opts ...streams.StoreOption) (*streamstest.Driver, streamstest.Input[string, string], *streamstest.Output[string, string]) {
	b := streams.NewBuilder("app")
	texts(b).GroupByKey().WindowedBySession(window.Session(gap).Grace(grace)).
		Aggregate("sessions", func() string { return "" }, func(_, v, kept string) string { return kept + v },
			func(_, a, b string) string { return a + b }, serde.String, opts...).
		ToStream().
		Map(func(k window.Windowed[string], v string, present bool) (string, string, bool) {
			return k.Key + "[" + k.Start.Time().Sub(noon).String() + ".." + k.Last().Time().Sub(noon).String() + "]", v, present
		}).To("out")
	d := streamstest.New(t, build(t, b))
	return d, d.Input("in", serde.String, serde.String), d.Output("out", serde.String, serde.String)
}

func TestSessionsGrowAndMerge(t *testing.T) {
	d, in, out := sessionJob(t, 10*time.Second, time.Hour)
	in.Send("u", "a", at(0))
	wantLines(t, out, "u[0s..0s]=a")
	in.Send("u", "b", at(10*time.Second)) // exactly the gap still joins
	wantLines(t, out, "u[0s..0s] deleted", "u[0s..10s]=ab")
	in.Send("u", "c", at(5*time.Second)) // inside: the key stays, so nothing is deleted
	wantLines(t, out, "u[0s..10s]=abc")
	in.Send("u", "x", at(25*time.Second))
	in.Send("v", "other", at(25*time.Second))
	wantLines(t, out, "u[25s..25s]=x", "v[25s..25s]=other")
	d.Restart()
	in.Send("u", "!", at(18*time.Second)) // joins both
	wantLines(t, out, "u[0s..10s] deleted", "u[25s..25s] deleted", "u[0s..25s]=abcx!")
	in.Send("u", "before", at(-3*time.Second))
	wantLines(t, out, "u[0s..25s] deleted", "u[-3s..25s]=abcx!before")
}

func TestSessionsDropWhatIsLate(t *testing.T) {
	d, in, out := sessionJob(t, 10*time.Second, 5*time.Second, streams.LateTo("late"))
	in.Send("u", "a", at(0))
	in.Send("v", "", at(15*time.Second)) // session u[0..0] is open up to this time
	out.All()
	in.Send("u", "b", at(1*time.Second)) // its own session [1..1] and that of a together
	wantLines(t, out, "u[0s..0s] deleted", "u[0s..1s]=ab")
	in.Send("v", "", at(30*time.Second))
	out.All()
	in.Send("u", "c", at(2*time.Second))
	wantLines(t, out)
	wantLines(t, d.Output("late", serde.String, serde.String), "u=c")
}

func TestSessionKeysAreWrittenAsKafkaWritesThem(t *testing.T) {
	b := streams.NewBuilder("app")
	texts(b).GroupByKey().WindowedBySession(window.Session(time.Second)).Count("n").ToStream().To("out")
	d := streamstest.New(t, build(t, b))
	d.Input("in", serde.String, serde.String).Send("u", "", time.UnixMilli(258))
	if got, want := string(d.Records("out")[0].Key), "u\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x01\x02"; got != want {
		t.Errorf("key %q, want %q", got, want)
	}
	r := d.Output("out", streams.SessionKey(serde.String), serde.Int64).All()[0]
	if r.Key.Start != 258 || r.Key.End != 259 || r.Key.Key != "u" {
		t.Errorf("decoded %v", r.Key)
	}
}

// TestRetentionKeepsClosedWindowsAndChangesNoResult: the same records, once with and once without.
func TestRetentionKeepsClosedWindowsAndChangesNoResult(t *testing.T) {
	held := func(opts ...streams.StoreOption) (windows, sessions int, results string) {
		b := streams.NewBuilder("app")
		g := texts(b).GroupByKey()
		counts := g.WindowedBy(window.Tumbling(time.Minute)).Count("counts", opts...)
		visits := g.WindowedBySession(window.Session(10*time.Second)).Count("visits", opts...)
		counts.ToStream().To("counts")
		visits.ToStream().To("visits")
		d := streamstest.New(t, build(t, b))
		in := d.Input("in", serde.String, serde.String)
		for _, s := range []time.Duration{0, 65, 130, 50, 125, 119, 144, 136} { // 136 is near the closed session that ends at 130
			in.Send("a", "", at(s*time.Second))
		}
		w, ok := counts.WindowStore()
		s, ok2 := visits.SessionStore()
		err := d.Window(w).All(window.Span{Start: 0, End: window.At(at(time.Hour))}, func(string, window.Instant, int64, window.Instant) bool { windows++; return true })
		err2 := d.Session(s).All(func(string, window.Span, int64) bool { sessions++; return true })
		if !ok || !ok2 || err != nil || err2 != nil {
			t.Fatal(ok, ok2, err, err2)
		}
		counted := d.Output("counts", windowKey(window.Tumbling(time.Minute)), serde.Int64)
		visited := d.Output("visits", streams.SessionKey(serde.String), serde.Int64)
		return windows, sessions, fmt.Sprint(lines(counted), lines(visited), d.Dropped())
	}
	windows, sessions, results := held()
	windowsLong, sessionsLong, resultsLong := held(streams.Retention(time.Hour))
	if windows != 1 || windowsLong != 3 {
		t.Errorf("%d and %d windows in the store, want 1 and, with a retention, 3", windows, windowsLong)
	}
	if sessions >= sessionsLong || sessionsLong < 4 {
		t.Errorf("%d and %d sessions in the store, want more with a retention", sessions, sessionsLong)
	}
	if results != resultsLong {
		t.Errorf("results differ\n--- without retention\n%s\n--- with\n%s", results, resultsLong)
	}
}
