package coord

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"
)

// counter is the smallest machine there is: it counts, and a deadline makes it
// count as well.
type counter struct {
	count    uint64
	loadedAt uint64
	timers   Deadlines[string]
	parked   *Call[uint64]
}

func (c *counter) Replay(r Record) error {
	if len(r.Value) != 8 {
		return errors.New("a count has 8 bytes")
	}
	c.count = binary.BigEndian.Uint64(r.Value)
	return nil
}

func (c *counter) Loaded(*Turn) { c.loadedAt = c.count }

func (c *counter) NextDeadline() (time.Time, bool) { return c.timers.Next() }

func (c *counter) Expire(t *Turn) {
	for {
		if _, ok := c.timers.PopDue(t.Now()); !ok {
			return
		}
		_ = c.add(t)
		if c.parked != nil {
			c.parked.Reply(c.count)
			c.parked = nil
		}
	}
}

func (c *counter) add(t *Turn) error {
	return t.Write(Record{Key: []byte("count"), Value: binary.BigEndian.AppendUint64(nil, c.count+1)})
}

// add and get are calls to a counter.
func add(t *Turn, c *counter, call *Call[uint64]) {
	if err := c.add(t); err != nil {
		call.Reply(1 << 60)
		return
	}
	call.Reply(c.count)
}

func get(_ *Turn, c *counter, call *Call[uint64]) { call.Reply(c.count) }

// memLog is a log whose commits the test decides about.
type memLog struct {
	mu      sync.Mutex
	records []Record
	held    bool
	waiting []func(error)
	refuse  error
	loading chan struct{} // if set, Replay waits for it
}

func (l *memLog) Append(records []Record, done func(error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return l.refuse
	}
	l.records = append(l.records, records...)
	if l.held {
		l.waiting = append(l.waiting, done)
		return nil
	}
	done(nil)
	return nil
}

func (l *memLog) settle(err error) {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting, l.held = nil, false
	l.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}

func (l *memLog) Replay(ctx context.Context, each func(Record) error) error {
	if l.loading != nil {
		select {
		case <-l.loading:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}
