package streams

import (
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
)

// discard is an output that takes everything.
type discard struct{}

func (discard) Send(*task.Message) error         { return nil }
func (discard) Partitions(string) (int32, error) { return 8, nil }

// stepper returns a function that sends one record through a job. The record is a pair of int64, whose serdes do not
// allocate, so what is left is the job's own.
func stepper(tb testing.TB, job func(Stream[int64, int64])) func() {
	tb.Helper()
	b := NewBuilder("app")
	job(b.Stream("in", serde.Int64, serde.Int64))
	topo, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	program := topo.Programs()[0]
	stores, err := state.Open(state.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { stores.Close() })
	now := time.Now()
	t, err := task.New(task.Config{ID: topology.TaskID{Sub: "in"}, Program: program, Stores: stores, Output: discard{},
		Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	key, _ := serde.Int64.Append(nil, 1)
	value, _ := serde.Int64.Append(nil, 2)
	recs := []*kgo.Record{{Topic: "in", Key: key, Value: value, Timestamp: now}}
	return func() {
		t.Add("in", recs)
		if p, err := t.Step(); err != nil || !p.Processed {
			tb.Fatal(p, err)
		}
		recs[0].Offset++
	}
}

// hotPaths are the operators that must not allocate, ten of each in a row where that is possible.
func hotPaths() map[string]func(Stream[int64, int64]) {
	type s = Stream[int64, int64]
	ten := func(op func(s) s) func(s) {
		return func(in s) {
			for range 10 {
				in = op(in)
			}
			in.ForEach(func(int64, int64) {})
		}
	}
	return map[string]func(s){
		"source alone":  func(s) {},
		"Filter":        ten(func(in s) s { return in.Filter(func(k, v int64) bool { return v >= 0 }) }),
		"FilterNot":     ten(func(in s) s { return in.FilterNot(func(k, v int64) bool { return v < 0 }) }),
		"Map":           ten(func(in s) s { return in.Map(func(k, v int64) (int64, int64) { return v, k }) }),
		"TryMap":        func(in s) { in.TryMap("try", func(k, v int64) (int64, int64, error) { return v, k, nil }).To("out") },
		"MapValues":     ten(func(in s) s { return in.MapValues(func(k, v int64) int64 { return v + 1 }) }),
		"TryMapValues":  func(in s) { in.TryMapValues("try", func(k, v int64) (int64, error) { return v, nil }).To("out") },
		"FlatMap":       ten(func(in s) s { return in.FlatMap(func(k, v int64, emit func(int64, int64)) { emit(v, k) }) }),
		"FlatMapValues": ten(func(in s) s { return in.FlatMapValues(func(k, v int64, emit func(int64)) { emit(v) }) }),
		"TryFlatMapValues": func(in s) {
			in.TryFlatMapValues("try", func(k, v int64, emit func(int64)) error { emit(v); emit(v); return nil }).To("out")
		},
		"SelectKey": ten(func(in s) s { return in.SelectKey(func(k, v int64) int64 { return v }) }),
		"Peek":      ten(func(in s) s { return in.Peek(func(k, v int64) {}) }),
		"Merge":     ten(func(in s) s { return in.Merge(in.Filter(func(k, v int64) bool { return false })) }),
		"Split": ten(func(in s) s {
			sp := in.Split()
			n := len(in.n.name) + int(in.n.id) // a new name each time
			sp.Branch("never"+string(rune('a'+n%26))+string(rune('a'+n/26)), func(k, v int64) bool { return v < 0 })
			return sp.Rest("rest" + string(rune('a'+n%26)) + string(rune('a'+n/26)))
		}),
		"To":            func(in s) { in.To("a"); in.To("b") },
		"ToFunc":        func(in s) { in.ToFunc(func(k, v int64) string { return "out" }) },
		"ToPartitioned": func(in s) { in.ToPartitioned("out", func(k, v int64, n int32) int32 { return n - 1 }) },
		"GroupBy":       func(in s) { in.GroupBy("by", func(k, v int64) int64 { return v }, serde.Int64).Count("n") },
	}
}

func TestStatelessOperatorsDoNotAllocate(t *testing.T) {
	for name, job := range hotPaths() {
		t.Run(name, func(t *testing.T) {
			step := stepper(t, job)
			step()
			if n := testing.AllocsPerRun(200, step); n != 0 {
				t.Errorf("%v allocations a record, want none", n)
			}
		})
	}
}

// BenchmarkOperator is the time of a record through a source, ten operators of a kind, and a ForEach.
func BenchmarkOperator(b *testing.B) {
	for name, job := range hotPaths() {
		b.Run(name, func(b *testing.B) {
			step := stepper(b, job)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
		})
	}
}
