package coord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Unix(1000, 0)

// replies collects what callers are told, in order.
type replies []string

func (r *replies) to(name string) func(uint64, error) {
	return func(n uint64, err error) {
		if err != nil {
			*r = append(*r, fmt.Sprintf("%s: %v", name, err))
			return
		}
		*r = append(*r, fmt.Sprintf("%s: %d", name, n))
	}
}

func (r *replies) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(*r, want) {
		t.Fatalf("callers were told\n\t%q, want\n\t%q", []string(*r), want)
	}
	*r = nil
}

func loadedShard(t *testing.T, log *memLog) *Shard[*counter] {
	t.Helper()
	s := NewShard(&counter{}, log, func() {})
	if err := s.Load(context.Background(), epoch); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRepliesWaitForTheCommitOfWhatTheySaw(t *testing.T) {
	log := &memLog{held: true}
	s := loadedShard(t, log)
	var told replies
	s.Do(epoch, get, told.to("read before"))
	told.expect(t, "read before: 0")
	s.Do(epoch, add, told.to("write 1"))
	s.Do(epoch, get, told.to("read"))
	s.Do(epoch, add, told.to("write 2"))
	s.Deliver()
	told.expect(t)
	log.settle(nil)
	told.expect(t) // not from the log's goroutine
	s.Deliver()
	told.expect(t, "write 1: 1", "read: 1", "write 2: 2")
}

func TestAFailedCommitFailsThoseWhoWaitForIt(t *testing.T) {
	log := &memLog{held: true}
	s := loadedShard(t, log)
	var told replies
	s.Do(epoch, add, told.to("write"))
	s.Do(epoch, get, told.to("read"))
	log.settle(ErrUnavailable)
	s.Deliver()
	told.expect(t, "write: "+ErrUnavailable.Error(), "read: "+ErrUnavailable.Error())
	s.Do(epoch, get, told.to("later read"))
	told.expect(t, "later read: 1")
}

func TestARefusedWriteChangesNothing(t *testing.T) {
	log := &memLog{}
	s := loadedShard(t, log)
	var told replies
	s.Do(epoch, add, told.to("write"))
	log.refuse = ErrTooLarge
	s.Do(epoch, func(turn *Turn, c *counter, call *Call[uint64]) {
		if err := c.add(turn); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Write = %v, want ErrTooLarge", err)
		}
		call.Reply(c.count)
	}, told.to("refused"))
	s.Deliver()
	told.expect(t, "write: 1", "refused: 1")
}

func TestAbortFailsAllCallsInOrder(t *testing.T) {
	log := &memLog{held: true}
	s := loadedShard(t, log)
	var told replies
	s.Do(epoch, func(_ *Turn, c *counter, call *Call[uint64]) { c.parked = call }, told.to("parked"))
	s.Do(epoch, add, told.to("uncommitted"))
	s.Abort(ErrNotCoordinator)
	told.expect(t, "parked: "+ErrNotCoordinator.Error(), "uncommitted: "+ErrNotCoordinator.Error())
	log.settle(nil)
	s.Deliver()
	s.Do(epoch, get, told.to("later"))
	told.expect(t, "later: "+ErrNotCoordinator.Error())
}

func TestADeadlineAnswersAParkedCall(t *testing.T) {
	s := loadedShard(t, &memLog{})
	var told replies
	s.Do(epoch, func(turn *Turn, c *counter, call *Call[uint64]) {
		c.parked = call
		c.timers.Set("timer", turn.Now().Add(time.Second))
	}, told.to("parked"))
	s.Expire(epoch.Add(999 * time.Millisecond))
	s.Deliver()
	told.expect(t)
	s.Expire(epoch.Add(time.Second))
	s.Deliver()
	told.expect(t, "parked: 1")
	if _, ok := s.NextDeadline(); ok {
		t.Error("a deadline is left")
	}
}

func TestDamagedRecordFailsLoading(t *testing.T) {
	s := NewShard(&counter{}, &memLog{records: []Record{{Value: []byte("short")}}}, func() {})
	if err := s.Load(context.Background(), epoch); err == nil {
		t.Error("loading succeeded")
	}
}

// TestDeadlinesComeInOrder compares Deadlines with a list that is searched.
func TestDeadlinesComeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct{ key, at, order int }
		var d Deadlines[int]
		var model []entry
		drop := func(key int) {
			model = slices.DeleteFunc(model, func(e entry) bool { return e.key == key })
		}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := rapid.IntRange(0, 5).Draw(t, "key")
			at := rapid.IntRange(0, 8).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "do") {
			case 0:
				d.Set(key, time.Unix(int64(at), 0))
				drop(key)
				model = append(model, entry{key, at, step})
			case 1:
				d.Clear(key)
				drop(key)
			case 2:
				slices.SortFunc(model, func(a, b entry) int {
					if a.at != b.at {
						return a.at - b.at
					}
					return a.order - b.order
				})
				got, ok := d.PopDue(time.Unix(int64(at), 0))
				due := len(model) > 0 && model[0].at <= at
				if ok != due || due && got != model[0].key {
					t.Fatalf("PopDue(%d) = %d, %v; the model has %v", at, got, ok, model)
				}
				if due {
					drop(got)
				}
			}
			if _, ok := d.Next(); ok != (len(model) > 0) {
				t.Fatalf("Next says %v; the model has %v", ok, model)
			}
		}
	})
}
