package partition

import (
	"sync"
	"testing"
	"testing/synctest"
)

func TestOldestRequestIsServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSyncers(1)
		var mu sync.Mutex
		var order []string
		hold := make(chan struct{})
		entry := func(name string, wait <-chan struct{}) *syncEntry {
			return &syncEntry{flush: func() {
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				if wait != nil {
					<-wait
				}
			}}
		}
		busy, a, b := entry("busy", hold), entry("a", nil), entry("b", nil)
		s.request(busy)
		synctest.Wait() // busy is being flushed
		s.request(a)
		s.request(busy) // again, after a and before b
		s.request(b)
		s.request(a) // is queued already
		hold <- struct{}{}
		hold <- struct{}{}
		synctest.Wait()
		if got := len(order); got != 4 || order[0] != "busy" || order[1] != "a" || order[2] != "busy" || order[3] != "b" {
			t.Errorf("order is %v, want busy a busy b", order)
		}
		s.Close()
	})
}

func TestOnePartitionIsFlushedByOneSyncerAtATime(t *testing.T) {
	s := NewSyncers(8)
	var mu sync.Mutex
	running, flushes := 0, 0
	e := &syncEntry{flush: func() {
		mu.Lock()
		running++
		flushes++
		if running > 1 {
			t.Error("two at once")
		}
		mu.Unlock()
		mu.Lock()
		running--
		mu.Unlock()
	}}
	for range 1000 {
		s.request(e)
	}
	eventually(t, "all requests are served", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return e.state == syncIdle
	})
	s.Close()
	if flushes == 0 {
		t.Error("never flushed")
	}
}
