package brokertest_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker/brokertest"
)

func TestCreatedTopicCanBeWrittenAtOnce(t *testing.T) {
	c := brokertest.Start(t, brokertest.Setting("auto.create.topics.enable", "false"))
	c.CreateTopic("customers", 3, brokertest.TopicSetting{Name: "cleanup.policy", Value: "compact"})
	client, err := kgo.NewClient(append(c.ClientOptions(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "customers", Partition: 2, Key: []byte("a"), Value: []byte("b")}).FirstErr(); err != nil {
		t.Errorf("writing to its last partition: %v", err)
	}
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, "customers")
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range configs[0].Configs {
		if config.Key == "cleanup.policy" && config.MaybeValue() != "compact" {
			t.Errorf("cleanup.policy is %q, want compact", config.MaybeValue())
		}
	}
}
