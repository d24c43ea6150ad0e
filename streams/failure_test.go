package streams_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

var errOdd = errors.New("odd value")

// oddFails is a job whose TryMap refuses odd numbers and panics at 6, beside a branch that takes all.
func oddFails(t *testing.T) *streams.Topology {
	b := streams.NewBuilder("app")
	s := b.Stream("in", serde.String, serde.Int64)
	s.TryMap("even", func(k string, v int64) (string, int64, error) {
		switch {
		case v == 6:
			panic("six")
		case v%2 == 1:
			return "", 0, fmt.Errorf("%d: %w", v, errOdd)
		}
		return k, v, nil
	}).To("out")
	s.To("beside")
	return build(t, b)
}

func TestAFailureEndsTheJobByDefault(t *testing.T) {
	d := streamstest.New(t, oddFails(t))
	err := d.TrySend(&kgo.Record{Topic: "in", Key: []byte("a"), Value: []byte("\x00\x00\x00\x00\x00\x00\x00\x01"), Timestamp: noon})
	if !errors.Is(err, errOdd) || !strings.Contains(err.Error(), "task in_0: processing failed at try-map even, record in[0]@0: 1: odd value") {
		t.Errorf("error %v, want one that names task, operator, record and cause", err)
	}
	err = streamstestPanics(t)
	if err == nil || !strings.Contains(err.Error(), "panic: six") {
		t.Errorf("error %v, want the panic", err)
	}
}

func streamstestPanics(t *testing.T) error {
	d := streamstest.New(t, oddFails(t))
	return d.TrySend(&kgo.Record{Topic: "in", Key: []byte("a"), Value: []byte("\x00\x00\x00\x00\x00\x00\x00\x06"), Timestamp: noon})
}

func TestSkippedRecordsAreCountedAndOtherBranchesGoOn(t *testing.T) {
	var failures []streams.Failure
	skip := func(f streams.Failure) streams.Outcome {
		f.Key, f.Value = slices.Clone(f.Key), slices.Clone(f.Value)
		failures = append(failures, f)
		return streams.Skip()
	}
	d := streamstest.NewWith(t, oddFails(t), streamstest.Config{Handlers: streams.Handlers{Processing: skip}})
	in := d.Input("in", serde.String, serde.Int64)
	for v := range int64(7) {
		in.Send("k", v, noon)
	}
	wantLines(t, d.Output("out", serde.String, serde.Int64), "k=0", "k=2", "k=4")
	wantLines(t, d.Output("beside", serde.String, serde.Int64), "k=0", "k=1", "k=2", "k=3", "k=4", "k=5", "k=6")
	if n := d.Dropped()["try-map even: skipped"]; n != 4 {
		t.Errorf("dropped %v, want 4 skipped", d.Dropped())
	}
	f := failures[0]
	if f.Stage != streams.Processing || f.Operator != "try-map even" || f.Task != "in_0" || f.Topic != "in" || f.Offset != 1 ||
		string(f.Key) != "k" || !f.Time.Equal(noon) || !errors.Is(f.Err, errOdd) || f.Stack != nil {
		t.Errorf("the handler got %+v", f)
	}
	if f := failures[3]; !strings.Contains(string(f.Stack), "failure_test.go") {
		t.Errorf("the stack of the panic does not lead to the function: %s", f.Stack)
	}
}

func TestPoisonGoesToDeadLettersWithItsCause(t *testing.T) {
	handlers := streams.Handlers{
		Deserialization: streams.Always(streams.DeadLetter("dead")),
		Processing:      streams.Always(streams.DeadLetter("dead")),
		Production:      streams.Always(streams.DeadLetter("dead")),
	}
	d := streamstest.NewWith(t, oddFails(t), streamstest.Config{Handlers: handlers})
	in := d.Input("in", serde.String, serde.Int64)
	raw := d.Input("in", serde.String, serde.String)
	raw.Send("poison", "not eight bytes", noon, header("trace", "t1"))
	in.Send("odd", 3, at(time.Second))
	d.Refuse("out", errors.New("too large"))
	in.Send("big", 2, noon)
	d.Refuse("out", nil)
	in.Send("fine", 2, noon)
	wantLines(t, d.Output("out", serde.String, serde.Int64), "fine=2")

	dead := d.Output("dead", serde.String, serde.Bytes).All()
	if len(dead) != 3 {
		t.Fatalf("%d dead letters, want 3: %v", len(dead), dead)
	}
	wants := []map[string]string{
		{"trace": "t1", "message": "decoding the value: an integer has 8 bytes, this has 15", "topic": "in", "partition": "0", "offset": "0", "stage": "deserialization", "operator": "stream in"},
		{"message": "3: odd value", "topic": "in", "offset": "1", "stage": "processing", "operator": "try-map even"},
		{"message": "the broker refused the record: too large", "topic": "out", "offset": "-1", "stage": "production", "operator": "to out"},
	}
	for i, want := range wants {
		got := map[string]string{}
		for _, h := range dead[i].Headers {
			got[strings.TrimPrefix(h.Key, "__streams.errors.")] = string(h.Value)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("dead letter %d: %s is %q, want %q", i, k, got[k], v)
			}
		}
	}
	if dead[0].Key != "poison" || string(dead[0].Value) != "not eight bytes" || !dead[1].Time.Equal(at(time.Second)) {
		t.Errorf("the dead letters are not what was read: %v", dead)
	}
}

