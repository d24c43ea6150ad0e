package streamstest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
)

// totals sums the amounts of each account, over a repartition topic.
func totals(t *testing.T) *streams.Topology {
	b := streams.NewBuilder("totals")
	b.Stream("payments", serde.String, serde.Int64).
		Filter(func(_ string, amount int64) bool { return amount != 0 }).
		Repartition("spread", streams.Partitions(4)).
		GroupByKey().
		Reduce("totals", func(_ string, a, b int64) int64 { return a + b }).
		ToStream().
		To("totals")
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func TestRecordsSpreadOverPartitionsAndStateSurvivesARestart(t *testing.T) {
	job := streamstest.NewWith(t, totals(t), streamstest.Config{Partitions: map[string]int32{"payments": 2, "totals": 3}})
	payments := job.Input("payments", serde.String, serde.Int64)
	out := job.Output("totals", serde.String, serde.Int64)
	accounts := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for range 2 {
		for i, account := range accounts {
			payments.Send(account, int64(i+1), job.Now())
		}
		job.Restart()
	}
	rows := streamstest.Rows(out)
	for i, account := range accounts {
		if rows[account] != 2*int64(i+1) {
			t.Errorf("account %s has %d, want %d", account, rows[account], 2*(i+1))
		}
	}
	if n := len(out.All()); n != 16 || len(out.All()) != 0 {
		t.Errorf("%d results, want 16, and none the second time", n)
	}
	used := map[string]map[int32]bool{}
	for _, topic := range job.Topics() {
		used[topic] = map[int32]bool{}
		for _, rec := range job.Records(topic) {
			used[topic][rec.Partition] = true
		}
	}
	if len(used["payments"]) != 2 || len(used["totals-spread-repartition"]) < 3 || len(used["totals-totals-changelog"]) < 3 {
		t.Errorf("partitions used: %v", used)
	}
	if want := []string{"payments", "totals", "totals-spread-repartition", "totals-totals-changelog"}; !slices.Equal(job.Topics(), want) {
		t.Errorf("topics %v, want %v", job.Topics(), want)
	}
}

func TestAJobThatFailsIsAnError(t *testing.T) {
	job := streamstest.New(t, totals(t))
	err := job.TrySend(&kgo.Record{Topic: "payments", Key: []byte("a"), Value: []byte("a lot"), Timestamp: time.Now(), Partition: -1})
	if err == nil || !strings.Contains(err.Error(), "deserialization failed at stream payments") {
		t.Errorf("error %v", err)
	}
	tooLarge := errors.New("too large")
	job = streamstest.New(t, totals(t))
	job.Refuse("totals-spread-repartition", tooLarge)
	err = job.TrySend(&kgo.Record{Topic: "payments", Key: []byte("a"), Value: []byte("\x00\x00\x00\x00\x00\x00\x00\x01"), Timestamp: time.Now(), Partition: -1})
	if !errors.Is(err, tooLarge) || !strings.Contains(err.Error(), "production failed at repartition spread") {
		t.Errorf("error %v, want the broker's", err)
	}
}
