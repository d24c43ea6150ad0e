package partition

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/broker/internal/ident"
)

// Wait is an append that is written and not acknowledged yet.
type Wait struct {
	p      *Partition
	done   func(AppendResult)
	result AppendResult
}

// Cancel calls done with err now, unless it was called or is being called. It
// reports whether it did. The written records stay. A nil Wait does nothing.
func (w *Wait) Cancel(err error) bool {
	if w == nil {
		return false
	}
	p := w.p
	p.mu.Lock()
	removed := p.waitLeader.remove(w) || p.waitAll.remove(w)
	p.mu.Unlock()
	if removed {
		w.result.Err = err
		w.done(w.result)
	}
	return removed
}

// waitQueue holds waits in the order of the offsets they wait for. Its length
// is bounded by the requests that the broker lets in.
type waitQueue struct{ waits []*Wait }

// add inserts w. New appends go to the end; a duplicate goes beside its
// original.
func (q *waitQueue) add(w *Wait) {
	i, _ := slices.BinarySearchFunc(q.waits, w.result.End+1, byEnd)
	q.waits = slices.Insert(q.waits, i, w)
}

func byEnd(w *Wait, end ident.Offset) int { return cmp.Compare(w.result.End, end) }

// release moves those that wait for nothing beyond end to c.
func (q *waitQueue) release(end ident.Offset, c *calls) {
	n, _ := slices.BinarySearchFunc(q.waits, end+1, byEnd)
	c.done = append(c.done, q.waits[:n]...)
	q.waits = slices.Delete(q.waits, 0, n)
}

// fail moves all to c, with err.
func (q *waitQueue) fail(err error, c *calls) {
	for _, w := range q.waits {
		w.result.Err = err
	}
	c.done = append(c.done, q.waits...)
	clear(q.waits)
	q.waits = q.waits[:0]
}

func (q *waitQueue) remove(w *Wait) bool {
	first, _ := slices.BinarySearchFunc(q.waits, w.result.End, byEnd)
	for i := first; i < len(q.waits) && q.waits[i].result.End == w.result.End; i++ {
		if q.waits[i] == w {
			q.waits = slices.Delete(q.waits, i, i+1)
			return true
		}
	}
	return false
}
