package coord

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Shard is a machine with its log. It has no goroutine: whoever owns it calls
// its methods one at a time. [Runtime] is such an owner; tests are another.
type Shard[M Machine] struct {
	core
	machine M
}

// NewShard joins a machine to its log. wake is called, from any goroutine and
// possibly in the midst of a turn, when there is something for Deliver to do;
// it must not call the shard.
func NewShard[M Machine](machine M, log Log, wake func()) *Shard[M] {
	return &Shard[M]{machine: machine, core: core{log: log, replay: machine.Replay, wake: wake, open: make(map[pending]uint64)}}
}

// Load replays the log into the machine. It comes before all else.
func (s *Shard[M]) Load(ctx context.Context, now time.Time) error {
	if err := s.log.Replay(ctx, s.machine.Replay); err != nil {
		return fmt.Errorf("replaying the coordinator's log: %w", err)
	}
	s.machine.Loaded(&Turn{&s.core, now})
	return nil
}

// Do has run answer a call. reply is called exactly once, by the owner within
// Do, a later turn, Deliver or Abort: with what the machine answered once that
// is committed, or with an error.
func (s *Shard[M]) Do[R any](now time.Time, run func(*Turn, M, *Call[R]), reply func(R, error)) {
	c := &Call[R]{core: &s.core, reply: reply}
	if s.failed != nil {
		c.settle(s.failed)
		return
	}
	s.opened++
	s.open[c] = s.opened
	run(&Turn{&s.core, now}, s.machine, c)
}

// Expire gives the machine a turn if its deadline is due.
func (s *Shard[M]) Expire(now time.Time) {
	if at, ok := s.machine.NextDeadline(); ok && !at.After(now) && s.failed == nil {
		s.machine.Expire(&Turn{&s.core, now})
	}
}

// NextDeadline is the machine's.
func (s *Shard[M]) NextDeadline() (time.Time, bool) { return s.machine.NextDeadline() }

// Deliver sends the replies whose records have been committed, or failed to.
func (s *Shard[M]) Deliver() { s.deliver() }

// Abort fails all calls that are open, in the order in which they came, and
// those that come later. It is the end of the shard.
func (s *Shard[M]) Abort(reason error) { s.abort(reason) }

// core is the part of a shard that does not depend on its machine's type.
type core struct {
	log    Log
	replay func(Record) error
	wake   func()
	tail   *written           // newest write, if it is not known to be settled
	open   map[pending]uint64 // calls without a delivered reply -> order of arrival
	opened uint64
	failed error // set by Abort

	mu      sync.Mutex
	settled []settlement // by the log's goroutines, for deliver
}

// pending is a call that waits, whatever its type.
type pending interface{ settle(error) }

// written is a batch that was appended, with the calls that wait for it.
type written struct {
	settled bool
	waiting []pending
}

type settlement struct {
	batch *written
	err   error
}

func (c *core) write(records []Record) error {
	w := &written{}
	err := c.log.Append(records, func(err error) {
		c.mu.Lock()
		c.settled = append(c.settled, settlement{w, err})
		c.mu.Unlock()
		c.wake()
	})
	if err != nil {
		return fmt.Errorf("appending %d records to the coordinator's log: %w", len(records), err)
	}
	for _, r := range records {
		if err := c.replay(r); err != nil {
			panic(fmt.Sprintf("coord: a machine cannot replay what it wrote: %v", err))
		}
	}
	c.tail = w
	return nil
}

// deliver settles the calls that wait for batches the log has decided on. A
// call waits for the newest batch that was written before its answer; as a log
// commits in order, that one vouches for all older ones.
func (c *core) deliver() {
	c.mu.Lock()
	settled := c.settled
	c.settled = nil
	c.mu.Unlock()
	for _, s := range settled {
		s.batch.settled = true
		for _, p := range s.batch.waiting {
			c.close(p, s.err)
		}
		s.batch.waiting = nil
	}
}

// answered parks a call that has its answer until that is committed.
func (c *core) answered(p pending) {
	if c.tail != nil && !c.tail.settled {
		c.tail.waiting = append(c.tail.waiting, p)
		return
	}
	c.tail = nil
	c.close(p, nil)
}

// close delivers a call unless Abort did.
func (c *core) close(p pending, err error) {
	if _, ok := c.open[p]; !ok {
		return
	}
	delete(c.open, p)
	p.settle(err)
}

func (c *core) abort(reason error) {
	if c.failed != nil {
		return
	}
	c.failed = reason
	calls := make([]pending, 0, len(c.open))
	for p := range c.open {
		calls = append(calls, p)
	}
	slices.SortFunc(calls, func(a, b pending) int { return cmp.Compare(c.open[a], c.open[b]) })
	for _, p := range calls {
		c.close(p, reason)
	}
}

// Call is a request that waits for its answer. A machine may keep it beyond
// the turn it came in, and answer it in a later one.
type Call[R any] struct {
	core     *core
	reply    func(R, error)
	answer   R
	answered bool
}

// Reply gives the answer, in a turn and exactly once; it goes out when all
// that the machine has written is committed. It must not be changed any more.
func (c *Call[R]) Reply(answer R) {
	if c.answered {
		panic("coord: a call was answered twice")
	}
	c.answered, c.answer = true, answer
	c.core.answered(c)
}

func (c *Call[R]) settle(err error) {
	if err != nil {
		var none R
		c.reply(none, err)
		return
	}
	c.reply(c.answer, nil)
}
