package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/settings"
)

// Unset stands for a number of partitions or replicas that the caller leaves
// to the broker's settings.
const Unset = -1

// MaxPartitionsPerRequest is how many partitions one request may make.
const MaxPartitionsPerRequest = 10_000

// NewTopic describes a topic to be made.
type NewTopic struct {
	Name string
	// Partitions and Replicas are counts, or [Unset]. Both must be Unset when
	// there is an Assignment.
	Partitions int32
	Replicas   int16
	// Assignment gives the brokers of each partition by hand; empty: they are
	// chosen.
	Assignment map[int32][]ident.BrokerID
	// Settings are set on the topic, as text.
	Settings map[string]string
}

// TopicResult says what became of one topic of a request.
type TopicResult struct {
	Name string
	ID   ident.TopicID
	// Topic is the topic as it was made, or would be; nil if Err is not, and
	// for deletions.
	Topic *Topic
	// Err is an [*Error], or what stopped the whole request.
	Err error
}

// items runs a request of several topics: plan turns each into an item of a
// command or an error, and send has the command of those items applied. The
// results come in the order of the request.
func items[T, P any](topics []T, plan func(T) (P, TopicResult), send func([]P) ([]TopicResult, error)) []TopicResult {
	results := make([]TopicResult, len(topics))
	var planned []P
	var at []int
	for i, t := range topics {
		var p P
		p, results[i] = plan(t)
		if results[i].Err == nil {
			planned, at = append(planned, p), append(at, i)
		}
	}
	if len(planned) == 0 {
		return results
	}
	sent, err := send(planned)
	for j, i := range at {
		if err != nil {
			results[i].Err = err
			continue
		}
		results[i] = sent[j]
	}
	return results
}

// carryOut proposes a command, or only finds out what it would do.
func (n *Node) carryOut(ctx context.Context, c command, validateOnly bool) ([]TopicResult, error) {
	if validateOnly {
		image := n.Image()
		_, out := image.apply(c, moment{index: image.index, time: n.cfg.Now()})
		return out.topics, out.err
	}
	out, err := n.propose(ctx, c)
	return out.topics, err
}

// CreateTopics makes topics, or only checks whether it could. It returns one
// result a topic, in their order. When it returns, all subscribers have seen
// the new topics. A name that is given twice is refused both times.
func (n *Node) CreateTopics(ctx context.Context, topics []NewTopic, validateOnly bool) []TopicResult {
	return n.createTopics(ctx, topics, validateOnly, n.cfg.Policy)
}

func (n *Node) createTopics(ctx context.Context, topics []NewTopic, validateOnly bool, policy TopicPolicy) []TopicResult {
	image, total := n.Image(), 0
	names := countBy(topics, func(t NewTopic) string { return t.Name })
	plan := func(t NewTopic) (topicPlan, TopicResult) {
		r := TopicResult{Name: t.Name}
		if names[t.Name] > 1 {
			r.Err = refuse(kerr.InvalidRequest, "Duplicate topic name '%s'.", t.Name)
			return topicPlan{}, r
		}
		p, err := n.planTopic(image, t)
		if err == nil {
			err = askPolicy(policy, p)
		}
		if total += len(p.partitions); err == nil && total > MaxPartitionsPerRequest {
			err = refuse(kerr.PolicyViolation, "One request may make %d partitions at most.", MaxPartitionsPerRequest)
		}
		r.Err = err
		return p, r
	}
	return items(topics, plan, func(plans []topicPlan) ([]TopicResult, error) {
		return n.carryOut(ctx, &createTopics{topics: plans}, validateOnly)
	})
}

