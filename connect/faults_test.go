package connect

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
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
