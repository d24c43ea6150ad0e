package streams_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

type textStream = streams.Stream[string, string]

func passAll(string, string) bool { return true }

// TestEachMistakeIsOneError: what is wrong is said once, names the operator, and nothing panics.
func TestEachMistakeIsOneError(t *testing.T) {
	tests := []struct {
		name string
		job  func(b *streams.Builder)
		want string
	}{
		{"zero stream", func(b *streams.Builder) { texts(b).Merge(textStream{}).To("out") },
			`stream in: merged with a zero value, which is no stream`},
		{"zero changes", func(b *streams.Builder) {
			b.Table("in", serde.String, serde.String).ToStream().Merge(streams.Changes[string, string]{}).To("out")
		}, `to-stream-1: merged with a zero value, which is no stream`},
		{"nil store", func(b *streams.Builder) {
			texts(b).Process("first", func() *firstOnly { return &firstOnly{} }, seenRef, nil).To("out")
		}, `process first: store 2 of its list is nil`},
		{"nil extractor", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String, streams.EventTime[string, string](nil)).To("out")
		}, `stream in: its EventTime is given a nil function`},
		{"extractor of other types", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String, streams.TryEventTime(func(int, string) (time.Time, error) { return noon, nil })).To("out")
		}, `stream in: its EventTime takes (int, string), but the source's types are (string, string)`},
		{"no source topic", func(b *streams.Builder) { b.Stream("", serde.String, serde.String).To("out") },
			`stream-1: topic "": must not be . or .. and have 1 to 249 characters`},
		{"no sink topic", func(b *streams.Builder) { texts(b).To("") },
			`to-1: topic "": must not be . or .. and have 1 to 249 characters`},
		{"no sink function", func(b *streams.Builder) { texts(b).ToFunc(nil) }, `to-func-1: its function is nil`},
		{"bad topic for late records", func(b *streams.Builder) {
			texts(b).GroupByKey().WindowedBy(window.Tumbling(time.Minute)).Count("n", streams.LateTo("too late"))
		}, `count n: topic for late records "too late": ' ' is not allowed: use letters, digits, '.', '_' and '-'`},
		{"nil serde of a source", func(b *streams.Builder) {
			b.Stream[string, string]("in", serde.String, nil).GroupByKey().Reduce("last", func(_, _, v string) string { return v })
		}, `stream in: its argument v is nil`},
		{"nil serde of a table", func(b *streams.Builder) { b.Table[string, string]("in", nil, serde.String) },
			`changes in: its argument k is nil`},
		{"nil serde of a group", func(b *streams.Builder) {
			texts(b).GroupBy[string]("by-value", func(_, v string) string { return v }, nil).Count("n").ToStream().To("out")
		}, `group-by by-value: its argument k is nil`},
		{"nil serde of an aggregate", func(b *streams.Builder) {
			texts(b).GroupByKey().Aggregate("n", func() int64 { return 0 }, func(_, _ string, n int64) int64 { return n }, nil)
		}, `aggregate n: its argument a is nil`},
		{"nil zero", func(b *streams.Builder) {
			texts(b).GroupByKey().WindowedBy(window.Tumbling(time.Minute)).
				Aggregate("n", nil, func(_, _ string, n int64) int64 { return n }, serde.Int64)
		}, `aggregate n: its argument zero is nil`},
		{"nil merge", func(b *streams.Builder) {
			texts(b).GroupByKey().WindowedBySession(window.Session(time.Minute)).
				Aggregate("n", func() int64 { return 0 }, func(_, _ string, n int64) int64 { return n }, nil, serde.Int64)
		}, `aggregate n: its argument merge is nil`},
		{"missing serde before a repartition", func(b *streams.Builder) {
			texts(b).SelectKey(func(string, string) order { return order{} }).GroupByKey().Count("n").ToStream().With(serde.JSON[order](), serde.Int64).To("out")
		}, `repartition n: there is no serde for the key type streams_test.order: set it with With before this operator`},
		{"no window", func(b *streams.Builder) {
			texts(b).GroupByKey().WindowedBy(window.Tumbling(-time.Second)).Count("n")
		}, `count n: the size of a tumbling window is -1s: it is at least 1ms`},
		{"no gap", func(b *streams.Builder) {
			texts(b).GroupByKey().WindowedBySession(window.Session(-time.Second)).Count("n")
		}, `count n: the gap of a session is -1s: it is at least 0s`},
		{"short retention", func(b *streams.Builder) {
			texts(b).GroupByKey().WindowedBy(window.Tumbling(time.Minute).Grace(time.Second)).Count("n", streams.Retention(time.Minute))
		}, `count n: its Retention is 1m0s: it is at least 1m1s, for the operator itself needs that`},
		{"crooked retention", func(b *streams.Builder) {
			texts(b).GroupByKey().WindowedBySession(window.Session(time.Minute)).Count("n", streams.Retention(time.Hour+1))
		}, `count n: its Retention is 1h0m0.000000001s: record times have milliseconds, so it must be a whole number of them`},
		{"retention without windows", func(b *streams.Builder) { texts(b).ToTable("last", streams.Retention(time.Hour)) },
			`to-table last: Retention is for windows: without them nothing is forgotten`},
		{"loop", func(b *streams.Builder) { texts(b).Filter(passAll).To("in") },
			`to in: the job reads topic "in", so it would get what it writes, without end: choose another topic; where the loop is meant, write with ToFunc`},
		{"own changelog", func(b *streams.Builder) {
			b.Stream("app-n-changelog", serde.String, serde.String).GroupByKey().Count("n")
		}, `stream app-n-changelog: topic "app-n-changelog" is an internal one of this job: use the stream or table that it belongs to`},
		{"no end", func(b *streams.Builder) { texts(b).Filter(passAll) },
			`filter-1: nothing uses its result: end the chain with To or ForEach, keep it in a store, or remove it`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := streams.NewBuilder("app")
			test.job(b)
			_, err := b.Build()
			if want := "building the topology: " + test.want; err == nil || err.Error() != want {
				t.Errorf("error %v\nwant  %s", err, want)
			}
		})
	}
}

