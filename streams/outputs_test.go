package streams_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/window"
)

func TestMissingOutputTopicsAreNamedAtTheStart(t *testing.T) {
	c := startCluster(t, brokertest.Setting("auto.create.topics.enable", "false"))
	c.createTopic("in", 1)
	c.createTopic("there", 1)
	b := streams.NewBuilder("outputs")
	in := b.Stream("in", serde.String, serde.String)
	in.To("there")
	in.To("nowhere")
	in.GroupByKey().WindowedBy(window.Tumbling(time.Minute)).Count("n", streams.LateTo("nobody"))
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	j := startJob(t, topology, c.config(t.TempDir()))
	select {
	case <-j.done:
	case <-time.After(patience):
		t.Fatal("the job runs without its output topics")
	}
	if j.err == nil || !strings.Contains(j.err.Error(), `create "nowhere", "nobody"`) {
		t.Errorf("the job ended with %v, want the topics that are missing", j.err)
	}
}

func TestOutputTopicsAreMadeWhereTheClusterDoesThat(t *testing.T) {
	c := startCluster(t, brokertest.Setting("auto.create.topics.enable", "true"))
	c.createTopic("lines", 1)
	j := startJob(t, wordCount(t), c.config(t.TempDir()))
	c.produce("lines", "a")
	wantCounts(t, map[string]int64{"a": 1}, j)
	j.mustEnd()
}
