package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/task"
)

// locateMax bounds asking where inputs begin and end. Without an answer the task finds out when it fetches.
const locateMax = 5 * time.Second

// located is what the cluster says of input partitions: what the group has committed, and where they begin and end.
type located struct {
	committed    kadm.OffsetResponses
	starts, ends kadm.ListedOffsets
}

// locate asks for the committed offsets and stream times of topics, until it gets them, and for their ends. When the
// thread is to stop it returns nothing: the tasks will not begin.
func (t *thread) locate(ctx context.Context, topics []string) (at located, err error) {
	err = t.rt.retry(ctx, "reading the group's committed offsets", func(ctx context.Context) error {
		at.committed, err = kadm.NewClient(t.client).FetchOffsetsForTopics(ctx, t.rt.cfg.Topology.Application, topics...)
		return errors.Join(err, at.committed.Error())
	})
	if ctx.Err() != nil {
		return located{}, nil
	}
	if err != nil {
		return located{}, err
	}
	ends := t.rt.admin.ListEndOffsets
	if t.readCommitted {
		ends = t.rt.admin.ListCommittedOffsets
	}
	asking, cancel := context.WithTimeout(ctx, locateMax)
	defer cancel()
	at.starts, err = t.rt.admin.ListStartOffsets(asking, topics...)
	if err == nil {
		at.ends, err = ends(asking, topics...)
	}
	if err != nil && ctx.Err() == nil {
		t.log.Warn("cannot find out where the input topics end", "topics", topics, "err", err)
	}
	return at, nil
}

// input makes one input of a task, from what is known of it.
func (t *thread) input(r *taskRun, topic string, at located, old *taskRun) *input {
	in := &input{topic: topic, offset: -1, epoch: -1, time: noTime, begin: -1, end: -1}
	if o, ok := at.committed.Lookup(topic, r.id.Partition); ok && o.Err == nil && o.At >= 0 {
		in.offset, in.epoch, in.time = o.At, o.LeaderEpoch, decodeTime(o.Metadata)
	}
	if old != nil {
		in.begin = old.inputs[topic].begin
	}
	if in.offset >= 0 {
		in.begin = in.offset
	}
	start, ok1 := at.starts.Lookup(topic, r.id.Partition)
	end, ok2 := at.ends.Lookup(topic, r.id.Partition)
	if ok1 && ok2 && start.Err == nil && end.Err == nil {
		in.end = end.Offset
		switch {
		case in.begin > in.end:
			t.log.Warn("the group has committed an offset behind the end of an input partition, which was cut off or made again: reading from its start",
				"topic", topic, "partition", r.id.Partition, "committed", in.begin, "start", start.Offset, "end", in.end)
			in.begin = start.Offset
		case in.begin >= 0:
			in.begin = max(in.begin, start.Offset)
		case r.fromStart(topic):
			in.begin = start.Offset
		default:
			in.begin = in.end
		}
	}
	in.next = in.begin
	return in
}

func (r *taskRun) fromStart(topic string) bool {
	i := slices.IndexFunc(r.program.Inputs, func(in task.InputSpec) bool { return in.Topic == topic })
	return i < 0 || r.program.Inputs[i].FromStart
}

// setStarts tells kgo where the inputs of a task begin: where it knows them to begin, or where the source says.
func (t *thread) setStarts(r *taskRun) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for topic, in := range r.inputs {
		start := kgo.NewOffset().AtEnd()
		switch {
		case in.begin >= 0 && in.begin == in.offset:
			start = kgo.NewOffset().At(in.begin).WithEpoch(in.epoch)
		case in.begin >= 0:
			start = kgo.NewOffset().At(in.begin)
		case r.fromStart(topic):
			start = kgo.NewOffset().AtStart()
		}
		if t.starts[topic] == nil {
			t.starts[topic] = map[int32]kgo.Offset{}
		}
		t.starts[topic][r.id.Partition] = start
	}
}

