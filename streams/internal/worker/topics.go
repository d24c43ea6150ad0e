package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/streams/internal/topology"
)

// clusterReadyMax is how long a job waits at its start for a cluster that starts too.
const clusterReadyMax = time.Minute

// topicsReadyMax is how long new internal topics may take until every partition has a leader.
const topicsReadyMax = 30 * time.Second

// outputsReadyMax is how long a cluster that makes topics on demand may take for the output topics.
const outputsReadyMax = time.Second

// deleteRetentionDefault is Kafka's delete.retention.ms, for when the cluster does not tell.
const deleteRetentionDefault = 24 * time.Hour

// topics is what the runtime knows of the job's topics, from when it started.
type topics struct {
	plan *topology.Plan
	// ids are the topic ids of changelogs; zero where the cluster has none.
	ids map[string][16]byte
	// tombstones is how long each changelog keeps them.
	tombstones map[string]time.Duration
	// made are the topics that this process made and may not see yet.
	made map[string]bool
}

// prepareTopics finds the input topics, plans the tasks, and makes the internal topics that are missing. Those that exist
// must have the partitions that the plan wants.
func prepareTopics(ctx context.Context, rt *Runtime) (*topics, error) {
	external := rt.cfg.Topology.ExternalSources()
	var found kadm.TopicDetails
	waiting, cancel := context.WithTimeout(ctx, clusterReadyMax)
	defer cancel()
	err := rt.retry(waiting, "asking the cluster for the input topics", func(ctx context.Context) (err error) {
		found, err = rt.admin.ListTopics(ctx, external...)
		return err
	})
	if err != nil {
		return nil, err
	}
	counts := map[string]int32{}
	for _, name := range external {
		d := found[name]
		if d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			return nil, fmt.Errorf("looking up input topic %q: %w", name, d.Err)
		}
		counts[name] = int32(len(d.Partitions))
	}
	plan, err := rt.cfg.Topology.Plan(counts)
	if err != nil {
		return nil, err
	}
	if err := rt.checkOutputs(ctx); err != nil {
		return nil, err
	}
	t := &topics{plan: plan, ids: map[string][16]byte{}, tombstones: map[string]time.Duration{}, made: map[string]bool{}}
	if len(rt.cfg.Topology.Topics) == 0 {
		return t, nil
	}
	if err := t.makeInternal(ctx, rt); err != nil {
		return nil, err
	}
	t.readTombstones(ctx, rt)
	return t, nil
}

// checkOutputs makes sure that the topics which the job writes exist, before it runs for an hour and ends at its first
// write. A cluster that makes topics on demand is asked to.
func (rt *Runtime) checkOutputs(ctx context.Context) error {
	outputs := rt.cfg.Topology.ExternalSinks()
	if len(outputs) == 0 {
		return nil
	}
	var missing []string
	look := func(ctx context.Context) error {
		found, err := rt.admin.ListTopics(ctx, outputs...)
		if err != nil {
			return err
		}
		missing = slices.DeleteFunc(slices.Clone(outputs), func(topic string) bool {
			return !errors.Is(found[topic].Err, kerr.UnknownTopicOrPartition)
		})
		return nil
	}
	if err := rt.retry(ctx, "asking the cluster for the output topics", look); err != nil || len(missing) == 0 {
		return err
	}
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = true
	for _, topic := range missing {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, t)
	}
	asking, cancel := context.WithTimeout(ctx, outputsReadyMax)
	defer cancel()
	_, err := req.RequestWith(asking, rt.second) // the next look says what came of it
	for err == nil && len(missing) > 0 {
		select {
		case <-time.After(outputsReadyMax / 10):
			err = look(asking)
		case <-asking.Done():
			err = asking.Err()
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the job writes to topics that do not exist: create %s", quotedList(missing))
	}
	return nil
}

// quotedList lists names for a sentence.
func quotedList(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, strconv.Quote(n))
	}
	return strings.Join(out, ", ")
}

