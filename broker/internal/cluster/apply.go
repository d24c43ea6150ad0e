package cluster

import (
	"maps"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/ident"
)

// apply makes the next image of a command. m stays as it is.
func (m *Image) apply(c command, at moment) (*Image, outcome) {
	next, out := c.apply(m, at)
	if next == m {
		next = m.copy()
	}
	next.index = at.index
	return next, out
}

// copy makes an image whose lists may be replaced, but not written to.
func (m *Image) copy() *Image {
	next := *m
	return &next
}

func (c *initCluster) apply(m *Image, _ moment) (*Image, outcome) {
	if m.clusterID != "" {
		return m, outcome{}
	}
	next := m.copy()
	next.clusterID = c.clusterID
	return next, outcome{}
}

func (c *registerBroker) apply(m *Image, at moment) (*Image, outcome) {
	next := m.copy()
	b := &Broker{
		ID: c.broker, Epoch: int64(at.index), Incarnation: c.incarnation,
		Rack: c.rack, Endpoints: c.endpoints,
	}
	i, known := slices.BinarySearchFunc(m.brokers, c.broker, compareBroker)
	next.brokers = slices.Clone(m.brokers)
	if known {
		next.brokers[i] = b
	} else {
		next.brokers = slices.Insert(next.brokers, i, b)
	}
	next.replaceTopics(func(t *Topic) *Topic { return t.withLeaderRestarted(c.broker) })
	return next, outcome{brokerEpoch: b.Epoch}
}

// withLeaderRestarted returns the topic after the start of a broker: where it
// leads, or may lead because nobody does, it leads in a new epoch.
func (t *Topic) withLeaderRestarted(id ident.BrokerID) *Topic {
	led := func(p Partition) bool {
		return p.Leader == id || p.Leader == ident.NoBroker && slices.Contains(p.ISR, id)
	}
	if !slices.ContainsFunc(t.Partitions, led) {
		return t
	}
	next := *t
	next.Partitions = slices.Clone(t.Partitions)
	for i := range next.Partitions {
		if p := &next.Partitions[i]; led(*p) {
			p.Leader = id
			p.LeaderEpoch++
			p.Epoch++
		}
	}
	return &next
}

func (c *createTopics) apply(m *Image, at moment) (*Image, outcome) {
	next := m.copy()
	out := outcome{topics: make([]TopicResult, len(c.topics))}
	collisions := m.collisionNames(c.topics)
	var made []*Topic
	for i, plan := range c.topics {
		r := &out.topics[i]
		r.Name, r.ID = plan.name, plan.id
		if r.Err = m.mayCreate(plan, collisions); r.Err != nil {
			continue
		}
		collisions[collisionName(plan.name)] = plan.name
		r.Topic = &Topic{Name: plan.name, ID: plan.id, Created: at.time, Settings: plan.settings}
		r.Topic.Partitions = newPartitions(plan.partitions)
		made = append(made, r.Topic)
	}
	next.addTopics(made)
	return next, out
}

