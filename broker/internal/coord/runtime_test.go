package coord

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func newRuntime(t *testing.T, queueLen int) *Runtime[*counter] {
	r := NewRuntime(Config[*counter]{
		New:      func(int32) *counter { return &counter{} },
		QueueLen: queueLen,
		Now:      time.Now,
		Log:      slog.New(slog.DiscardHandler),
	})
	t.Cleanup(r.Close)
	return r
}

type result struct {
	n   uint64
	err error
}

// ask submits a call and returns where its reply comes.
func ask(r *Runtime[*counter], run func(*Turn, *counter, *Call[uint64])) chan result {
	c := make(chan result, 1)
	r.Submit(0, run, func(n uint64, err error) { c <- result{n, err} })
	return c
}

func lead(t *testing.T, r *Runtime[*counter], log Log) {
	t.Helper()
	r.Lead(0, log)
	if err := r.AwaitLoaded(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
}

func TestShardIsServedOnceLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, 0)
		if got := <-ask(r, get); !errors.Is(got.err, ErrNotCoordinator) {
			t.Errorf("before Lead: %v", got.err)
		}
		log := &memLog{loading: make(chan struct{})}
		r.Lead(0, log)
		if got := <-ask(r, get); !errors.Is(got.err, ErrLoading) {
			t.Errorf("while loading: %v", got.err)
		}
		close(log.loading)
		synctest.Wait()
		if got := <-ask(r, add); got.err != nil || got.n != 1 {
			t.Errorf("loaded: %v", got)
		}
	})
}

func TestNextLeaderComesToTheSameState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, 0)
		log := &memLog{}
		lead(t, r, log)
		for range 5 {
			<-ask(r, add)
		}
		r.Resign(0)
		if got := <-ask(r, get); !errors.Is(got.err, ErrNotCoordinator) {
			t.Errorf("after Resign: %v", got.err)
		}
		lead(t, r, log)
		if got := <-ask(r, get); got.n != 5 {
			t.Errorf("the new leader counts %d, want 5", got.n)
		}
	})
}

func TestResigningFailsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, 0)
		log := &memLog{held: true}
		lead(t, r, log)
		parked := ask(r, func(_ *Turn, c *counter, call *Call[uint64]) { c.parked = call })
		uncommitted := ask(r, add)
		synctest.Wait()
		r.Resign(0)
		for name, c := range map[string]chan result{"parked": parked, "uncommitted": uncommitted} {
			if got := <-c; !errors.Is(got.err, ErrNotCoordinator) {
				t.Errorf("%s: %v", name, got)
			}
		}
		log.settle(nil)
	})
}

func TestFullQueueRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, 2)
		lead(t, r, &memLog{})
		gate := make(chan struct{})
		calls := []chan result{ask(r, func(turn *Turn, c *counter, call *Call[uint64]) { <-gate; add(turn, c, call) })}
		synctest.Wait()
		calls = append(calls, ask(r, add), ask(r, add))
		if got := <-ask(r, add); !errors.Is(got.err, ErrBusy) {
			t.Errorf("fourth call: %v, want ErrBusy", got)
		}
		close(gate)
		for i, c := range calls {
			if got := <-c; got.n != uint64(i+1) {
				t.Errorf("call %d: %v", i, got)
			}
		}
	})
}

func TestDeadlinesRunByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, 0)
		lead(t, r, &memLog{})
		began := time.Now()
		c := ask(r, func(turn *Turn, c *counter, call *Call[uint64]) {
			c.parked = call
			c.timers.Set("far", turn.Now().Add(time.Hour))
			c.timers.Set("near", turn.Now().Add(time.Minute))
		})
		if got := <-c; got.n != 1 {
			t.Errorf("reply %v, want 1", got)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the deadline came after %v, want 1m", took)
		}
	})
}

func TestUnreadableLogServesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, 0)
		lead(t, r, &memLog{records: []Record{{Value: []byte("x")}}})
		synctest.Wait()
		if got := <-ask(r, get); !errors.Is(got.err, ErrUnavailable) {
			t.Errorf("reply %v, want ErrUnavailable", got)
		}
	})
}

func TestCloseWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t, 0)
		r.Lead(0, &memLog{loading: make(chan struct{})})
		r.Close()
		r.Close()
		r.Lead(0, &memLog{})
		if got := <-ask(r, get); !errors.Is(got.err, ErrNotCoordinator) {
			t.Errorf("after Close: %v", got.err)
		}
	})
}
