package brokertest

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// createTimeout is how long a broker in the same process may take to make a topic.
const createTimeout = 30 * time.Second

// TopicSetting is one setting of a topic, by Kafka's name for it.
type TopicSetting struct{ Name, Value string }

// CreateTopic makes a topic, and returns when it can be written to and read. A topic that exists already fails the test.
//
//	cluster.CreateTopic("orders", 3)
//	cluster.CreateTopic("customers", 3, brokertest.TopicSetting{Name: "cleanup.policy", Value: "compact"})
func (c *Cluster) CreateTopic(name string, partitions int, settings ...TopicSetting) {
	c.t.Helper()
	client, err := kgo.NewClient(c.ClientOptions()...)
	if err != nil {
		c.t.Fatalf("brokertest: creating topic %q: %v", name, err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	defer cancel()
	configs := map[string]*string{}
	for _, s := range settings {
		configs[s.Name] = &s.Value
	}
	if _, err := kadm.NewClient(client).CreateTopic(ctx, int32(partitions), -1, configs, name); err != nil {
		c.t.Fatalf("brokertest: creating topic %q: %v", name, err)
	}
}
