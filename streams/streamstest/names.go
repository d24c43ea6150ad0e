package streamstest

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
)

// read returns the topics that the job reads, internal ones included.
func (d *Driver) read() []string {
	var topics []string
	for _, sub := range d.topology.Graph().Subs {
		topics = append(topics, sub.Sources...)
	}
	return topics
}

// mustRead fails the test unless the job reads the topic: a record sent to another one would vanish without a trace.
func (d *Driver) mustRead(topic string) {
	d.t.Helper()
	if topics := d.read(); !slices.Contains(topics, topic) {
		d.t.Fatalf("the job does not read topic %q; it reads %q", topic, topics)
	}
}

// checkKnown returns an error for a topic that the job neither reads nor writes, as far as that can be told: topics may be
// chosen for each record, by a ToFunc or by a handler for its dead letters.
func (d *Driver) checkKnown(topic string) error {
	graph := d.topology.Graph()
	h := d.cfg.Handlers
	if graph.ChoosesTopics() || h.Deserialization != nil || h.Processing != nil || h.Production != nil {
		return nil
	}
	known := append(d.read(), graph.ExternalSinks()...)
	for _, t := range graph.Topics {
		if t.Kind == topology.Changelog {
			known = append(known, t.Name)
		}
	}
	if !slices.Contains(known, topic) {
		return fmt.Errorf("the job has no topic %q; it has %q", topic, known)
	}
	return nil
}

func (d *Driver) mustKnow(topic string) {
	d.t.Helper()
	if err := d.checkKnown(topic); err != nil {
		d.t.Fatal(err)
	}
}

// mustStore fails the test unless the job has the store.
func (d *Driver) mustStore(spec state.Spec) {
	d.t.Helper()
	var have []string
	for _, s := range d.topology.Graph().Stores {
		if s.Name == spec.Name && s.Kind == spec.Kind {
			return
		}
		have = append(have, fmt.Sprintf("%s (%v)", s.Name, s.Kind))
	}
	if spec.Name == "" {
		d.t.Fatal("the reference of the store is a zero value: a table that is a view of another has no store of its own")
	}
	d.t.Fatalf("the job has no %v store %q; it has %v", spec.Kind, spec.Name, have)
}
