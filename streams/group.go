package streams

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/window"
)

// Grouped is a stream whose records are together by key: those of one key are in one task, and so in one store. What is
// left is to say what to keep: Count, Reduce, Aggregate, or the same per window.
type Grouped[K, V any] struct{ s Stream[K, V] }

// GroupBy groups the stream by a key that is computed from each record. The records go through an internal topic,
// <application>-<name>-repartition, so that all of a key meet in one task. K is the new key's serde; the stream must have
// one for its value.
func (s Stream[K, V]) GroupBy[K2 any](name string, key func(key K, value V) K2, k serde.Serde[K2]) Grouped[K2, V] {
	n := mapped(s.n, topology.Node{Op: "select-key"}, func(k K, v V) (K2, V, error) { return key(k, v), v, nil })
	n.require(key != nil)
	keyed := Stream[K2, V]{n: n, k: reported(k), v: s.v, rekeyed: true}
	grouped := Grouped[K2, V]{keyed.repartition("group-by", name, 0)}
	if k == nil {
		s.n.b.graph.Fail("group-by "+name, errors.New("its argument k is nil"))
	}
	return grouped
}

// GroupByKey groups the stream by the key it has. If an operator before may have changed that key, the operator after
// (which has a name) sends the records through an internal topic, <application>-<its name>-repartition. Records without a
// key are dropped and counted.
func (s Stream[K, V]) GroupByKey() Grouped[K, V] { return Grouped[K, V]{s} }

// RepartitionOption changes how [Stream.Repartition] makes its topic.
type RepartitionOption struct{ apply func(*repartitionConfig) }

type repartitionConfig struct{ partitions int32 }

// Partitions sets the number of partitions of the internal topic. Without it, or with zero, it has as many as the tasks that
// write to it, or as the topics have that it must match. A negative number fails Build.
func Partitions(n int32) RepartitionOption {
	return RepartitionOption{func(c *repartitionConfig) { c.partitions = n }}
}

// Repartition sends the stream through an internal topic, <application>-<name>-repartition, so that the records of one key
// are in one partition, or to have more tasks process what follows. The stream must have both serdes.
func (s Stream[K, V]) Repartition(name string, opts ...RepartitionOption) Stream[K, V] {
	var cfg repartitionConfig
	for _, o := range opts {
		o.apply(&cfg)
	}
	return s.repartition("repartition", name, cfg.partitions)
}

func (s Stream[K, V]) repartition(op, name string, partitions int32) Stream[K, V] {
	s.n = repartitioned(s.n, op, name, partitions, s.k, s.v, streamSink[K, V], streamValues[V])
	s.n.claim(name)
	s.k, s.v = reported(s.k), reported(s.v)
	s.rekeyed = false
	return s
}

// repartitioned sends what from emits through an internal topic: enter makes records of it, wrap makes it of records.
func repartitioned[K, V, W any](from *node[K, W], op, name string, partitions int32, k serde.Serde[K], v serde.Serde[V], enter func(*sink[K, V]) push[K, W], wrap wrapper[V, W]) *node[K, W] {
	b := from.b
	label := op + " " + name
	if partitions < 0 {
		b.graph.Fail(label, fmt.Errorf("it asks for %d partitions: want 1 or more, or none asked for", partitions))
	}
	topic := b.graph.AddRepartition(label, name, partitions)
	addSink(from, topology.Node{Kind: topology.Sink, Op: op, Name: name, Topic: topic, Internal: true}, target[K, V]{topic: topic}, k, v, sinkConfig{}, enter)
	meta := topology.Node{Kind: topology.Source, Op: "repartitioned", Name: name, Topic: topic, Internal: true}
	return addSource(b, meta, k, v, sourceConfig{}, wrap)
}

// placed returns the stream with the records of a key in one partition, for the operator of that name.
func (g Grouped[K, V]) placed(name string) Stream[K, V] {
	if !g.s.rekeyed {
		return g.s
	}
	s := g.s
	s.n = repartitioned(s.n, "repartition", name, 0, s.k, s.v, streamSink[K, V], streamValues[V])
	s.k, s.v = reported(s.k), reported(s.v)
	s.rekeyed = false
	return s
}

// WindowedBy cuts the events of each key into windows of time.
func (g Grouped[K, V]) WindowedBy(w window.Time) WindowedGrouped[K, V] {
	return WindowedGrouped[K, V]{g: g, w: w}
}

// WindowedBySession cuts the events of each key into sessions.
func (g Grouped[K, V]) WindowedBySession(w window.Sessions) SessionGrouped[K, V] {
	return SessionGrouped[K, V]{g: g, w: w}
}