// unwritable cannot be encoded when it is negative.
type unwritable struct{ serde.Serde[int64] }

func (s unwritable) Append(dst []byte, v int64) ([]byte, error) {
	switch {
	case v == -1:
		return dst, errors.New("negative")
	case v < -1:
		panic("very negative")
	}
	return s.Serde.Append(dst, v)
}

func TestWhatCannotBeEncodedIsTheRecordsFault(t *testing.T) {
	b := streams.NewBuilder("app")
	s := b.Stream("in", serde.String, serde.Int64)
	s.With(serde.String, unwritable{serde.Int64}).To("out")
	s.GroupByKey().Reduce("sum", func(_ string, a, b int64) int64 { return a + b }).ToStream().To("sums")
	s.With(serde.String, unwritable{serde.Int64}).GroupByKey().Reduce("careful", func(_ string, a, b int64) int64 { return a + b }).
		ToStream().With(serde.String, serde.Int64).To("careful")
	d := streamstest.NewWith(t, build(t, b), streamstest.Config{Handlers: streams.Handlers{
		Processing: streams.Always(streams.Skip()), Production: streams.Always(streams.Skip())}})
	in := d.Input("in", serde.String, serde.Int64)
	for _, v := range []int64{5, -6, -1, -4} {
		in.Send("k", v, noon)
	}
	wantLines(t, d.Output("out", serde.String, serde.Int64), "k=5")
	wantLines(t, d.Output("sums", serde.String, serde.Int64), "k=5", "k=-1", "k=-2", "k=-6")
	wantLines(t, d.Output("careful", serde.String, serde.Int64), "k=5", "k=4", "k=0")
	want := map[string]int64{"to out: skipped": 3, "reduce careful: skipped": 1}
	if got := d.Dropped(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("dropped %v, want %v", got, want)
	}
}

func TestPanicsOfEveryKindOfFunctionAreCaught(t *testing.T) {
	b := streams.NewBuilder("app")
	s := texts(b)
	s.Filter(func(_, _ string) bool { panic(1) }).To("out")
	s.Map(func(_, _ string) (string, string) { panic(1) }).To("out")
	s.MapValues(func(_, _ string) string { panic(1) }).To("out")
	s.FlatMap(func(_, _ string, _ func(string, string)) { panic(1) }).To("out")
	s.FlatMapValues(func(_, _ string, _ func(string)) { panic(1) }).To("out")
	s.TryFlatMapValues("try", func(_, v string, emit func(string)) error { emit(v); return errOdd }).To("emitted")
	s.Peek(func(_, _ string) { panic(1) }).To("out")
	s.ForEach(func(_, _ string) { panic(1) })
	s.Split().Branch("branch", func(_, _ string) bool { panic(1) }).To("out")
	s.ToFunc(func(_, _ string) string { panic(1) })
	s.ToFunc(func(_, _ string) string { return "" })
	s.ToPartitioned("out", func(_, _ string, _ int32) int32 { panic(1) })
	s.ToPartitioned("out", func(_, _ string, n int32) int32 { return n })
	s.GroupByKey().Aggregate("zero", func() string { panic(1) }, func(_, v, _ string) string { return v }, serde.String).ToStream().To("out")
	s.GroupByKey().Aggregate("add", func() string { return "" }, func(_, _, _ string) string { panic(1) }, serde.String).ToStream().To("out")
	s.GroupByKey().WindowedBy(window.Tumbling(time.Second)).Reduce("window", func(_, _, _ string) string { panic(1) }).ToStream().To("windows")
	s.GroupByKey().WindowedBySession(window.Session(time.Second)).Reduce("session", func(_, _, _ string) string { panic(1) }).ToStream().To("sessions")
	s.ToTable("table").Filter(func(_, _ string) bool { panic(1) }).ToStream().To("out")
	s.ToTable("table2").MapValues(func(_, _ string) string { panic(1) }).ToStream().To("out")
	failed := 0
	d := streamstest.NewWith(t, build(t, b), streamstest.Config{Handlers: streams.Handlers{Processing: func(f streams.Failure) streams.Outcome {
		failed++
		return streams.Skip()
	}}})
	in := d.Input("in", serde.String, serde.String)
	in.Send("k", "v", noon)
	in.Send("k", "v", noon)
	if want := 17*2 + 2; failed != want { // the reduces fail at the second record only
		t.Errorf("%d failures, want %d: %v", failed, want, d.Dropped())
	}
	wantLines(t, d.Output("out", serde.String, serde.String))
	wantLines(t, d.Output("emitted", serde.String, serde.String), "k=v", "k=v")
}

