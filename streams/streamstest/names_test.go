package streamstest_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// failing is a test that may fail: it keeps the message of its end.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Fatal(args ...any) { f.message = fmt.Sprint(args...); runtime.Goexit() }
func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns what a test that runs f fails with.
func failure(t *testing.T, f func(testing.TB)) string {
	inner := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(inner)
	}()
	<-done
	return inner.message
}

func TestNamesThatTheJobDoesNotHaveFailTheTest(t *testing.T) {
	const (
		reads = `it reads ["payments" "totals-spread-repartition"]`
		has   = `it has ["payments" "totals-spread-repartition" "totals" "totals-totals-changelog"]`
	)
	tests := []struct {
		name string
		use  func(*streamstest.Driver)
		want string
	}{
		{"input", func(d *streamstest.Driver) { d.Input("payment", serde.String, serde.Int64) }, `the job does not read topic "payment"; ` + reads},
		{"record", func(d *streamstest.Driver) { _ = d.TrySend(&kgo.Record{Topic: "totals"}) }, `the job does not read topic "totals"; ` + reads},
		{"output", func(d *streamstest.Driver) { d.Output("total", serde.String, serde.Int64) }, `the job has no topic "total"; ` + has},
		{"records", func(d *streamstest.Driver) { d.Records("total") }, `the job has no topic "total"; ` + has},
		{"refusal", func(d *streamstest.Driver) { d.Refuse("total", nil) }, `the job has no topic "total"; ` + has},
		{"store", func(d *streamstest.Driver) { d.KeyValue(state.NewKeyValue("total", serde.String, serde.Int64)) },
			`the job has no key-value store "total"; it has [totals (key-value)]`},
		{"kind of store", func(d *streamstest.Driver) {
			d.Window(state.NewWindow("totals", serde.String, serde.Int64, time.Second))
		},
			`the job has no window store "totals"; it has [totals (key-value)]`},
		{"zero reference", func(d *streamstest.Driver) { d.Session(state.SessionRef[string, int64]{}) },
			`the reference of the store is a zero value: a table that is a view of another has no store of its own`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := failure(t, func(inner testing.TB) { test.use(streamstest.New(inner, totals(t))) })
			if got != test.want {
				t.Errorf("the test fails with %q\nwant %q", got, test.want)
			}
		})
	}
	partitions := streamstest.Config{Partitions: map[string]int32{"payment": 2}}
	if _, err := streamstest.TryStart(t, totals(t), partitions); err == nil {
		t.Error("partitions of an unknown topic are accepted")
	}
	if _, err := streamstest.TryStart(t, nil, streamstest.Config{}); err == nil {
		t.Error("a job without a topology starts")
	}
}

func TestEveryNameMayBeOneOfDeadLetters(t *testing.T) {
	handlers := streams.Handlers{Deserialization: streams.Always(streams.DeadLetter("payments.dead"))}
	job := streamstest.NewWith(t, totals(t), streamstest.Config{Handlers: handlers, Partitions: map[string]int32{"payments.dead": 2}})
	dead := job.Output("payments.dead", serde.String, serde.String)
	if n := len(dead.All()); n != 0 {
		t.Errorf("%d dead letters before the first", n)
	}
	if err := job.TrySend(&kgo.Record{Topic: "payments", Key: []byte("a"), Value: []byte("poison"), Timestamp: time.Now(), Partition: -1}); err != nil {
		t.Fatal(err)
	}
	if n := len(dead.All()); n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
}

// TestApartShowsWhatCatchingUpLoses: an hour of records in perfect order of time, in three partitions, behind a repartition.
func TestApartShowsWhatCatchingUpLoses(t *testing.T) {
	late := func(grace time.Duration, apart bool) int64 {
		b := streams.NewBuilder("pages")
		b.Stream("views", serde.String, serde.String).
			GroupBy("by-page", func(_, page string) string { return page }, serde.String).
			WindowedBy(window.Tumbling(time.Minute).Grace(grace)).
			Count("views-per-minute")
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		job := streamstest.NewWith(t, topology, streamstest.Config{Partitions: map[string]int32{"views": 3}})
		views := job.Input("views", serde.String, serde.String)
		send := func() {
			for i := range 360 {
				views.Send(fmt.Sprint("user ", i%50), "/", job.Now().Add(time.Duration(i)*10*time.Second))
			}
		}
		if apart {
			job.Apart(send)
		} else {
			send()
		}
		if n := len(job.Records("pages-by-page-repartition")); n != 360 {
			t.Fatalf("%d records behind the first part, want 360", n)
		}
		return job.Dropped()["count views-per-minute: late"]
	}
	if n := late(10*time.Second, false); n != 0 {
		t.Errorf("%d records are late in the order of sending", n)
	}
	if n := late(10*time.Second, true); n < 200 {
		t.Errorf("%d records are late with a grace of 10 s, want two partitions' worth", n)
	}
	if n := late(time.Hour, true); n != 0 {
		t.Errorf("%d records are late with a grace of the time span of the data", n)
	}
}
