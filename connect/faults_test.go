package connect

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker/brokertest"
)

// produce writes values to a topic, in order, to partition 0.
func (b *bench) produce(topic string, values ...string) {
	b.Helper()
	client, err := kgo.NewClient(append(b.cluster.ClientOptions(), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for _, v := range values {
		client.Produce(b.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(v)}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Errorf("producing %q: %v", v, err)
			}
		})
	}
	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// numbersFrom returns the numbers of [from, end) as texts.
func numbersFrom(from, end int) []string {
	var out []string
	for i := from; i < end; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

// unique returns lines in order of their first coming, each once.
func unique(lines []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		was := seen[l]
		seen[l] = true
		return was
	})
}

// A process that dies with accepted records takes them with it. Leaving the
// group must not commit them: they have to come again.
func TestAcceptedRecordsOfADeadSinkComeAgain(t *testing.T) {
	b := newBench(t)
	b.stop()
	b.commitInterval = time.Minute // so that nothing is flushed before the process dies
	b.start()
	b.create("out", map[string]string{"connector.class": "buffer", "topics": "in", "path": b.path("out"),
		"key.converter": "string", "value.converter": "string", "die.at": "50"})
	b.produce("in", numbersFrom(0, 50)...)
	b.await("the sink has accepted the first records", func() bool { return len(b.lines("out.accepted")) >= 50 })
	b.produce("in", numbersFrom(50, 60)...)
	b.await("the sink has accepted the last record", func() bool { return slices.Contains(b.lines("out.accepted"), "59") })
	b.stop() // flushes
	if got := unique(b.lines("out")); !slices.Equal(got, counted(60)) {
		t.Errorf("the file has %d different lines, want the 60 in order: %v", len(got), got)
	}
}

// A broker that is away for a while costs time, and nothing else.
func TestBrokerThatIsAwayFailsNoTask(t *testing.T) {
	for how, crash := range map[string]func(*brokertest.Cluster){
		"killed":    (*brokertest.Cluster).Kill,
		"power cut": func(c *brokertest.Cluster) { c.CutPower(1) },
	} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t)
			b.source("in", 3000)
			b.sink("out", "numbers")
			b.await("some lines", func() bool { return len(b.lines("out")) > 200 })
			crash(b.cluster)
			time.Sleep(3 * time.Second) // long enough for clients to notice, and to give up if they do
			b.cluster.Start()
			b.awaitTask("in", Completed)
			b.await("the last line", func() bool { return slices.Contains(b.lines("out"), "2999") })
			if got := unique(b.lines("out")); !slices.Equal(got, counted(3000)) {
				t.Errorf("the file has %d different lines, want the 3000 in order", len(got))
			}
			if s := b.awaitTask("out", Running); s.Trace != "" {
				t.Errorf("the sink still reports %q", s.Trace)
			}
		})
	}
}

// However the cluster is, a worker stops in bounded time.
func TestWorkerStopsWhileTheBrokerIsAway(t *testing.T) {
	b := newBench(t)
	b.source("in", 0)
	b.sink("out", "numbers")
	b.await("some lines", func() bool { return len(b.lines("out")) > 200 })
	b.cluster.Kill()
	begun := time.Now()
	b.stop()
	if took := time.Since(begun); took > 2*stopTimeout {
		t.Errorf("stopping took %v", took)
	}
}