// adjustOffsets is kgo's AdjustFetchOffsetsFn: it runs after the assignment was dealt with.
func (t *thread) adjustOffsets(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for topic, partitions := range offsets {
		for p := range partitions {
			if start, ok := t.starts[topic][p]; ok {
				partitions[p] = start
			}
		}
	}
	return offsets, nil
}

// rewind lets kgo, which is ahead, fetch the inputs of a task from where it begins.
func (t *thread) rewind(r *taskRun) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for topic, in := range r.inputs {
		offsets[topic] = map[int32]kgo.EpochOffset{r.id.Partition: {Epoch: -1, Offset: in.begin}}
	}
	t.client.SetOffsets(offsets) // skips those that are negative: nothing came of them
}

// add takes what was fetched of one of the task's partitions.
func (r *taskRun) add(t *thread, p kgo.FetchTopicPartition) {
	in, ok := r.inputs[p.Topic]
	if !ok || p.Err != nil && len(p.Records) == 0 {
		return
	}
	in.end = p.HighWatermark
	if t.readCommitted {
		in.end = p.LastStableOffset
	}
	r.looked = false
	if len(p.Records) == 0 {
		return
	}
	if in.begin < 0 {
		in.begin = p.Records[0].Offset
	}
	in.next = p.Records[len(p.Records)-1].Offset + 1
	in.passed, in.lackingSince = false, time.Time{}
	// Ends of transactions are fetched to know that they are behind us, and are no records.
	records := slices.DeleteFunc(p.Records, func(rec *kgo.Record) bool { return rec.Attrs.IsControl() })
	if r.task == nil {
		in.early = append(in.early, records...)
		return
	}
	r.task.Add(p.Topic, records)
	in.recordBytes = bytesOf(p.Records) / len(p.Records)
}

func bytesOf(records []*kgo.Record) (n int) {
	for _, rec := range records {
		n += len(rec.Key) + len(rec.Value) + recordOverhead
	}
	return n
}

// full tells whether the input has all the records that may wait.
func (in *input) full(t *task.Task) bool {
	n := t.Buffered(in.topic)
	return n > bufferedMax || n*in.recordBytes > bufferedBytesMax
}

// low tells whether a paused input is to be fetched again.
func (in *input) low(t *task.Task) bool {
	n := t.Buffered(in.topic)
	return n <= bufferedMax/2 && n*in.recordBytes <= bufferedBytesMax/2
}

// waits tells whether the task waits for another of its partitions, or for another task.
func (r *taskRun) waits() bool { return r.held || !r.head.WaitUntil.IsZero() }

// sated tells whether an input is full, and the task makes headway with it.
func (r *taskRun) sated() bool {
	if r.task == nil || r.waits() {
		return false
	}
	for _, in := range r.inputs {
		if in.full(r.task) {
			return true
		}
	}
	return false
}

// throttle pauses the inputs of a task that are full while it waits for others, and resumes those that have room. What
// the client has fetched of a paused partition it throws away and fetches again, so that is done only when it has
// handed over all; what the task takes beyond its limit is one fetch.
func (r *taskRun) throttle(t *thread) {
	pausing := r.waits() && t.client.BufferedFetchRecords() == 0
	for _, in := range r.inputs {
		partition := map[string][]int32{in.topic: {r.id.Partition}}
		switch {
		case !in.paused && pausing && in.full(r.task):
			in.paused = true
			t.client.PauseFetchPartitions(partition)
		case in.paused && in.low(r.task):
			in.paused = false
			t.client.ResumeFetchPartitions(partition)
		}
	}
}

// reached is how far the task has come in its inputs. One that ran dry is at the end of what was fetched, which may be
// behind the last record.
func (r *taskRun) reached() []task.Position {
	ps := r.task.Positions()
	for i := range ps {
		p := &ps[i]
		if in, ok := r.inputs[p.Topic]; ok && r.task.Buffered(p.Topic) == 0 {
			p.Next = max(p.Next, in.next)
		}
	}
	return ps
}
