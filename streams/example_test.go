package streams_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
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

// The highest temperature of each sensor and hour. Sensors are the input's keys, so nothing is repartitioned, and a grace for
// what sensors send late is enough; a record that is later goes to a topic of its own.
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

// Visit is the key of a visit of a shop.
type Visit struct {
	User  string `json:"user"`
	Since string `json:"since"`
	Until string `json:"until"`
}

// Visits of a shop: a session grows with each record, and its key with it, so the row of the old key is deleted. The deletes
// pass through Map, which makes the same key of them, so that whatever keeps the topic's rows deletes them too.
func ExampleGrouped_WindowedBySession() {
	b := streams.NewBuilder("shop")
	b.Stream("clicks", serde.String, serde.String).
		GroupByKey().
		WindowedBySession(window.Session(30*time.Minute)).
		Count("visits").
		ToStream().
		Map(func(w window.Windowed[string], n int64, present bool) (Visit, int64, bool) {
			return Visit{w.Key, w.Start.Time().Format("15:04"), w.Last().Time().Format("15:04")}, n, present
		}).
		With(serde.JSON[Visit](), serde.Int64).
		To("visits")

	run(b, func(job *streamstest.Driver) {
		clicks := job.Input("clicks", serde.String, serde.String)
		noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
		clicks.Send("ada", "home", noon)
		clicks.Send("ada", "cart", noon.Add(10*time.Minute))
		clicks.Send("ada", "home", noon.Add(2*time.Hour))
		visits := job.Output("visits", serde.JSON[Visit](), serde.Int64)
		for _, r := range visits.All() {
			if r.Present {
				fmt.Println(r.Key, r.Value)
			} else {
				fmt.Println(r.Key, "deleted")
			}
		}
		fmt.Println(len(streamstest.Rows(visits)), "visits")
	})
	// Output:
	// {ada 12:00 12:00} 1
	// {ada 12:00 12:00} deleted
	// {ada 12:00 12:10} 2
	// {ada 14:00 14:00} 1
	// 2 visits
}

// Lines that carry their time and have to be parsed. Both kinds of bad ones end in one dead-letter topic, with the cause.
func ExampleTryEventTime() {
	b := streams.NewBuilder("lines")
	b.Stream("lines", serde.String, serde.String,
		streams.TryEventTime(func(_, line string) (time.Time, error) {
			stamp, _, _ := strings.Cut(line, " ")
			return time.Parse(time.RFC3339, stamp)
		})).
		TryMapValues("parse", func(_, line string) (int, error) {
			_, number, _ := strings.Cut(line, " ")
			return strconv.Atoi(number)
		}).
		ForEach(func(key string, n int) { fmt.Println(key, n) })

	dead := streams.Always(streams.DeadLetter("lines.dead"))
	run(b, func(job *streamstest.Driver) {
		lines := job.Input("lines", serde.String, serde.String)
		lines.Send("good", "2026-07-01T12:00:00Z 17", time.Now())
		lines.Send("no number", "2026-07-01T12:00:01Z many", time.Now())
		lines.Send("no time", "noon 18", time.Now())
		for _, r := range job.Output("lines.dead", serde.String, serde.String).All() {
			for _, h := range r.Headers {
				if h.Key == "__streams.errors.message" {
					fmt.Printf("%s: %s\n", r.Key, h.Value)
				}
			}
		}
	}, streamstest.Config{Handlers: streams.Handlers{Deserialization: dead, Processing: dead}})
	// Output:
	// good 17
	// no number: strconv.Atoi: parsing "many": invalid syntax
	// no time: finding the event time: parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"
}

// run runs a job in a driver, and closes it.
func run(b *streams.Builder, f func(*streamstest.Driver), cfg ...streamstest.Config) {
	topology, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	t := &exampleTest{}
	f(streamstest.NewWith(t, topology, append(cfg, streamstest.Config{})[0]))
	t.end()
}

// exampleTest stands in for a test's t, which examples do not have.
type exampleTest struct {
	testing.TB
	cleanups []func()
}

func (t *exampleTest) Helper()                      {}
func (t *exampleTest) Logf(string, ...any)          {}
func (t *exampleTest) Output() io.Writer            { return io.Discard }
func (t *exampleTest) Cleanup(f func())             { t.cleanups = append(t.cleanups, f) }
func (t *exampleTest) Fatal(args ...any)            { panic(fmt.Sprint(args...)) }
func (t *exampleTest) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
func (t *exampleTest) Errorf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

// TempDir returns a folder that end removes.
func (t *exampleTest) TempDir() string {
	dir, err := os.MkdirTemp("", "millrace-example-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a leftover is the system's to remove
	return dir
}

// end runs what Cleanup was given, last first.
func (t *exampleTest) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}
