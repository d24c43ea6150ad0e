package api

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
	"github.com/millrace/millrace/broker/internal/wire"
)

// Fetch (key 1), versions 4 to 18.
//
// KIP-74 (a limit for the whole reply, whose first batch is returned whole
// whatever its size), KIP-98 (isolation, version 4), KIP-107 (log start,
// version 5), KIP-227 (sessions, version 7: every request is answered in full
// with session id 0, which means that there is none), KIP-320 (leader epochs,
// version 9), KIP-392 (rack, version 11, ignored: the leader answers), KIP-516
// (topic ids, version 13), KIP-951 (the new leader in the reply, version 16;
// not filled while one broker leads all). Replicas do not fetch yet; a replica
// id is treated as a consumer.
//
// A reply goes out when it holds min_bytes, when a partition has an error, or
// when max_wait is over, whichever is first.
//
// Errors of a partition: those of [topicRef.find], [Service.leader] and
// partition.Read, OFFSET_OUT_OF_RANGE among them. Of the whole request:
// FETCH_SESSION_ID_NOT_FOUND for what changed in a session, since none was ever
// given out.
func (s *Service) fetch(r *Request, in *kmsg.FetchRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.FetchResponse)
	if in.SessionEpoch > 0 { // the others ask for everything and begin or end a session
		resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
		reply(&fetchBody{resp, nil})
		return
	}
	f := &fetchRequest{
		s: s, in: in, reply: reply,
		maxBytes: min(int(in.MaxBytes), int(s.Settings.FetchMaxBytes), replyBytesMax),
	}
	f.minBytes = min(int(in.MinBytes), f.maxBytes) // more would never come
	f.resolve(s.Cluster.Image())
	if f.attempt(in.MaxWaitMillis <= 0) {
		return
	}
	f.park(r.Context, time.Duration(in.MaxWaitMillis)*time.Millisecond)
}

// replyBytesMax bounds the records of a reply where fetch.max.bytes does not, so
// that the reply fits a frame.
const replyBytesMax = 1 << 30

// fetchRequest is a Fetch request while it is answered.
type fetchRequest struct {
	s        *Service
	in       *kmsg.FetchRequest
	reply    Reply
	maxBytes int
	minBytes int
	parts    []fetchPart // in the order of the request

	// Set once the request is parked.
	timer      *time.Timer
	unregister func() bool

	mu      sync.Mutex
	running bool // an attempt runs
	again   bool // something changed since it began
	last    bool // the time is up: the next attempt answers
	over    bool // the reply was given
}

// fetchPart is one partition of the request.
type fetchPart struct {
	in  *kmsg.FetchRequestTopicPartition
	log *partition.Partition // nil if err is not
	err error
	// watcher is set once the request is parked.
	watcher *partition.Watcher
}

// isolation reads an isolation level (KIP-98). Whatever is not read committed
// is read uncommitted: there is no error for it.
func isolation(level int8) partition.Isolation {
	if level == 1 {
		return partition.ReadCommitted
	}
	return partition.ReadUncommitted
}

// resolve finds the partitions.
func (f *fetchRequest) resolve(image *cluster.Image) {
	for i := range f.in.Topics {
		t := &f.in.Topics[i]
		topic, err := topicRef{t.Topic, t.TopicID, f.in.Version >= 13}.find(image)
		for j := range t.Partitions {
			part := fetchPart{in: &t.Partitions[j], err: err}
			if err == nil {
				part.log, part.err = f.s.leader(topic, part.in.Partition, part.in.CurrentLeaderEpoch)
			}
			f.parts = append(f.parts, part)
		}
	}
}

