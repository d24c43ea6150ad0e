package worker

import (
	"context"
	"fmt"
	"time"
)

// retryWaitMin and retryWaitMax bound the time between two tries, which doubles.
const (
	retryWaitMin = 50 * time.Millisecond
	retryWaitMax = 2 * time.Second
)

// retry tries something until it works, ctx ends, or it fails for good.
func (rt *Runtime) retry(ctx context.Context, doing string, do func(context.Context) error) error {
	for wait := retryWaitMin; ; wait = min(2*wait, retryWaitMax) {
		once, cancel := context.WithTimeout(ctx, requestTimeout)
		err := do(once)
		cancel()
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w", doing, err)
		if ctx.Err() != nil || isFatal(err) {
			return err
		}
		rt.cfg.Log.Warn("trying again soon", "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}
