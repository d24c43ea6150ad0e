package topology

import (
	"errors"
	"fmt"
	"slices"
)

// checkTopics refuses what can only be a slip: topics of the job's own making that it reads or writes by name, and a
// topic that it both reads and writes, which feeds it its own results for ever.
func (t *Topology) checkTopics() []error {
	var errs []error
	sources := t.ExternalSources()
	for _, n := range t.Nodes {
		if n.Internal || n.Topic == "" && n.LateTopic == "" {
			continue
		}
		for _, topic := range []string{n.Topic, n.LateTopic} {
			switch {
			case slices.ContainsFunc(t.Topics, func(own Topic) bool { return own.Name == topic }):
				errs = append(errs, fmt.Errorf("%s: topic %q is an internal one of this job: use the stream or table that it belongs to", n.Label, topic))
			case n.Kind != Source && slices.Contains(sources, topic):
				errs = append(errs, fmt.Errorf("%s: the job reads topic %q, so it would get what it writes, without end: choose another topic; where the loop is meant, write with ToFunc", n.Label, topic))
			}
		}
	}
	return errs
}

// checkUses refuses operators whose work is for nothing.
func (t *Topology) checkUses() []error {
	var errs []error
	feeds := t.feeds()
	for _, n := range t.Nodes {
		if n.Pure && len(feeds[n.ID]) == 0 {
			errs = append(errs, fmt.Errorf("%s: %w", n.Label, errUnused))
		}
	}
	return errs
}

var errUnused = errors.New("nothing uses its result: end the chain with To or ForEach, keep it in a store, or remove it")