// attempt reads and replies if there is enough, or if it is the last attempt.
func (f *fetchRequest) attempt(last bool) bool {
	results := make([]partition.ReadResult, len(f.parts))
	errs := make([]error, len(f.parts))
	size, failed := 0, false
	for i, part := range f.parts {
		if part.err != nil {
			errs[i], failed = part.err, true
			continue
		}
		results[i], errs[i] = part.log.Read(partition.ReadRequest{
			From:       ident.Offset(part.in.FetchOffset),
			BytesMax:   max(0, min(int(part.in.PartitionMaxBytes), f.maxBytes-size)),
			AtLeastOne: size == 0,
			Isolation:  isolation(f.in.IsolationLevel),
			Epoch:      ident.LeaderEpoch(part.in.CurrentLeaderEpoch),
		})
		failed = failed || errs[i] != nil
		size += results[i].Records.Len()
	}
	if size < f.minBytes && !failed && !last && len(f.parts) > 0 {
		for _, res := range results {
			_ = res.Records.Close() // nothing was read from it
		}
		return false
	}
	f.reply(f.body(results, errs))
	return true
}

// body builds the reply in the order of the request.
func (f *fetchRequest) body(results []partition.ReadResult, errs []error) Body {
	resp := f.in.ResponseKind().(*kmsg.FetchResponse)
	records := make([]wire.Run, len(f.parts))
	resp.Topics = make([]kmsg.FetchResponseTopic, len(f.in.Topics))
	n := 0
	for i := range f.in.Topics {
		in, out := &f.in.Topics[i], &resp.Topics[i]
		out.Topic, out.TopicID = in.Topic, in.TopicID
		out.Partitions = make([]kmsg.FetchResponseTopicPartition, len(in.Partitions))
		for j := range in.Partitions {
			p, res := &out.Partitions[j], &results[n]
			p.Default()
			p.Partition = in.Partitions[j].Partition
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = -1, -1, -1
			if errs[n] != nil {
				p.ErrorCode = errorCode(errs[n])
			} else {
				p.HighWatermark = int64(res.HighWatermark)
				p.LastStableOffset = int64(res.LastStable)
				p.LogStartOffset = int64(res.Start)
				if f.in.IsolationLevel == 1 {
					p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{} // none, rather than not asked for
				}
				if res.Records.Len() > 0 {
					records[n] = res.Records
				} else {
					_ = res.Records.Close() // nothing was read from it
				}
			}
			n++
		}
	}
	return &fetchBody{resp, records}
}

// park waits for the partitions to move, for the time to be up, or for the
// client to leave.
//
// The watchers are set before the second attempt: what is appended between the
// first attempt and the watchers is seen by that, and what comes later wakes
// the request. Being woken before everything is set up only leaves a mark.
func (f *fetchRequest) park(ctx context.Context, wait time.Duration) {
	f.running = true
	f.timer = time.AfterFunc(wait, func() { f.wake(true) })
	f.unregister = context.AfterFunc(ctx, func() { f.wake(true) })
	for i := range f.parts {
		part := &f.parts[i]
		part.watcher = partition.NewWatcher(func() { f.wake(false) })
		part.log.Watch(part.watcher)
	}
	f.mu.Lock()
	f.again = true
	f.mu.Unlock()
	f.run()
}

// wake has an attempt run on a goroutine of its own, since watchers must not
// wait for the disk. At most one runs at a time.
func (f *fetchRequest) wake(last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = f.last || last
	f.again = true
	if !f.running && !f.over {
		f.running = true
		go f.run()
	}
}

// run attempts until the reply was given or nothing changed meanwhile.
func (f *fetchRequest) run() {
	for {
		f.mu.Lock()
		if !f.again || f.over {
			f.running = false
			f.mu.Unlock()
			return
		}
		f.again = false
		last := f.last
		f.mu.Unlock()
		if f.attempt(last) {
			f.mu.Lock()
			f.over, f.running = true, false
			f.mu.Unlock()
			f.leave()
			return
		}
	}
}

// leave takes the request from everything that could wake it.
func (f *fetchRequest) leave() {
	f.timer.Stop()
	f.unregister()
	for _, part := range f.parts {
		part.log.Unwatch(part.watcher)
	}
}
