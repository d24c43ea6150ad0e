package partition

import (
	"container/heap"
	"sync"
)

// Syncers is a pool of goroutines that flush partitions, those with the
// oldest waiter first. A partition is in the queue at most once, however many
// appends wait for it, and is flushed by one syncer at a time.
type Syncers struct {
	work sync.WaitGroup

	mu     sync.Mutex
	wake   *sync.Cond
	queue  syncQueue
	ticket uint64 // counts the requests
	closed bool
}

// syncEntry is what the pool knows of a partition. It is part of the
// partition, and guarded by the pool's lock.
type syncEntry struct {
	flush func()
	state syncState
	// ticket is that of the oldest request that no flush has answered.
	ticket uint64
}

type syncState int8

const (
	syncIdle       syncState = iota
	syncQueued               // waits for a syncer
	syncRunning              // is being flushed
	syncRunningOld           // is being flushed, and was asked for again
)

// NewSyncers starts n syncers.
func NewSyncers(n int) *Syncers {
	s := &Syncers{}
	s.wake = sync.NewCond(&s.mu)
	for range n {
		s.work.Go(s.loop)
	}
	return s
}

// Close waits for the flushes that run, and ends the goroutines. What is in the
// queue is not flushed: partitions are to be closed before.
func (s *Syncers) Close() {
	s.mu.Lock()
	s.closed = true
	s.wake.Broadcast()
	s.mu.Unlock()
	s.work.Wait()
}

// request has e flushed by a flush that begins after now.
func (s *Syncers) request(e *syncEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticket++
	switch e.state {
	case syncIdle:
		e.ticket = s.ticket
		s.push(e)
	case syncRunning:
		e.state, e.ticket = syncRunningOld, s.ticket
	case syncQueued, syncRunningOld:
		// The flush to come will do for this request too.
	}
}

func (s *Syncers) push(e *syncEntry) {
	e.state = syncQueued
	heap.Push(&s.queue, e)
	s.wake.Signal()
}

func (s *Syncers) loop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.queue) == 0 && !s.closed {
			s.wake.Wait()
		}
		if s.closed {
			return
		}
		e := heap.Pop(&s.queue).(*syncEntry)
		e.state = syncRunning
		s.mu.Unlock()
		e.flush()
		s.mu.Lock()
		if e.state == syncRunningOld {
			s.push(e)
		} else {
			e.state = syncIdle
		}
	}
}

// syncQueue is a heap by ticket.
type syncQueue []*syncEntry

func (q syncQueue) Len() int           { return len(q) }
func (q syncQueue) Less(i, j int) bool { return q[i].ticket < q[j].ticket }
func (q syncQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push is for container/heap.
func (q *syncQueue) Push(x any) { *q = append(*q, x.(*syncEntry)) }

// Pop is for container/heap.
func (q *syncQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}
