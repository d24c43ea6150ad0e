package streams_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/window"
)

// pageViews counts the views of each page in each minute, with a grace that is short for a job that has to catch up.
func pageViews(t testing.TB) *streams.Topology {
	t.Helper()
	b := streams.NewBuilder("page-views")
	b.Stream("views", serde.String, serde.String).
		GroupBy("by-page", func(_, page string) string { return page }, serde.String).
		WindowedBy(window.Tumbling(time.Minute).Grace(10 * time.Second)).
		Count("views-per-minute").
		ToStream().
		To("per-minute")
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// dropped sums up what the tasks of a job dropped.
func (j *job) dropped() (n int64) {
	for _, task := range j.app.Status().Tasks {
		for _, d := range task.Drops {
			n += d.Count
		}
	}
	return n
}

// produceViews writes n views in order of time, ten for each second of event time, with keys that spread them over the
// partitions.
func (c *cluster) produceViews(n int, from time.Time) {
	c.t.Helper()
	var rs []*kgo.Record
	for i := range n {
		rs = append(rs, &kgo.Record{
			Topic: "views", Key: fmt.Append(nil, "user", i%50), Value: fmt.Append(nil, "/p", i%7),
			Timestamp: from.Add(time.Duration(i) * 100 * time.Millisecond),
		})
	}
	if err := c.client.ProduceSync(c.t.Context(), rs...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// TestCatchingUpKeepsOrder starts a job on an hour of records that came in perfect order. What a job that kept up would have
// counted, one that catches up must count too: nothing is late.
func TestCatchingUpKeepsOrder(t *testing.T) {
	const views = 36_000
	c := startCluster(t)
	c.createTopic("views", 3)
	c.createTopic("per-minute", 3)
	c.produceViews(views, time.Now().Add(-time.Hour))
	j := startJob(t, pageViews(t), c.config(t.TempDir()))
	eventually(t, "all views", func() (bool, string) {
		n := j.app.Status().Processed
		return n == 2*views, fmt.Sprintf("%d records", n)
	})
	if late := j.dropped(); late > 0 {
		t.Errorf("%d of %d views were dropped as late", late, views)
	}
	j.mustEnd()
}

// TestCatchingUpKeepsOrderBehindTwoRepartitions regroups what it has counted. What the first tasks have on their way to the
// second repartition topic is not on the broker yet, and must be waited for too.
func TestCatchingUpKeepsOrderBehindTwoRepartitions(t *testing.T) {
	const views = 36_000
	c := startCluster(t)
	c.createTopic("views", 3)
	c.createTopic("per-minute", 3)
	c.produceViews(views, time.Now().Add(-time.Hour))
	b := streams.NewBuilder("twice")
	b.Stream("views", serde.String, serde.String).
		GroupBy("by-page", func(_, page string) string { return page }, serde.String).
		Count("views-per-page").
		ToStream().
		Present().
		GroupBy("by-last-digit", func(_ string, n int64) string { return fmt.Sprint(n % 10) }, serde.String).
		WindowedBy(window.Tumbling(time.Minute).Grace(10 * time.Second)).
		Count("changes-per-minute").
		ToStream().
		To("per-minute")
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	j := startJob(t, topology, c.config(t.TempDir()))
	eventually(t, "all views", func() (bool, string) {
		n := j.app.Status().Processed
		return n == 3*views, fmt.Sprintf("%d records", n)
	})
	if late := j.dropped(); late > 0 {
		t.Errorf("%d of %d changes were dropped as late", late, views)
	}
	j.mustEnd()
}
