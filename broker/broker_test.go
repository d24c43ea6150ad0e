package broker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker/brokertest"
)

// testContext ends before the test's own deadline would, so that a hang shows
// as the failure of the call that hung.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newClient(t *testing.T, c *brokertest.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(c.ClientOptions(), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func createTopic(t *testing.T, client *kgo.Client, name string, partitions int32, settings map[string]*string) {
	t.Helper()
	if _, err := kadm.NewClient(client).CreateTopic(testContext(t), partitions, 1, settings, name); err != nil {
		t.Fatalf("creating topic %s: %v", name, err)
	}
}

// produce sends values to a topic, in order, and returns the records with
// their offsets.
func produce(t *testing.T, client *kgo.Client, topic string, values ...string) []*kgo.Record {
	t.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(v)})
	}
	if err := client.ProduceSync(testContext(t), records...).FirstErr(); err != nil {
		t.Fatalf("producing to %s: %v", topic, err)
	}
	return records
}

// consume polls until it has n records, and fails on any error.
func consume(t *testing.T, client *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx := testContext(t)
	var got []*kgo.Record
	for len(got) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("consuming: got %d of %d records: %v", len(got), n, err)
		}
		fetches.EachError(func(topic string, p int32, err error) { t.Fatalf("consuming %s-%d: %v", topic, p, err) })
		got = append(got, fetches.Records()...)
	}
	return got
}

func fromStart(topics ...string) []kgo.Opt {
	return []kgo.Opt{kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
}

func numbered(n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf("record %d", i)
	}
	return values
}

func TestWhatIsProducedIsConsumed(t *testing.T) {
	c := brokertest.Start(t)
	client := newClient(t, c, kgo.AllowAutoTopicCreation())
	produce(t, client, "views", "a", "b", "c")
	got := consume(t, newClient(t, c, fromStart("views")...), 3)
	for i, want := range []string{"a", "b", "c"} {
		if string(got[i].Value) != want || got[i].Offset != int64(i) {
			t.Errorf("record %d is %q at offset %d, want %q", i, got[i].Value, got[i].Offset, want)
		}
	}
}