func TestInvalidTimesFollowTheirPolicy(t *testing.T) {
	tests := []struct {
		name   string
		policy streams.InvalidTimePolicy
		want   []string
		drops  string
	}{
		{"handler", streams.HandleInvalidTimes, []string{"12:00:05", "12:00:03"}, "map[stream in: skipped:2]"},
		{"drop", streams.DropInvalidTimes, []string{"12:00:05", "12:00:03"}, "map[stream in: invalid time:2]"},
		{"partition time", streams.UsePartitionTime, []string{"00:00:00", "12:00:05", "12:00:03", "12:00:05"}, "map[]"},
		{"wall clock", streams.UseWallClock, []string{"18:00:00", "12:00:05", "12:00:03", "18:00:00"}, "map[]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := streams.NewBuilder("app")
			b.Stream("in", serde.String, serde.String, streams.InvalidTimes(test.policy)).To("out")
			d := streamstest.NewWith(t, build(t, b), streamstest.Config{Start: noon.Add(6 * time.Hour),
				Handlers: streams.Handlers{Deserialization: streams.Always(streams.Skip())}})
			in := d.Input("in", serde.String, serde.String)
			for _, when := range []time.Time{time.UnixMilli(-1), at(5 * time.Second), at(3 * time.Second), time.UnixMilli(-1)} {
				in.Send("k", "", when)
			}
			var got []string
			for _, r := range d.Output("out", serde.String, serde.String).All() {
				got = append(got, r.Time.Format("15:04:05"))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("times %v, want %v", got, test.want)
			}
			if drops := fmt.Sprint(d.Dropped()); drops != test.drops {
				t.Errorf("dropped %v, want %v", drops, test.drops)
			}
		})
	}
}

func TestEventTimeComesFromTheExtractor(t *testing.T) {
	b := streams.NewBuilder("app")
	b.Stream("in", serde.String, serde.Time, streams.InvalidTimes(streams.DropInvalidTimes), streams.EventTime(func(_ string, v time.Time) (time.Time, bool) {
		return v, !v.IsZero()
	})).To("out")
	d := streamstest.New(t, build(t, b))
	in := d.Input("in", serde.String, serde.Time)
	in.Send("k", noon, time.UnixMilli(77))
	in.Send("k", time.Time{}, noon)
	got := d.Output("out", serde.String, serde.Time).All()
	if len(got) != 1 || !got[0].Time.Equal(noon) {
		t.Errorf("got %v, want one record, of the time in its value", got)
	}
}

func TestAnInvalidEventTimeTellsItsCause(t *testing.T) {
	tests := []struct {
		name  string
		times streams.SourceOption
		value string
		at    time.Time
		want  string
	}{
		{"no timestamp", streams.InvalidTimes(streams.HandleInvalidTimes), "x", time.UnixMilli(-1), "the record's timestamp is before 1970, which stands for none: set a policy with InvalidTimes, or an extractor with EventTime, at the source"},
		{"nothing found", streams.EventTime(func(_, _ string) (time.Time, bool) { return noon, false }), "x", noon, "EventTime found no valid time in the record"},
		{"too early", streams.EventTime(func(_, _ string) (time.Time, bool) { return time.UnixMilli(-5).UTC(), true }), "x", noon, "EventTime found 1969-12-31 23:59:59.995 +0000 UTC, which is before 1970"},
		{"error", streams.TryEventTime(func(_, v string) (time.Time, error) { return time.Parse("2006", v) }), "x", noon, `finding the event time: parsing time "x"`},
		{"panic", streams.TryEventTime(func(_, _ string) (time.Time, error) { panic("oops") }), "x", noon, "panic: oops"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := streams.NewBuilder("app")
			b.Stream("in", serde.String, serde.String, test.times).To("out")
			d := streamstest.NewWith(t, build(t, b), streamstest.Config{Handlers: streams.Handlers{Deserialization: streams.Always(streams.DeadLetter("dead"))}})
			d.Input("in", serde.String, serde.String).Send("k", test.value, test.at)
			for _, h := range d.Output("dead", serde.String, serde.String).All()[0].Headers {
				if h.Key == "__streams.errors.message" && strings.Contains(string(h.Value), test.want) {
					return
				} else if h.Key == "__streams.errors.message" {
					t.Errorf("message %q, want %q", h.Value, test.want)
				}
			}
			if n := len(d.Records("out")); n != 0 {
				t.Errorf("%d records went on", n)
			}
		})
	}
}

// TestNumbersAreThoseOfTasks: the public constants are converted to those of tasks by number.
func TestNumbersAreThoseOfTasks(t *testing.T) {
	if streams.Deserialization != streams.Stage(task.Deserialization) || streams.Processing != streams.Stage(task.Processing) ||
		streams.Production != streams.Stage(task.Production) {
		t.Error("the stages differ")
	}
	if streams.HandleInvalidTimes != streams.InvalidTimePolicy(task.FailInvalidTimes) || streams.DropInvalidTimes != streams.InvalidTimePolicy(task.DropInvalidTimes) ||
		streams.UsePartitionTime != streams.InvalidTimePolicy(task.UsePartitionTime) || streams.UseWallClock != streams.InvalidTimePolicy(task.UseWallClock) {
		t.Error("the policies for invalid times differ")
	}
}
