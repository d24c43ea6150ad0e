package worker

import (
	"math"
	"sync"
	"time"

	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/window"
)

// Order behind a repartition. What a partition of a repartition topic lacks may not be on the broker yet: the thread itself
// has sent it, or will. A task that has run dry is not known to lag then, and the others of its lane would run ahead by all
// that is on its way. So while an input is dry that tasks of this thread write, its lane goes only as far as these tasks
// had come at a moment since when everything sent by then was acknowledged and fetched. Such a moment is a mark.

const (
	// markInterval is how often a lane looks whether its mark is reached.
	markInterval = time.Millisecond
	// upstreamWaitMax bounds the wait for tasks that write a lane's input. Other processes may be ahead of ours for ever;
	// then the lane goes on by itself for upstreamPause.
	upstreamWaitMax = time.Second
	upstreamPause   = 30 * time.Second
	// forever is behind every event time.
	forever window.Instant = math.MaxInt64
)

// flight is the records of one repartition topic that a thread has sent. The broker's answers come from kgo's goroutines.
type flight struct {
	mu sync.Mutex
	// epoch counts marks; out are the records without an answer by the epoch they were sent in.
	epoch int64
	out   map[int64]int
	ends  map[int32]int64 // of what was acknowledged, by partition
}

func newFlights(topics []topology.Topic) map[string]*flight {
	flights := map[string]*flight{}
	for _, topic := range topics {
		if topic.Kind == topology.Repartition {
			flights[topic.Name] = &flight{out: map[int64]int{}, ends: map[int32]int64{}}
		}
	}
	return flights
}

// sent notes a record and returns the epoch to give to landed.
func (f *flight) sent() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out[f.epoch]++
	return f.epoch
}

// landed notes the answer to a record.
func (f *flight) landed(epoch int64, partition int32, offset int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out[epoch]--; f.out[epoch] == 0 {
		delete(f.out, epoch)
	}
	if err == nil {
		f.ends[partition] = max(f.ends[partition], offset+1)
	}
}

// mark ends an epoch and returns it.
func (f *flight) mark() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch++
	return f.epoch - 1
}

// reached tells whether everything sent up to a mark was answered, and whether a partition was fetched up to there.
func (f *flight) reached(mark int64, partition int32, next int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for epoch := range f.out {
		if epoch <= mark {
			return false
		}
	}
	return next >= f.ends[partition]
}

// ticket is how far a lane may go while some of its input is dry.
type ticket struct {
	until window.Instant
	// marks, by topic, are waited for, since a time on the wall; the lane may go until next when they are reached.
	marks  map[string]int64
	next   window.Instant
	since  time.Time
	paused time.Time // no waiting before
}

// upTo returns how far in event time a lane may go, and whether its first record is beyond.
func (t *thread) upTo(l lane, first *taskRun) (limit window.Instant, held bool) {
	if !t.rt.fed[first.id.Sub] {
		return forever, false
	}
	dry, come, idle := t.dryInputs(l)
	tk := t.tickets[first.id.Sub]
	if tk == nil {
		tk = &ticket{until: noTime}
		t.tickets[first.id.Sub] = tk
	}
	if len(dry) == 0 {
		tk.since = time.Time{}
		return forever, false
	}
	if first.head.Time <= tk.until {
		return tk.until, false
	}
	now := t.rt.cfg.Now()
	if now.Before(tk.paused) {
		return forever, false
	}
	if tk.marks == nil {
		tk.marks, tk.next = map[string]int64{}, come
		for _, d := range dry {
			if _, ok := tk.marks[d.topic]; !ok {
				tk.marks[d.topic] = t.flights[d.topic].mark()
			}
		}
	}
	if t.marksReached(tk, dry) {
		tk.until, tk.marks = max(tk.until, tk.next), nil
		if idle { // nothing is known to come
			tk.until = max(tk.until, first.head.Time)
		}
		if first.head.Time <= tk.until {
			tk.since = time.Time{}
			return tk.until, false
		}
	}
	if tk.since.IsZero() {
		tk.since = now
	}
	if now.Sub(tk.since) > upstreamWaitMax {
		tk.since, tk.paused = time.Time{}, now.Add(upstreamPause)
		return forever, false
	}
	t.heldUntil = earlier(now.Add(markInterval), t.heldUntil)
	return tk.until, true
}

// dryPartition is an input partition without records at hand that tasks of this thread write.
type dryPartition struct {
	*input
	partition int32
}

// dryInputs returns a lane's dry inputs that tasks of this thread write, how far those tasks have come, and whether they have
// nothing to do.
func (t *thread) dryInputs(l lane) (dry []dryPartition, come window.Instant, idle bool) {
	come, idle = forever, true
	for _, r := range l {
		if r.task == nil || r.head.Ready && len(r.inputs) == 1 {
			continue
		}
		for _, in := range r.inputs {
			if r.task.Buffered(in.topic) > 0 || t.flights[in.topic] == nil {
				continue
			}
			up, upIdle, any := t.writers(in.topic)
			if any {
				dry = append(dry, dryPartition{in, r.id.Partition})
				come, idle = min(come, up), idle && upIdle
			}
		}
	}
	return dry, come, idle
}

// writers tells how far the tasks of this thread have come that write a repartition topic, whether all are idle, and whether
// there are any.
func (t *thread) writers(topic string) (come window.Instant, idle, any bool) {
	come, idle = noTime, true
	for _, r := range t.tasks {
		if r.id.Sub != t.rt.writer[topic] {
			continue
		}
		any = true
		if r.task == nil {
			idle = false
			continue
		}
		come = max(come, r.task.StreamTime())
		idle = idle && !r.head.Ready && len(r.lacking) == 0
	}
	return come, idle, any
}

func (t *thread) marksReached(tk *ticket, dry []dryPartition) bool {
	for _, d := range dry {
		mark, ok := tk.marks[d.topic]
		if ok && !t.flights[d.topic].reached(mark, d.partition, d.next) {
			return false
		}
	}
	return true
}
