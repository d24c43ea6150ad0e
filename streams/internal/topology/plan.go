package topology

import (
	"errors"
	"fmt"
	"maps"
)

// Plan is a topology with its partition counts: what tasks there are, and what internal topics to make.
type Plan struct {
	// Partitions has the count of every topic that the job reads, and of every internal topic.
	Partitions map[string]int32
	// Tasks are all tasks, by order of sub-topologies, then by partition.
	Tasks []TaskID
}

// Plan derives all partition counts from those of the external source topics.
//
// A sub-topology has as many tasks as the largest of its source topics has partitions. A repartition topic has the
// count that the user asked for, or that of the store's other inputs, or as many as the sub-topologies that write to it have tasks; a
// changelog as many as its store's sub-topology has tasks. Topics that feed one store must have equally many
// partitions: otherwise records of one key would meet different parts of it.
func (t *Topology) Plan(external map[string]int32) (*Plan, error) {
	p := &Plan{Partitions: map[string]int32{}}
	var errs []error
	for _, topic := range t.ExternalSources() {
		if n := external[topic]; n > 0 {
			p.Partitions[topic] = n
		} else {
			errs = append(errs, fmt.Errorf("the job reads topic %q, which does not exist", topic))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	t.planRepartition(p)
	if err := t.checkTogether(p); err != nil {
		return nil, err
	}
	for _, sub := range t.Subs {
		n := p.width(sub)
		for i := range n {
			p.Tasks = append(p.Tasks, TaskID{Sub: sub.Name, Partition: i})
		}
		for _, name := range sub.Stores {
			if s, _ := t.Store(name); s.Changelog != "" {
				p.Partitions[s.Changelog] = n
			}
		}
	}
	return p, nil
}

// width returns how many tasks a sub-topology has.
func (p *Plan) width(sub SubTopology) int32 {
	return largest(p.Partitions, sub.Sources)
}

// planRepartition sets the counts of repartition topics. First come those that are given: by the user, or by a topic of
// known count that feeds the same store. The others take the number of tasks that write to them, which may depend on each
// other, in a loop even, through a merge. So they grow from zero until none changes; that ends, because each is the
// largest of some given counts.
func (t *Topology) planRepartition(p *Plan) {
	given := maps.Clone(p.Partitions)
	for _, topic := range t.Topics {
		if topic.Kind == Repartition && topic.Partitions > 0 {
			given[topic.Name] = topic.Partitions
		}
	}
	for t.spread(given) {
	}
	maps.Copy(p.Partitions, given)
	grown := true
	grow := func(topic string, n int32) {
		if given[topic] == 0 && p.Partitions[topic] < n {
			p.Partitions[topic], grown = n, true
		}
	}
	for grown {
		grown = false
		for _, sub := range t.Subs {
			for _, topic := range sub.Internal {
				grow(topic, p.width(sub))
			}
		}
		for _, g := range t.together {
			n := largest(p.Partitions, g.topics)
			for _, topic := range g.topics {
				grow(topic, n)
			}
		}
	}
}

// spread gives the topics of unknown count that stand beside one of known count before a store that count, and tells
// whether there were any.
func (t *Topology) spread(given map[string]int32) bool {
	any := false
	for _, g := range t.together {
		n := largest(given, g.topics)
		for _, topic := range g.topics {
			if n > 0 && given[topic] == 0 {
				given[topic], any = n, true
			}
		}
	}
	return any
}

func largest(counts map[string]int32, topics []string) int32 {
	var n int32
	for _, topic := range topics {
		n = max(n, counts[topic])
	}
	return n
}

func (t *Topology) checkTogether(p *Plan) error {
	var errs []error
	for _, g := range t.together {
		first := g.topics[0]
		for _, topic := range g.topics[1:] {
			if p.Partitions[topic] != p.Partitions[first] {
				errs = append(errs, fmt.Errorf("store %q is fed by topics %q with %d partitions and %q with %d: make them equal, or put a Repartition before the store",
					g.store, first, p.Partitions[first], topic, p.Partitions[topic]))
			}
		}
	}
	return errors.Join(errs...)
}
