package broker_test

import (
	"testing"

	"github.com/millrace/millrace/broker/brokertest"
)

// TestAcknowledgedRecordsSurvive stops the broker in every way, with one
// client that lives through all of it.
func TestAcknowledgedRecordsSurvive(t *testing.T) {
	for name, stop := range map[string]func(*brokertest.Cluster){
		"clean stop": (*brokertest.Cluster).Stop,
		"kill":       (*brokertest.Cluster).Kill,
		"power cut":  func(c *brokertest.Cluster) { c.CutPower(1) },
	} {
		t.Run(name, func(t *testing.T) {
			c := brokertest.Start(t)
			client := newClient(t, c)
			createTopic(t, client, "views", 1, nil)
			values := numbered(30)
			for i := 0; i < len(values); i += 10 {
				produce(t, client, "views", values[i:i+10]...)
				stop(c)
				c.Start()
			}
			got := consume(t, newClient(t, c, fromStart("views")...), len(values))
			for i, r := range got {
				if string(r.Value) != values[i] || r.Offset != int64(i) {
					t.Fatalf("offset %d holds %q, want %q", r.Offset, r.Value, values[i])
				}
			}
		})
	}
}

func TestDataInAFolder(t *testing.T) {
	for name, stop := range map[string]func(*brokertest.Cluster){"clean stop": (*brokertest.Cluster).Stop, "kill": (*brokertest.Cluster).Kill} {
		t.Run(name, func(t *testing.T) {
			c := brokertest.Start(t, brokertest.Folder(t.TempDir()))
			client := newClient(t, c)
			createTopic(t, client, "views", 1, nil)
			produce(t, client, "views", "a", "b")
			stop(c)
			c.Start()
			produce(t, client, "views", "c")
			if got := consume(t, newClient(t, c, fromStart("views")...), 3); string(got[2].Value) != "c" {
				t.Errorf("the third record is %q", got[2].Value)
			}
		})
	}
}
