package streams_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// Words of sentences, counted: the input's key does not matter, so the words are grouped by a new one.
func Example() {
	b := streams.NewBuilder("word-count")
	b.Stream("sentences", serde.String, serde.String).
		FlatMapValues(func(_, sentence string, emit func(string)) {
			for word := range strings.FieldsSeq(sentence) {
				emit(strings.ToLower(word))
			}
		}).
		GroupBy("by-word", func(_, word string) string { return word }, serde.String).
		Count("counts").
		ToStream().
		To("counts")
	topology, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(topology)
	// A program goes on with streams.New and App.Run; a test with streamstest.New.

	// Output:
	// application word-count
	//
	// sub-topology sentences
	//   stream sentences
	//     flat-map-values-1
	//       select-key-1
	//         group-by by-word -> word-count-by-word-repartition
	//
	// sub-topology by-word-repartition
	//   repartitioned by-word <- word-count-by-word-repartition
	//     count counts [counts]
	//       to-stream-1
	//         to counts
	//   store counts: key-value, changelog word-count-counts-changelog
}

// Reading is one value of a sensor.
type Reading struct {
	Celsius float64 `json:"celsius"`
}

// Hour is a sensor and an hour: a key that other tools can read.
type Hour struct {
	Sensor string    `json:"sensor"`
	Hour   time.Time `json:"hour"`
}

// The highest temperature of each sensor and hour. A record up to five minutes late still counts; one that is later goes to
// a topic of its own.
func ExampleGrouped_WindowedBy() {
	b := streams.NewBuilder("sensors")
	b.Stream("readings", serde.String, serde.JSON[Reading]()).
		GroupByKey().
		WindowedBy(window.Tumbling(time.Hour).Grace(5*time.Minute)).
		Reduce("hottest", func(_ string, kept, next Reading) Reading {
			return Reading{max(kept.Celsius, next.Celsius)}
		}, streams.LateTo("readings.late")).
		ToStream().
		Map(func(w window.Windowed[string], r Reading, present bool) (Hour, Reading, bool) {
			return Hour{w.Key, w.Start.Time()}, r, present
		}).
		With(serde.JSON[Hour](), serde.JSON[Reading]()).
		To("hottest")

	run(b, func(job *streamstest.Driver) {
		readings := job.Input("readings", serde.String, serde.JSON[Reading]())
		noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
		readings.Send("roof", Reading{31}, noon)
		readings.Send("roof", Reading{33}, noon.Add(59*time.Minute))
		readings.Send("roof", Reading{30}, noon.Add(64*time.Minute))
		readings.Send("roof", Reading{35}, noon.Add(30*time.Minute))
		readings.Send("roof", Reading{30}, noon.Add(65*time.Minute))
		readings.Send("roof", Reading{99}, noon.Add(30*time.Minute))
		for _, r := range job.Output("hottest", serde.JSON[Hour](), serde.JSON[Reading]()).All() {
			fmt.Println(r.Key.Sensor, r.Key.Hour.Format("15:04"), r.Value.Celsius)
		}
		fmt.Println("late:", len(job.Records("readings.late")))
	})
	// Output:
	// roof 12:00 31
	// roof 12:00 33
	// roof 13:00 30
	// roof 12:00 35
	// roof 13:00 30
	// late: 1
}

// Visits of a shop: a session grows with each record, and its key with it, so the row of the old key is deleted.
func ExampleGrouped_WindowedBySession() {
	b := streams.NewBuilder("shop")
	b.Stream("clicks", serde.String, serde.String).
		GroupByKey().
		WindowedBySession(window.Session(30 * time.Minute)).
		Count("visits").
		ToStream().
		ForEach(func(w window.Windowed[string], n int64, present bool) {
			fmt.Println(w.Key, w.Start.Time().Format("15:04"), "to", w.Last().Time().Format("15:04"), n, present)
		})

	run(b, func(job *streamstest.Driver) {
		clicks := job.Input("clicks", serde.String, serde.String)
		noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
		clicks.Send("ada", "home", noon)
		clicks.Send("ada", "cart", noon.Add(10*time.Minute))
		clicks.Send("ada", "home", noon.Add(2*time.Hour))
	})
	// Output:
	// ada 12:00 to 12:00 1 true
	// ada 12:00 to 12:00 0 false
	// ada 12:00 to 12:10 2 true
	// ada 14:00 to 14:00 1 true
}

// once is a processor that passes on what it has not seen.
type once struct {
	ctx  *streams.Context[string, string]
	seen state.KeyValue[string, bool]
}

var seenOnce = state.NewKeyValue("seen-once", serde.String, serde.Bool)

func (p *once) Init(ctx *streams.Context[string, string]) error {
	p.ctx, p.seen = ctx, ctx.Store(seenOnce)
	return nil
}

func (p *once) Process(key, value string) error {
	if _, dup, err := p.seen.Get(key); err != nil || dup {
		return err
	}
	p.ctx.Emit(key, value)
	return p.seen.Put(key, true, window.At(p.ctx.Time()))
}

// A processor with a store of its own.
func ExampleStream_Process() {
	b := streams.NewBuilder("orders")
	b.Stream("orders", serde.String, serde.String).
		Process("once", func() *once { return &once{} }, seenOnce).
		ForEach(func(id, order string) { fmt.Println(id, order) })

	run(b, func(job *streamstest.Driver) {
		orders := job.Input("orders", serde.String, serde.String)
		orders.Send("o-1", "tea", time.Now())
		orders.Send("o-1", "tea, sent again", time.Now())
		orders.Send("o-2", "milk", time.Now())
	})
	// Output:
	// o-1 tea
	// o-2 milk
}

// run runs a job in a driver, and closes it.
func run(b *streams.Builder, f func(*streamstest.Driver)) {
	topology, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	t := &exampleTest{}
	f(streamstest.New(t, topology))
	t.cleanup()
}

// exampleTest stands in for a test's t, which examples do not have.
type exampleTest struct {
	testing.TB
	cleanup func()
}

func (t *exampleTest) Helper()                      {}
func (t *exampleTest) Output() io.Writer            { return io.Discard }
func (t *exampleTest) Cleanup(f func())             { t.cleanup = f }
func (t *exampleTest) Fatal(args ...any)            { panic(fmt.Sprint(args...)) }
func (t *exampleTest) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
func (t *exampleTest) Errorf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