// mayCreate refuses a topic whose name or id is taken. collisions has the
// existing names by what they look like with '.' and '_' taken for the same,
// those made by the same command included.
func (m *Image) mayCreate(plan topicPlan, collisions map[string]string) error {
	if _, ok := m.Topic(plan.name); ok {
		return refuse(kerr.TopicAlreadyExists, "Topic '%s' already exists.", plan.name)
	}
	if other, ok := collisions[collisionName(plan.name)]; ok {
		if other == plan.name {
			return refuse(kerr.TopicAlreadyExists, "Topic '%s' already exists.", plan.name)
		}
		return refuse(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", plan.name, other)
	}
	if _, ok := m.TopicByID(plan.id); ok {
		return refuse(kerr.UnknownServerError, "the id %s that was drawn for topic '%s' is taken", plan.id, plan.name)
	}
	return nil
}

// collisionNames has the names that new topics could collide with.
func (m *Image) collisionNames(plans []topicPlan) map[string]string {
	names := make(map[string]string)
	if !slices.ContainsFunc(plans, func(p topicPlan) bool { return mayCollide(p.name) }) {
		return names
	}
	for _, t := range m.topics {
		if mayCollide(t.Name) {
			names[collisionName(t.Name)] = t.Name
		}
	}
	return names
}

// newPartitions are partitions of which the first replica leads and all are in
// sync: they are empty.
func newPartitions(assignments [][]ident.BrokerID) []Partition {
	partitions := make([]Partition, len(assignments))
	for i, replicas := range assignments {
		partitions[i] = Partition{Leader: ident.NoBroker, Replicas: replicas, ISR: replicas}
		if len(replicas) > 0 {
			partitions[i].Leader = replicas[0]
		}
	}
	return partitions
}

func (c *deleteTopics) apply(m *Image, _ moment) (*Image, outcome) {
	next := m.copy()
	out := outcome{topics: make([]TopicResult, len(c.ids))}
	gone := make(map[ident.TopicID]bool)
	for i, id := range c.ids {
		r := &out.topics[i]
		r.ID = id
		t, ok := m.TopicByID(id)
		if !ok || gone[id] {
			r.Err = refuse(kerr.UnknownTopicID, "There is no topic with the id %s.", id)
			continue
		}
		r.Name, gone[id] = t.Name, true
	}
	deleted := func(t *Topic) bool { return gone[t.ID] }
	next.topics = slices.DeleteFunc(slices.Clone(m.topics), deleted)
	next.byID = slices.DeleteFunc(slices.Clone(m.byID), deleted)
	return next, out
}

func (c *createPartitions) apply(m *Image, _ moment) (*Image, outcome) {
	next := m.copy()
	out := outcome{topics: make([]TopicResult, len(c.topics))}
	for i, g := range c.topics {
		out.topics[i] = next.changeTopic(g.id, func(t *Topic) error {
			if len(t.Partitions) != int(g.from) {
				return refuse(kerr.NotController, "Topic '%s' got other partitions at the same time; try again.", t.Name)
			}
			t.Partitions = append(slices.Clip(t.Partitions), newPartitions(g.partitions)...)
			return nil
		})
	}
	return next, out
}

func (c *changeTopicSettings) apply(m *Image, _ moment) (*Image, outcome) {
	next := m.copy()
	out := outcome{topics: make([]TopicResult, len(c.changes))}
	for i, change := range c.changes {
		out.topics[i] = next.changeTopic(change.id, func(t *Topic) error {
			t.Settings = changedSettings(t.Settings, change.set, change.unset)
			return nil
		})
	}
	return next, out
}

// changedSettings returns the settings after a change.
func changedSettings(old, set map[string]string, unset []string) map[string]string {
	settings := make(map[string]string, len(old)+len(set))
	maps.Copy(settings, old)
	for _, name := range unset {
		delete(settings, name)
	}
	maps.Copy(settings, set)
	return settings
}

func (c *allocateProducerIDs) apply(m *Image, _ moment) (*Image, outcome) {
	b, ok := m.Broker(c.broker)
	if !ok || b.Epoch != c.brokerEpoch {
		return m, outcome{err: refuse(kerr.StaleBrokerEpoch, "broker %d was started again since epoch %d", c.broker, c.brokerEpoch)}
	}
	if c.count < 1 || m.nextPID > math.MaxInt64-ident.ProducerID(c.count) {
		return m, outcome{err: refuse(kerr.UnknownServerError, "there are no %d producer ids left after %d", c.count, m.nextPID)}
	}
	next := m.copy()
	next.nextPID += ident.ProducerID(c.count)
	return next, outcome{ids: ProducerIDs{First: m.nextPID, Count: c.count}}
}

// The methods below change an image that is being made: they replace its
// lists, and never write to those of the image before it.

// replaceTopics puts f of each topic in its place.
func (m *Image) replaceTopics(f func(*Topic) *Topic) {
	replaced := make(map[ident.TopicID]*Topic)
	for _, t := range m.topics {
		if n := f(t); n != t {
			replaced[t.ID] = n
		}
	}
	if len(replaced) == 0 {
		return
	}
	for _, list := range []*[]*Topic{&m.topics, &m.byID} {
		*list = slices.Clone(*list)
		for i, t := range *list {
			if n, ok := replaced[t.ID]; ok {
				(*list)[i] = n
			}
		}
	}
}

// changeTopic has f change a copy of a topic, and puts it in the topic's place
// if f gives no error.
func (m *Image) changeTopic(id ident.TopicID, f func(*Topic) error) TopicResult {
	old, ok := m.TopicByID(id)
	if !ok {
		return TopicResult{ID: id, Err: refuse(kerr.UnknownTopicOrPartition, "There is no topic with the id %s.", id)}
	}
	next := *old
	if err := f(&next); err != nil {
		return TopicResult{Name: old.Name, ID: id, Err: err}
	}
	i, _ := slices.BinarySearchFunc(m.topics, old.Name, compareName)
	j, _ := slices.BinarySearchFunc(m.byID, id, compareID)
	m.topics, m.byID = slices.Clone(m.topics), slices.Clone(m.byID)
	m.topics[i], m.byID[j] = &next, &next
	return TopicResult{Name: next.Name, ID: id, Topic: &next}
}

// addTopics adds topics whose names and ids are new.
func (m *Image) addTopics(made []*Topic) {
	if len(made) == 0 {
		return
	}
	m.topics = append(slices.Clip(m.topics), made...)
	m.byID = append(slices.Clip(m.byID), made...)
	slices.SortFunc(m.topics, func(a, b *Topic) int { return compareName(a, b.Name) })
	slices.SortFunc(m.byID, func(a, b *Topic) int { return compareID(a, b.ID) })
}