func TestABuilderIsMadeWithNewBuilder(t *testing.T) {
	var empty, used streams.Builder
	used.Stream("in", serde.String, serde.String).To("out")
	for _, b := range []*streams.Builder{&empty, &used} {
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), `application id ""`) {
			t.Errorf("error %v, want one about the application id", err)
		}
	}
}

func TestAJobMayIgnoreABranchAndKeepATableForQueries(t *testing.T) {
	b := streams.NewBuilder("app")
	parts := texts(b).Split()
	parts.Branch("ignored", passAll)
	parts.Rest("kept").ToTable("last")
	build(t, b)
}

// unready fails to begin, in one way or another.
type unready struct {
	init func(*streams.Context[string, string]) error
}

func (p *unready) Init(ctx *streams.Context[string, string]) error { return p.init(ctx) }
func (p *unready) Process(string, string) error                    { return nil }

func TestAProcessorThatCannotBeginIsAnErrorOfTheStart(t *testing.T) {
	tests := map[string]struct {
		newP func() *unready
		want string
	}{
		"panic in Init": {func() *unready {
			return &unready{func(*streams.Context[string, string]) error { panic("no luck") }}
		}, "process p: panic: no luck"},
		"error of Init": {func() *unready {
			return &unready{func(*streams.Context[string, string]) error { return errors.New("no luck") }}
		}, "process p: no luck"},
		"panic of the maker": {func() *unready { panic("none today") }, "process p: panic: none today"},
		"nothing made":       {func() *unready { return nil }, "process p: its function that makes a processor returned nil"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := streams.NewBuilder("app")
			texts(b).Process("p", test.newP).To("out")
			_, err := streamstest.TryStart(t, build(t, b), streamstest.Config{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// forgetful opens a store that it did not list, but only when a record comes.
type forgetful struct {
	ctx *streams.Context[string, string]
}

func (p *forgetful) Init(ctx *streams.Context[string, string]) error { p.ctx = ctx; return nil }
func (p *forgetful) Process(key, value string) error {
	if value == "store" {
		p.ctx.Store(state.NewKeyValue("unlisted", serde.String, serde.String))
	}
	p.ctx.Emit(key, value)
	return nil
}

func TestMisuseOfAContextFailsTheRecordInHand(t *testing.T) {
	var failed []error
	b := streams.NewBuilder("app")
	texts(b).Process("p", func() *forgetful { return &forgetful{} }).To("out")
	d := streamstest.NewWith(t, build(t, b), streamstest.Config{Handlers: streams.Handlers{Processing: func(f streams.Failure) streams.Outcome {
		failed = append(failed, f.Err)
		return streams.Skip()
	}}})
	in := d.Input("in", serde.String, serde.String)
	in.Send("a", "store", noon)
	in.Send("a", "fine", noon)
	wantLines(t, d.Output("out", serde.String, serde.String), "a=fine")
	if len(failed) != 1 || failed[0].Error() != `panic: store "unlisted" was not listed at Process` {
		t.Errorf("failures %v, want one about the store", failed)
	}
}