// makeInternal makes missing internal topics and waits until all can be used. Another instance may make them at the same
// time; then its topics are checked as existing ones are.
func (t *topics) makeInternal(ctx context.Context, rt *Runtime) error {
	ctx, cancel := context.WithTimeout(ctx, topicsReadyMax)
	defer cancel()
	var names []string
	for _, topic := range rt.cfg.Topology.Topics {
		names = append(names, topic.Name)
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		found, err := rt.admin.ListTopics(ctx, names...)
		if err != nil {
			return fmt.Errorf("looking up the internal topics: %w", err)
		}
		ready, err := t.makeMissing(ctx, rt, found)
		if ready || err != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("waiting for internal topics %v to have leaders: %w", names, ctx.Err())
		}
	}
}

// makeMissing makes what is missing of the topics found; ready says that nothing was.
func (t *topics) makeMissing(ctx context.Context, rt *Runtime, found kadm.TopicDetails) (ready bool, err error) {
	ready = true
	for _, topic := range rt.cfg.Topology.Topics {
		want := t.plan.Partitions[topic.Name]
		d, ok := found[topic.Name]
		switch {
		case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			ready = false
			if t.made[topic.Name] {
				continue
			}
			if err := t.make(ctx, rt, topic, want); err != nil {
				return false, err
			}
			t.made[topic.Name] = true
		case d.Err != nil:
			return false, fmt.Errorf("looking up internal topic %q: %w", topic.Name, d.Err)
		case int32(len(d.Partitions)) != want:
			return false, fmt.Errorf("internal topic %q has %d partitions, but the job needs %d: the input topics or the topology changed; reset the application (delete its internal topics and state) or restore the partition counts",
				topic.Name, len(d.Partitions), want)
		default:
			t.ids[topic.Name] = d.ID
			for _, p := range d.Partitions {
				ready = ready && p.Err == nil && p.Leader >= 0
			}
		}
	}
	return ready, nil
}

func (t *topics) make(ctx context.Context, rt *Runtime, topic topology.Topic, partitions int32) error {
	configs := map[string]*string{}
	for k, v := range topic.Configs {
		configs[k] = &v
	}
	const future = "message.timestamp.after.max.ms"
	if topic.Kind == topology.Repartition {
		// Records carry event times; by default brokers from 3.6 on refuse those more than an hour ahead.
		unlimited := strconv.FormatInt(math.MaxInt64, 10)
		configs[future] = &unlimited
	}
	rt.cfg.Log.Info("making internal topic", "topic", topic.Name, "partitions", partitions, "configs", topic.Configs)
	_, err := rt.admin.CreateTopic(ctx, partitions, rt.cfg.ReplicationFactor, configs, topic.Name)
	if errors.Is(err, kerr.InvalidConfig) && configs[future] != nil {
		delete(configs, future) // an older broker, which has no such limit
		_, err = rt.admin.CreateTopic(ctx, partitions, rt.cfg.ReplicationFactor, configs, topic.Name)
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("making internal topic %q: %w", topic.Name, err)
	}
	return nil
}

// readTombstones asks how long changelogs keep tombstones. A job that may not ask assumes the default.
func (t *topics) readTombstones(ctx context.Context, rt *Runtime) {
	for _, topic := range rt.cfg.Topology.Topics {
		if topic.Kind == topology.Changelog {
			t.tombstones[topic.Name] = deleteRetentionDefault
		}
	}
	names := slices.Sorted(maps.Keys(t.tombstones))
	if len(names) == 0 {
		return
	}
	configs, err := rt.admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		rt.cfg.Log.Warn("cannot read the changelogs' settings; assuming the default delete.retention.ms", "err", err)
		return
	}
	for _, c := range configs {
		for _, kv := range c.Configs {
			if kv.Key != "delete.retention.ms" || kv.Value == nil {
				continue
			}
			if ms, err := strconv.ParseInt(*kv.Value, 10, 64); err == nil && ms <= int64(math.MaxInt64/time.Millisecond) {
				t.tombstones[c.Name] = time.Duration(ms) * time.Millisecond
			}
		}
	}
}
