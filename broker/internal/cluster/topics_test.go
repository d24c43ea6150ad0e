package cluster

import (
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/disk"
)

func TestSettingsOfATopicChange(t *testing.T) {
	n := openRegistered(t, testConfig(t, disk.NewMemory(time.Now), map[string]string{"log.retention.ms": "9000"}))
	mustCreate(t, n, "orders", 1)
	change := func(c SettingsChange, validateOnly bool) error {
		return n.SetTopicSettings(t.Context(), []SettingsChange{c}, validateOnly)[0].Err
	}
	expect := func(when string, own map[string]string, retention time.Duration) {
		t.Helper()
		topic, _ := n.Image().Topic("orders")
		if !maps.Equal(topic.Settings, own) {
			t.Errorf("%s: settings are %v, want %v", when, topic.Settings, own)
		}
		if got := n.TopicSettings(topic).Retention; got != retention {
			t.Errorf("%s: retention is %v, want %v", when, got, retention)
		}
	}
	set := SettingsChange{Topic: "orders", Set: map[string]string{"retention.ms": "1000", "flush.ms": "5"}}
	if err := change(set, true); err != nil {
		t.Errorf("validating: %v", err)
	}
	expect("after validating only", map[string]string{}, 9*time.Second)
	if err := change(set, false); err != nil {
		t.Errorf("setting: %v", err)
	}
	expect("after setting", set.Set, time.Second)
	if err := change(SettingsChange{Topic: "orders", Unset: []string{"retention.ms"}}, false); err != nil {
		t.Errorf("unsetting: %v", err)
	}
	expect("after unsetting", map[string]string{"flush.ms": "5"}, 9*time.Second)
	if err := change(SettingsChange{Topic: "orders", Set: map[string]string{"retention.ms": "x"}}, false); !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("bad value: %v, want INVALID_CONFIG", err)
	}
	if err := change(SettingsChange{Topic: "nobody"}, false); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("unknown topic: %v, want UNKNOWN_TOPIC_OR_PARTITION", err)
	}
	expect("after refusals", map[string]string{"flush.ms": "5"}, 9*time.Second)
}

func TestManyCallsMayWantTheSameTopic(t *testing.T) {
	n := openRegistered(t, testConfig(t, disk.NewMemory(time.Now), nil))
	var calls sync.WaitGroup
	topics := make([]*Topic, 8)
	for i := range topics {
		calls.Go(func() {
			topic, err := n.EnsureTopic(t.Context(), OffsetsTopic)
			if err != nil {
				t.Errorf("EnsureTopic: %v", err)
			}
			topics[i] = topic
		})
	}
	calls.Wait()
	for _, topic := range topics {
		if topic == nil || topic.ID != topics[0].ID || !topic.Internal() {
			t.Errorf("got %+v, want the same internal topic each time", topic)
		}
	}
}

func TestManyCallsMayAddPartitions(t *testing.T) {
	n := openRegistered(t, testConfig(t, disk.NewMemory(time.Now), nil))
	mustCreate(t, n, "orders", 1)
	var calls sync.WaitGroup
	for count := int32(2); count <= 6; count++ {
		calls.Go(func() {
			r := n.CreatePartitions(t.Context(), []MorePartitions{{Topic: "orders", Count: count}}, false)[0]
			if r.Err != nil && !errors.Is(r.Err, kerr.InvalidPartitions) { // a larger count came first
				t.Errorf("CreatePartitions to %d: %v", count, r.Err)
			}
		})
	}
	calls.Wait()
	if topic, _ := n.Image().Topic("orders"); len(topic.Partitions) != 6 {
		t.Errorf("the topic has %d partitions, want 6", len(topic.Partitions))
	}
}

func TestPolicyDoesNotConcernInternalTopics(t *testing.T) {
	cfg := testConfig(t, disk.NewMemory(time.Now), nil)
	cfg.Policy = func(string, int, int, map[string]string) error { return errors.New("no topics today") }
	n := openRegistered(t, cfg)
	if _, err := n.EnsureTopic(t.Context(), OffsetsTopic); err != nil {
		t.Errorf("internal topic: %v", err)
	}
	if _, err := n.EnsureTopic(t.Context(), "orders"); !errors.Is(err, kerr.PolicyViolation) || err.Error() != "no topics today" {
		t.Errorf("ordinary topic: %v, want POLICY_VIOLATION with the policy's text", err)
	}
}
