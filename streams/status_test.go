package streams_test

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
)

// TestIdlePartitionsHaveALag restarts a job whose input has nothing new, in a partition that was never written too.
func TestIdlePartitionsHaveALag(t *testing.T) {
	c := startCluster(t)
	c.createTopic("lines", 2)
	c.createTopic("words", 1)
	dir := t.TempDir()
	for run := range 2 {
		j := startJob(t, wordCount(t), c.config(dir))
		if run == 0 {
			c.produce("lines", "k=a b a")
		}
		eventually(t, "no lag", func() (bool, string) {
			s := j.app.Status()
			total := int64(0)
			for _, task := range s.Tasks {
				for _, in := range task.Inputs {
					if in.Lag != 0 || in.Next != in.End || in.Committed != in.Next {
						return false, fmt.Sprintf("run %d: %+v", run, task)
					}
					total += in.End
				}
			}
			return len(s.Tasks) == 4 && total == 4, fmt.Sprintf("run %d: %+v", run, s)
		})
		j.mustEnd()
	}
}

func TestSourceThatBeginsAtTheEndMissesNothingAfterItsFirstRun(t *testing.T) {
	c := startCluster(t)
	c.createTopic("in", 1)
	c.createTopic("out", 1)
	b := streams.NewBuilder("latest")
	b.Stream("in", serde.String, serde.String, streams.FromEnd()).To("out")
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	c.produce("in", "k=old")
	j := startJob(t, topology, c.config(t.TempDir()))
	j.running(1)
	j.mustEnd()
	c.produce("in", "k=new")
	j = startJob(t, topology, c.config(t.TempDir()))
	eventually(t, "the record that came between the runs", func() (bool, string) {
		n := c.end("out")
		return n == 1, fmt.Sprint(n)
	})
	j.mustEnd()
}
