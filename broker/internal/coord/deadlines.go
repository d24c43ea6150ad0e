package coord

import (
	"container/heap"
	"time"
)

// Deadlines is a set of keys, each with the time at which something is due.
// Machines keep their timers in one. The zero value is empty and ready to use.
type Deadlines[K comparable] struct {
	heap  deadlineHeap[K]
	byKey map[K]*deadline[K]
	set   uint64
}

type deadline[K comparable] struct {
	key   K
	at    time.Time
	order uint64 // keys due at one time come in the order they were set in
	index int
}

// Set makes key due at the given time, instead of when it was due before.
func (d *Deadlines[K]) Set(key K, at time.Time) {
	if d.byKey == nil {
		d.byKey = make(map[K]*deadline[K])
	}
	d.set++
	if e, ok := d.byKey[key]; ok {
		e.at, e.order = at, d.set
		heap.Fix(&d.heap, e.index)
		return
	}
	e := &deadline[K]{key: key, at: at, order: d.set}
	d.byKey[key] = e
	heap.Push(&d.heap, e)
}

// Clear removes key, if it is there.
func (d *Deadlines[K]) Clear(key K) {
	if e, ok := d.byKey[key]; ok {
		heap.Remove(&d.heap, e.index)
		delete(d.byKey, key)
	}
}

// Next returns the earliest time at which a key is due; false: there is none.
func (d *Deadlines[K]) Next() (time.Time, bool) {
	if len(d.heap) == 0 {
		return time.Time{}, false
	}
	return d.heap[0].at, true
}

// PopDue removes and returns the key that was due first, if that was at now or
// before.
func (d *Deadlines[K]) PopDue(now time.Time) (K, bool) {
	if len(d.heap) == 0 || d.heap[0].at.After(now) {
		var none K
		return none, false
	}
	e := heap.Pop(&d.heap).(*deadline[K])
	delete(d.byKey, e.key)
	return e.key, true
}

// deadlineHeap orders deadlines for container/heap.
type deadlineHeap[K comparable] []*deadline[K]

func (h deadlineHeap[K]) Len() int { return len(h) }

func (h deadlineHeap[K]) Less(i, j int) bool {
	if c := h[i].at.Compare(h[j].at); c != 0 {
		return c < 0
	}
	return h[i].order < h[j].order
}

func (h deadlineHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *deadlineHeap[K]) Push(x any) {
	e := x.(*deadline[K])
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *deadlineHeap[K]) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
