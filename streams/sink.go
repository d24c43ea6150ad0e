package streams

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
)

// SinkOption changes how records are written to a topic.
type SinkOption struct{ apply func(*sinkConfig) }

type sinkConfig struct{ bare bool }

// WithoutHeaders writes records without the headers of the input record that they come from. Otherwise these go along.
func WithoutHeaders() SinkOption { return SinkOption{func(c *sinkConfig) { c.bare = true }} }

// To writes the stream to a topic, which must exist. The partition is chosen by the key as Kafka's own producers choose it;
// the timestamp is the event time. It needs both serdes.
func (s Stream[K, V]) To(topic string, opts ...SinkOption) {
	sinkOf(s.n, target[K, V]{topic: topic}, s.k, s.v, opts, streamSink)
}

// ToFunc writes each record to the topic that f returns for it, which must exist.
func (s Stream[K, V]) ToFunc(f func(key K, value V) string, opts ...SinkOption) {
	sinkOf(s.n, target[K, V]{chosen: true, choose: f}, s.k, s.v, opts, streamSink)
}

// ToPartitioned writes the stream to a topic, each record to the partition that f returns, given the number of partitions:
// from 0 to one below it. Any other number is a failure of that record.
func (s Stream[K, V]) ToPartitioned(topic string, f func(key K, value V, partitions int32) int32, opts ...SinkOption) {
	sinkOf(s.n, target[K, V]{topic: topic, partitioned: true, partition: f}, s.k, s.v, opts, streamSink)
}

// target is where a sink writes: a topic, or one chosen for each record; a partition chosen by key, or for each record.
type target[K, V any] struct {
	topic       string
	chosen      bool
	choose      func(K, V) string
	partitioned bool
	partition   func(K, V, int32) int32
}

func streamSink[K, V any](s *sink[K, V]) push[K, V] {
	return func(k K, v V) error { return s.send(k, v, true) }
}

func changesSink[K, V any](s *sink[K, V]) push[K, opt[V]] {
	return func(k K, v opt[V]) error { return s.send(k, v.value, v.present) }
}

// sinkOf adds a sink for what from emits, of which enter makes keys, values and deletes.
func sinkOf[K, V, W any](from *node[K, W], to target[K, V], k serde.Serde[K], v serde.Serde[V], opts []SinkOption, enter func(*sink[K, V]) push[K, W]) {
	var cfg sinkConfig
	for _, o := range opts {
		o.apply(&cfg)
	}
	meta := topology.Node{Kind: topology.Sink, Op: "to", Name: to.topic, Topic: to.topic, Chooses: to.chosen}
	if to.chosen {
		meta.Op = "to-func"
	}
	n := addSink(from, meta, to, k, v, cfg, enter)
	switch {
	case to.chosen:
		n.require(to.choose != nil)
	case to.partitioned:
		n.require(to.partition != nil)
	}
}

func addSink[K, V, W any](from *node[K, W], meta topology.Node, to target[K, V], k serde.Serde[K], v serde.Serde[V], cfg sinkConfig, enter func(*sink[K, V]) push[K, W]) *node[K, W] {
	n := connect(from, meta, func(o opening, _ push[K, W]) push[K, W] {
		s := &sink[K, V]{opening: o, target: to, k: k, v: v, bare: cfg.bare, key: make([]byte, 0, 64), value: make([]byte, 0, 256)}
		if to.topic != "" {
			s.bound = bound[K, V]{serde.Bind(k, to.topic, serde.Key), serde.Bind(v, to.topic, serde.Value)}
		}
		return enter(s)
	})
	need(from.b, n.name, k, serde.Key)
	need(from.b, n.name, v, serde.Value)
	return n
}

type bound[K, V any] struct {
	k serde.Serde[K]
	v serde.Serde[V]
}

// sink encodes and writes. Its buffers are never nil, for nil is null and an empty value is not.
type sink[K, V any] struct {
	opening
	target[K, V]
	k    serde.Serde[K]
	v    serde.Serde[V]
	bare bool

	bound      bound[K, V]            // of the fixed topic
	perTopic   map[string]bound[K, V] // of chosen ones
	key, value []byte
}

func (s *sink[K, V]) send(k K, v V, present bool) error {
	topic, partition, ok, err := s.where(k, v)
	if !ok {
		return err
	}
	b := s.serdes(topic)
	key, value := s.key, s.value
	if ok, err := s.op.GuardEncoding(func() (err error) {
		if key, err = b.k.Append(s.key[:0], k); err != nil {
			return err
		}
		s.key = key
		if !present {
			return nil
		}
		if value, err = b.v.Append(s.value[:0], v); err != nil {
			return err
		}
		s.value = value
		return nil
	}); !ok {
		return err
	}
	if s.NullKey() {
		key = nil
	}
	if !present {
		value = nil
	}
	return s.Send(s.op, topic, partition, key, value, s.bare)
}

// where asks the user's functions; false drops the record.
func (s *sink[K, V]) where(k K, v V) (topic string, partition int32, ok bool, err error) {
	topic, partition = s.topic, task.ByKey
	if s.choose != nil {
		if ok, err := s.op.Guard(func() error { topic = s.choose(k, v); return checkChosen(topic) }); !ok {
			return "", 0, false, err
		}
	}
	if s.partition != nil {
		n, err := s.Partitions(topic)
		if err != nil {
			return "", 0, false, err
		}
		if ok, err := s.op.Guard(func() error { partition = s.partition(k, v, n); return checkPartition(partition, n) }); !ok {
			return "", 0, false, err
		}
	}
	return topic, partition, true, nil
}

// serdes returns the serdes bound to a topic.
func (s *sink[K, V]) serdes(topic string) bound[K, V] {
	if s.choose == nil {
		return s.bound
	}
	b, ok := s.perTopic[topic]
	if !ok {
		if s.perTopic == nil {
			s.perTopic = map[string]bound[K, V]{}
		}
		b = bound[K, V]{serde.Bind(s.k, topic, serde.Key), serde.Bind(s.v, topic, serde.Value)}
		s.perTopic[topic] = b
	}
	return b
}

func checkChosen(topic string) error {
	if topic == "" {
		return errors.New("the function that chooses the topic returned none")
	}
	return nil
}

func checkPartition(partition, n int32) error {
	if partition < 0 || partition >= n {
		return fmt.Errorf("the function that chooses the partition returned %d: the topic has partitions 0 to %d", partition, n-1)
	}
	return nil
}
