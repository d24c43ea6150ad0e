package streams_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
)

// TestStatelessOperators sends a=1, b=22, a=333 through one operator each.
func TestStatelessOperators(t *testing.T) {
	tests := []struct {
		name string
		job  func(s streams.Stream[string, string])
		want []string
	}{
		{"filter", func(s streams.Stream[string, string]) {
			s.Filter(func(k, v string) bool { return k == "a" }).To("out")
		}, []string{"a=1", "a=333"}},
		{"filter not", func(s streams.Stream[string, string]) {
			s.FilterNot(func(k, v string) bool { return k == "a" }).To("out")
		}, []string{"b=22"}},
		{"map", func(s streams.Stream[string, string]) {
			s.Map(func(k, v string) (string, string) { return v, k }).To("out")
		}, []string{"1=a", "22=b", "333=a"}},
		{"map values", func(s streams.Stream[string, string]) {
			s.MapValues(func(k, v string) int { return len(v) }).MapValues(func(k string, n int) string { return k + fmt.Sprint(n) }).To("out")
		}, []string{"a=a1", "b=b2", "a=a3"}},
		{"flat map", func(s streams.Stream[string, string]) {
			s.FlatMap(func(k, v string, emit func(string, string)) {
				for i, r := range v {
					emit(fmt.Sprint(k, i), string(r))
				}
			}).To("out")
		}, []string{"a0=1", "b0=2", "b1=2", "a0=3", "a1=3", "a2=3"}},
		{"flat map values", func(s streams.Stream[string, string]) {
			s.FlatMapValues(func(k, v string, emit func(string)) {
				for _, r := range v[1:] {
					emit(string(r))
				}
			}).To("out")
		}, []string{"b=2", "a=3", "a=3"}},
		{"select key", func(s streams.Stream[string, string]) {
			s.SelectKey(func(k, v string) string { return k + v }).To("out")
		}, []string{"a1=1", "b22=22", "a333=333"}},
		{"merge", func(s streams.Stream[string, string]) {
			long := s.Filter(func(_, v string) bool { return len(v) > 1 })
			s.Merge(long).To("out")
		}, []string{"a=1", "b=22", "b=22", "a=333", "a=333"}},
		{"split", func(s streams.Stream[string, string]) {
			parts := s.Split()
			rest := parts.Rest("other")
			parts.Branch("one", func(_, v string) bool { return v == "1" }).MapValues(func(_, v string) string { return "one " + v }).To("out")
			parts.Branch("ones", func(k, _ string) bool { return k == "a" }).MapValues(func(_, v string) string { return "a " + v }).To("out")
			rest.MapValues(func(_, v string) string { return "rest " + v }).To("out")
		}, []string{"a=one 1", "b=rest 22", "a=a 333"}},
		{"split without rest drops it", func(s streams.Stream[string, string]) {
			s.Split().Branch("b", func(k, _ string) bool { return k == "b" }).To("out")
		}, []string{"b=22"}},
		{"repartition", func(s streams.Stream[string, string]) {
			s.SelectKey(func(_, v string) string { return v }).Repartition("spread", streams.Partitions(3)).To("out")
		}, []string{"1=1", "22=22", "333=333"}},
		{"to func", func(s streams.Stream[string, string]) {
			s.ToFunc(func(k, _ string) string { return map[string]string{"a": "out", "b": "elsewhere"}[k] })
		}, []string{"a=1", "a=333"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := streams.NewBuilder("app")
			test.job(texts(b))
			d := streamstest.New(t, build(t, b))
			in := d.Input("in", serde.String, serde.String)
			for i, kv := range []string{"a=1", "b=22", "a=333"} {
				k, v, _ := strings.Cut(kv, "=")
				in.Send(k, v, at(time.Duration(i)*time.Second))
			}
			wantLines(t, d.Output("out", serde.String, serde.String), test.want...)
		})
	}
}

func TestPeekAndForEachSeeEveryRecord(t *testing.T) {
	b := streams.NewBuilder("app")
	var seen []string
	texts(b).
		Peek(func(k, v string) { seen = append(seen, "peek "+k+v) }).
		ForEach(func(k, v string) { seen = append(seen, "each "+k+v) })
	d := streamstest.New(t, build(t, b))
	d.Input("in", serde.String, serde.String).Send("a", "1", noon)
	if want := []string{"peek a1", "each a1"}; !slices.Equal(seen, want) {
		t.Errorf("saw %q, want %q", seen, want)
	}
}

func TestToPartitionedWritesWhereItIsTold(t *testing.T) {
	b := streams.NewBuilder("app")
	s := b.Stream("in", serde.String, serde.Int32)
	s.ToPartitioned("out", func(_ string, v, n int32) int32 { return v % n })
	d := streamstest.NewWith(t, build(t, b), streamstest.Config{Partitions: map[string]int32{"out": 4}})
	in := d.Input("in", serde.String, serde.Int32)
	for _, v := range []int32{0, 5, 7} {
		in.Send("k", v, noon)
	}
	var got []int32
	for _, r := range d.Output("out", serde.String, serde.Int32).All() {
		got = append(got, r.Partition)
	}
	if want := []int32{0, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
}

func TestTimeAndHeadersGoAlong(t *testing.T) {
	b := streams.NewBuilder("app")
	s := texts(b).MapValues(func(_, v string) string { return v }).Repartition("again")
	s.To("with")
	s.To("without", streams.WithoutHeaders())
	d := streamstest.New(t, build(t, b))
	d.Input("in", serde.String, serde.String).Send("a", "1", noon, header("trace", "x"))
	with := d.Output("with", serde.String, serde.String).All()[0]
	without := d.Output("without", serde.String, serde.String).All()[0]
	if len(with.Headers) != 1 || string(with.Headers[0].Value) != "x" {
		t.Errorf("headers %v, want the input's", with.Headers)
	}
	if len(without.Headers) != 0 {
		t.Errorf("headers %v, want none", without.Headers)
	}
	if !with.Time.Equal(noon) {
		t.Errorf("time %v, want the input's %v", with.Time, noon)
	}
}

func TestRecordsWithoutKeyOrValue(t *testing.T) {
	b := streams.NewBuilder("app")
	s := texts(b)
	s.To("copy")
	s.GroupByKey().Count("counts").ToStream().To("counts")
	d := streamstest.New(t, build(t, b))
	in := d.Input("in", serde.String, serde.String)
	in.SendKeyless("no key", noon)
	in.Send("", "empty key", noon)
	in.Send("a", "", noon)
	in.Delete("a", noon)
	wantLines(t, d.Output("copy", serde.String, serde.String), "-=no key", "=empty key", "a=")
	wantLines(t, d.Output("counts", serde.String, serde.Int64), "=1", "a=1")
	dropped := d.Dropped()
	if dropped["count counts: null key"] != 1 || dropped["stream in: null value"] != 1 || len(dropped) != 2 {
		t.Errorf("dropped %v, want one null key at the count and one null value at the source", dropped)
	}
}
