package api

import (
	"context"
	"sync"
	"sync/atomic"
)

// gather calls each for every part from 0 to n-1, and all when every part has
// said that it is done. The parts may do so from any goroutine; all runs on
// the last one's, or on the caller's if there are no parts.
func gather(n int, each func(part int, done func()), all func()) {
	if n == 0 {
		all()
		return
	}
	var left atomic.Int64
	left.Store(int64(n))
	for i := range n {
		each(i, func() {
			if left.Add(-1) == 0 {
				all()
			}
		})
	}
}

// orGone is for requests that wait for other clients, perhaps for minutes. If
// ctx, the request's, ends before there is an answer, that of gone is given; an
// answer that comes later is dropped.
func orGone(ctx context.Context, reply Reply, gone func() Body) Reply {
	var once sync.Once
	stop := context.AfterFunc(ctx, func() { once.Do(func() { reply(gone()) }) })
	return func(b Body) {
		once.Do(func() {
			stop()
			reply(b)
		})
	}
}