// planTopic decides everything about a new topic.
func (n *Node) planTopic(image *Image, t NewTopic) (topicPlan, error) {
	if err := CheckTopicName(t.Name); err != nil {
		return topicPlan{}, err
	}
	if t.Name == metadataTopic {
		return topicPlan{}, refuse(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", t.Name)
	}
	if _, ok := image.Topic(t.Name); ok {
		return topicPlan{}, refuse(kerr.TopicAlreadyExists, "Topic '%s' already exists.", t.Name)
	}
	if err := n.cfg.Settings.ValidateTopic(t.Settings); err != nil {
		return topicPlan{}, invalidSettings(err)
	}
	id, err := n.newID()
	if err != nil {
		return topicPlan{}, err
	}
	p := topicPlan{name: t.Name, id: id, settings: t.Settings}
	if len(t.Assignment) > 0 {
		p.partitions, err = checkManual(image, t)
	} else {
		p.partitions, err = n.assign(image, t, id)
	}
	return p, err
}

// assign chooses the brokers of a new topic.
func (n *Node) assign(image *Image, t NewTopic, id ident.TopicID) ([][]ident.BrokerID, error) {
	count, replicas := int(t.Partitions), int(t.Replicas)
	if count == Unset {
		count = int(n.cfg.Settings.NumPartitions)
	}
	if replicas == Unset {
		replicas = int(n.cfg.Settings.ReplicationFactor)
	}
	switch brokers := len(image.brokers); {
	case count < 1:
		return nil, refuse(kerr.InvalidPartitions, "Number of partitions was set to %d; it must be at least 1, or -1 for the default.", count)
	case count > MaxPartitionsPerRequest:
		return nil, refuse(kerr.PolicyViolation, "One request may make %d partitions at most.", MaxPartitionsPerRequest)
	case replicas < 1:
		return nil, refuse(kerr.InvalidReplicationFactor, "Replication factor was set to %d; it must be at least 1, or -1 for the default.", replicas)
	case replicas > brokers:
		return nil, refuse(kerr.InvalidReplicationFactor,
			"Unable to replicate the partitions %d time(s): only %d broker(s) are registered.", replicas, brokers)
	}
	return newPlacement(brokerIDs(image), id).partitions(0, count, replicas), nil
}

// checkManual checks an assignment that was made by hand.
func checkManual(image *Image, t NewTopic) ([][]ident.BrokerID, error) {
	if t.Partitions != Unset {
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but the number of partitions was not set to -1.")
	}
	if t.Replicas != Unset {
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but the replication factor was not set to -1.")
	}
	partitions := make([][]ident.BrokerID, len(t.Assignment))
	for i := range partitions {
		replicas, ok := t.Assignment[int32(i)]
		if !ok {
			return nil, refuse(kerr.InvalidReplicaAssignment,
				"The manual assignment has %d partitions and no partition %d; they must be numbered from 0 without gaps.", len(partitions), i)
		}
		if err := checkReplicas(image, i, replicas, len(t.Assignment[0])); err != nil {
			return nil, err
		}
		partitions[i] = slices.Clone(replicas)
	}
	return partitions, nil
}

// checkReplicas checks the brokers of one partition.
func checkReplicas(image *Image, partition int, replicas []ident.BrokerID, want int) error {
	if len(replicas) == 0 {
		return refuse(kerr.InvalidReplicaAssignment, "The manual assignment gives partition %d to no broker.", partition)
	}
	if len(replicas) != want {
		return refuse(kerr.InvalidReplicaAssignment,
			"The manual assignment gives partition %d %d replica(s), but the other partitions have %d.", partition, len(replicas), want)
	}
	for i, id := range replicas {
		if _, ok := image.Broker(id); !ok {
			return refuse(kerr.InvalidReplicaAssignment, "The manual assignment gives partition %d to broker %d, which is not registered.", partition, id)
		}
		if slices.Contains(replicas[:i], id) {
			return refuse(kerr.InvalidReplicaAssignment, "The manual assignment gives partition %d to broker %d twice.", partition, id)
		}
	}
	return nil
}

func brokerIDs(image *Image) []ident.BrokerID {
	ids := make([]ident.BrokerID, len(image.brokers))
	for i, b := range image.brokers {
		ids[i] = b.ID
	}
	return ids
}

func askPolicy(policy TopicPolicy, p topicPlan) error {
	if policy == nil {
		return nil
	}
	if err := policy(p.name, len(p.partitions), len(p.partitions[0]), p.settings); err != nil {
		return refuse(kerr.PolicyViolation, "%v", err)
	}
	return nil
}

// invalidSettings turns what settings refused into the answer of a request.
func invalidSettings(err error) error { return refuse(kerr.InvalidConfig, "%v", err) }

// EnsureTopics returns the topics of those names, and makes those that do not
// exist: internal topics with what their coordinators need and whatever the
// policy says, all others as auto.create.topics.enable has it. A topic that
// another call makes at the same time is no error. It returns one result a
// name, in their order; names must differ.
func (n *Node) EnsureTopics(ctx context.Context, names []string) []TopicResult {
	plan := func(name string) (NewTopic, TopicResult) {
		if t, ok := n.Image().Topic(name); ok {
			return NewTopic{}, TopicResult{Name: name, ID: t.ID, Topic: t, Err: kerr.TopicAlreadyExists}
		}
		if IsInternal(name) {
			return n.internalTopic(name), TopicResult{}
		}
		return NewTopic{Name: name, Partitions: Unset, Replicas: Unset}, TopicResult{}
	}
	policy := n.cfg.Policy
	if policy != nil {
		policy = func(name string, partitions, replicas int, settings map[string]string) error {
			if IsInternal(name) {
				return nil
			}
			return n.cfg.Policy(name, partitions, replicas, settings)
		}
	}
	results := items(names, plan, func(topics []NewTopic) ([]TopicResult, error) {
		return n.createTopics(ctx, topics, false, policy), nil
	})
	image := n.Image()
	err := n.notifier.wait(ctx, image.index) // another call's topic, too, is to be seen by all subscribers
	for i := range results {
		if r := &results[i]; errors.Is(r.Err, kerr.TopicAlreadyExists) {
			if t, ok := image.Topic(r.Name); ok {
				*r = TopicResult{Name: t.Name, ID: t.ID, Topic: t}
			}
			if err != nil {
				*r = TopicResult{Name: r.Name, Err: timedOut(err)}
			}
		}
	}
	return results
}

// EnsureTopic is [Node.EnsureTopics] for one topic.
func (n *Node) EnsureTopic(ctx context.Context, name string) (*Topic, error) {
	r := n.EnsureTopics(ctx, []string{name})[0]
	return r.Topic, r.Err
}

// internalTopic describes a topic of the broker's own.
func (n *Node) internalTopic(name string) NewTopic {
	s := n.cfg.Settings
	return NewTopic{
		Name:       name,
		Partitions: s.OffsetsTopicPartitions,
		Replicas:   min(s.OffsetsTopicReplicationFactor, int16(len(n.Image().brokers))),
		Settings: map[string]string{
			"cleanup.policy":   "compact",
			"compression.type": "producer",
			"segment.bytes":    strconv.Itoa(int(s.OffsetsTopicSegmentBytes)),
		},
	}
}

// TopicRef names a topic by its name, or, if that is empty, by its id.
type TopicRef struct {
	Name string
	ID   ident.TopicID
}

// DeleteTopics deletes topics. It returns one result a topic, in their order,
// with name and id both where known. A topic that is given twice is refused
// both times.
func (n *Node) DeleteTopics(ctx context.Context, topics []TopicRef) []TopicResult {
	image := n.Image()
	ids := countBy(topics, func(ref TopicRef) ident.TopicID {
		t, _, _ := image.find(ref)
		return t
	})
	plan := func(ref TopicRef) (ident.TopicID, TopicResult) {
		id, name, err := image.find(ref)
		r := TopicResult{Name: name, ID: id, Err: err}
		switch {
		case err != nil:
		case ids[id] > 1:
			r.Err = refuse(kerr.InvalidRequest, "Topic '%s' is named twice.", name)
		case !n.cfg.Settings.DeleteTopics:
			r.Err = refuse(kerr.TopicDeletionDisabled, "Topics cannot be deleted: delete.topic.enable is false.")
		}
		return id, r
	}
	return items(topics, plan, func(ids []ident.TopicID) ([]TopicResult, error) {
		return n.carryOut(ctx, &deleteTopics{ids: ids}, false)
	})
}

// find completes what a request says of a topic.
func (m *Image) find(ref TopicRef) (ident.TopicID, string, error) {
	if ref.Name != "" {
		if t, ok := m.Topic(ref.Name); ok {
			return t.ID, t.Name, nil
		}
		return ref.ID, ref.Name, refuse(kerr.UnknownTopicOrPartition, "There is no topic '%s'.", ref.Name)
	}
	if t, ok := m.TopicByID(ref.ID); ok {
		return t.ID, t.Name, nil
	}
	return ref.ID, "", refuse(kerr.UnknownTopicID, "There is no topic with the id %s.", ref.ID)
}

// MorePartitions asks for a topic to have more partitions.
type MorePartitions struct {
	Topic string
	// Count is the new number of partitions.
	Count int32
	// Assignment gives the brokers of each new partition; nil: they are
	// chosen.
	Assignment [][]ident.BrokerID
}

// CreatePartitions adds partitions to topics, or only checks whether it could.
// It returns one result a topic, in their order. A name that is given twice is
// refused both times.
func (n *Node) CreatePartitions(ctx context.Context, topics []MorePartitions, validateOnly bool) []TopicResult {
	n.growing.Lock() // or two calls would plan on the same number of partitions
	defer n.growing.Unlock()
	image := n.Image()
	names := countBy(topics, func(t MorePartitions) string { return t.Topic })
	plan := func(m MorePartitions) (growth, TopicResult) {
		r := TopicResult{Name: m.Topic}
		if names[m.Topic] > 1 {
			r.Err = refuse(kerr.InvalidRequest, "Duplicate topic name '%s'.", m.Topic)
			return growth{}, r
		}
		g, err := planGrowth(image, m)
		r.ID, r.Err = g.id, err
		return g, r
	}
	return items(topics, plan, func(topics []growth) ([]TopicResult, error) {
		return n.carryOut(ctx, &createPartitions{topics: topics}, validateOnly)
	})
}

// planGrowth decides where the new partitions of a topic go.
func planGrowth(image *Image, m MorePartitions) (growth, error) {
	t, ok := image.Topic(m.Topic)
	if !ok {
		return growth{}, refuse(kerr.UnknownTopicOrPartition, "There is no topic '%s'.", m.Topic)
	}
	g := growth{id: t.ID, from: int32(len(t.Partitions))}
	added, replicas := m.Count-g.from, len(t.Partitions[0].Replicas)
	switch {
	case added == 0:
		return g, refuse(kerr.InvalidPartitions, "Topic already has %d partition(s).", g.from)
	case added < 0:
		return g, refuse(kerr.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", m.Topic, g.from, m.Count)
	case added > MaxPartitionsPerRequest:
		return g, refuse(kerr.PolicyViolation, "One request may make %d partitions at most.", MaxPartitionsPerRequest)
	case m.Assignment != nil && len(m.Assignment) != int(added):
		return g, refuse(kerr.InvalidReplicaAssignment,
			"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", added, len(m.Assignment))
	case m.Assignment == nil && replicas > len(image.brokers):
		return g, refuse(kerr.InvalidReplicationFactor,
			"Unable to replicate the partitions %d time(s): only %d broker(s) are registered.", replicas, len(image.brokers))
	case m.Assignment == nil:
		g.partitions = newPlacement(brokerIDs(image), t.ID).partitions(int(g.from), int(m.Count), replicas)
		return g, nil
	}
	for i, brokers := range m.Assignment {
		if err := checkReplicas(image, int(g.from)+i, brokers, replicas); err != nil {
			return g, err
		}
	}
	g.partitions = m.Assignment
	return g, nil
}

// SettingsChange is a change of a topic's own settings.
type SettingsChange struct {
	Topic string
	// Set gives settings new values; Unset takes them back to their defaults.
	Set   map[string]string
	Unset []string
}

// SetTopicSettings changes settings of topics, or only checks whether it
// could. It returns one result a topic, in their order.
func (n *Node) SetTopicSettings(ctx context.Context, changes []SettingsChange, validateOnly bool) []TopicResult {
	image := n.Image()
	plan := func(c SettingsChange) (settingsPlan, TopicResult) {
		t, ok := image.Topic(c.Topic)
		if !ok {
			return settingsPlan{}, TopicResult{Name: c.Topic, Err: refuse(kerr.UnknownTopicOrPartition, "There is no topic '%s'.", c.Topic)}
		}
		r := TopicResult{Name: t.Name, ID: t.ID}
		if err := n.cfg.Settings.ValidateTopic(c.Set); err != nil {
			r.Err = invalidSettings(err)
		}
		unset := slices.Clone(c.Unset)
		slices.Sort(unset)
		return settingsPlan{id: t.ID, set: c.Set, unset: unset}, r
	}
	return items(changes, plan, func(plans []settingsPlan) ([]TopicResult, error) {
		return n.carryOut(ctx, &changeTopicSettings{changes: plans}, validateOnly)
	})
}

// DescribeTopic lists the settings of a topic, each with its value and source.
func (n *Node) DescribeTopic(t *Topic) []settings.Entry {
	return n.cfg.Settings.DescribeTopic(t.Settings, t.replicas())
}

// TopicSettings returns the values of a topic's settings. A setting that is not
// known or not valid any more, which happens only when an older release opens
// the folder of a newer one, is logged and counts as not set.
func (n *Node) TopicSettings(t *Topic) settings.Topic {
	own := maps.Clone(t.Settings)
	for name, text := range t.Settings {
		if err := n.cfg.Settings.ValidateTopic(map[string]string{name: text}); err != nil {
			n.log.Error("ignoring a setting of a topic", "topic", t.Name, "error", err)
			delete(own, name)
		}
	}
	values, err := n.cfg.Settings.Topic(own, t.replicas())
	if err != nil {
		panic("cluster: settings that are valid one by one are not valid together: " + err.Error())
	}
	return values
}

// replicas is the replication factor of the topic.
func (t *Topic) replicas() int {
	if len(t.Partitions) == 0 {
		return 0
	}
	return len(t.Partitions[0].Replicas)
}

// countBy counts the items that have the same key.
func countBy[T any, K comparable](list []T, key func(T) K) map[K]int {
	counts := make(map[K]int, len(list))
	for _, item := range list {
		counts[key(item)]++
	}
	return counts
}
