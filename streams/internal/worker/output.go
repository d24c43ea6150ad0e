package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// output takes what one task writes: messages, as its task.Output, and changes of its stores, for the changelogs. Send and
// Capture are called by the task's thread; the broker's answers come from kgo's goroutines.
type output struct {
	t          *thread
	id         task.ID
	changelogs map[string]string // topic by store

	mu sync.Mutex
	// next is the end of what was acknowledged of each store's changelog.
	next     map[string]int64
	failures []failure
	// changelogErr is the first failure to write a change; the stores are then ahead of what can be restored.
	changelogErr error
}

// failure is a message that could not be written.
type failure struct {
	message *task.Message
	err     error
}

var _ task.Output = (*output)(nil)

// Send implements [task.Output].
func (o *output) Send(m *task.Message) error {
	rec := &kgo.Record{Topic: m.Topic, Partition: m.Partition, Timestamp: time.UnixMilli(int64(m.Time)), Headers: cloneHeaders(m.Headers)}
	rec.Key, rec.Value = cloneBytes(m.Key, m.Value)
	operator := m.Operator
	var epoch int64
	flight := o.t.flights[m.Topic]
	if flight != nil {
		epoch = flight.sent()
	}
	o.t.client.Produce(o.t.produceCtx, rec, func(r *kgo.Record, err error) {
		if flight != nil {
			flight.landed(epoch, r.Partition, r.Offset, err)
		}
		if err != nil {
			o.failed(failure{&task.Message{
				Operator: operator, Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers, Time: window.At(r.Timestamp),
			}, err})
		}
	})
	return nil
}

// Partitions implements [task.Output].
func (o *output) Partitions(topic string) (int32, error) { return o.t.rt.partitions(topic) }

// capture sends one change to its changelog; it is the stores' Capture.
func (o *output) capture(c state.Change) error {
	topic := o.changelogs[c.Store]
	rec := &kgo.Record{Topic: topic, Partition: o.id.Partition}
	rec.Key, rec.Value = cloneBytes(c.Key, c.Value)
	if rec.Key == nil {
		rec.Key = []byte{} // a compacted topic takes no null keys
	}
	store := c.Store
	o.t.client.Produce(o.t.produceCtx, rec, func(r *kgo.Record, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch {
		case err == nil:
			o.next[store] = max(o.next[store], r.Offset+1)
		case o.changelogErr == nil:
			o.changelogErr = fmt.Errorf("writing a change of store %q to changelog %q: %w", store, topic, err)
		}
	})
	return nil
}

func (o *output) failed(f failure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures = append(o.failures, f)
}

// takeFailures returns what failed since the last call.
func (o *output) takeFailures() ([]failure, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fs := o.failures
	o.failures = nil
	return fs, o.changelogErr
}

// acknowledged returns the ends of the changelogs, by store.
func (o *output) acknowledged() map[string]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make(map[string]int64, len(o.next))
	for s, n := range o.next {
		out[s] = n
	}
	return out
}

// aborted tells errors of the thread's own end from a broker's refusal.
func aborted(err error) bool {
	return errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrAborting)
}

// partitions returns how many partitions a topic has: planned ones from the plan, others from the cluster.
func (rt *Runtime) partitions(topic string) (int32, error) {
	if n, ok := rt.topics.plan.Partitions[topic]; ok {
		return n, nil
	}
	rt.mu.Lock()
	n, ok := rt.outside[topic]
	rt.mu.Unlock()
	if ok {
		return n, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	found, err := rt.admin.ListTopics(ctx, topic)
	if err == nil {
		err = found[topic].Err
	}
	if err != nil {
		return 0, fmt.Errorf("looking up topic %q: %w", topic, err)
	}
	n = int32(len(found[topic].Partitions))
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.outside[topic] = n
	return n, nil
}

// partitioner sends a record to its own partition if it names one, and otherwise where Kafka's default partitioner would.
type partitioner struct{ byKey kgo.Partitioner }

func newPartitioner() kgo.Partitioner { return partitioner{kgo.StickyKeyPartitioner(nil)} }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return &topicPartitioner{p.byKey.ForTopic(topic)}
}

type topicPartitioner struct{ byKey kgo.TopicPartitioner }

func (p *topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition != task.ByKey || p.byKey.RequiresConsistency(r)
}

func (p *topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition != task.ByKey {
		return int(r.Partition) // kgo refuses what is out of range
	}
	return p.byKey.Partition(r, n)
}

// OnNewBatch passes on what sticky partitioning goes by.
func (p *topicPartitioner) OnNewBatch() {
	if s, ok := p.byKey.(kgo.TopicPartitionerOnNewBatch); ok {
		s.OnNewBatch()
	}
}

// cloneBytes copies key and value into one allocation; nil stays nil.
func cloneBytes(key, value []byte) (k, v []byte) {
	buf := make([]byte, 0, len(key)+len(value))
	if key != nil {
		buf = append(buf, key...)
		k = buf[:len(key):len(key)]
	}
	if value != nil {
		buf = append(buf, value...)
		v = buf[len(buf)-len(value):]
	}
	return k, v
}

func cloneHeaders(hs []kgo.RecordHeader) []kgo.RecordHeader {
	if len(hs) == 0 {
		return nil
	}
	out := make([]kgo.RecordHeader, len(hs))
	for i, h := range hs {
		out[i].Key = h.Key
		out[i].Value, _ = cloneBytes(h.Value, nil)
	}
	return out
}
