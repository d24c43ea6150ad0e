package api

import (
	"context"
	"time"
)

// async runs f on a goroutine of its own, for work that waits: a metadata
// change, for one. ctx ends after timeout, and when the service is closed; not
// with the connection, as what a client asked for is not undone by its leaving.
// A timeout that is not positive means none.
//
// How many run at once is bounded by the requests that the server lets in.
func (s *Service) async(timeout time.Duration, f func(ctx context.Context)) {
	s.work.Go(func() {
		ctx := s.ctx
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		f(ctx)
	})
}

// Close ends what handlers left running and waits for it. No request may be
// handled after Close was called.
func (s *Service) Close() {
	s.stop()
	s.work.Wait()
}
