package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	"github.com/twmb/franz-go/pkg/kerr"
)

// propose puts a command into the log, and returns its outcome when it was
// applied here and all subscribers have seen what it changed.
func (n *Node) propose(ctx context.Context, c command) (outcome, error) {
	entry := encodeCommand(c, n.cfg.Now())
	future, err := await(ctx, n, func() raft.ApplyFuture { return n.raft.Apply(entry, 0) })
	if err != nil {
		return outcome{}, err
	}
	out := future.Response().(outcome)
	if out.err != nil {
		return out, out.err
	}
	if err := n.notifier.wait(ctx, future.Index()); err != nil {
		return outcome{}, timedOut(err)
	}
	return out, nil
}

// await starts something in raft and waits for it, no longer than ctx lasts.
// The goroutine that waits on raft ends when raft answers, at the latest when
// it is shut down.
func await[F raft.Future](ctx context.Context, n *Node, start func() F) (F, error) {
	var future F
	if err := n.failure(); err != nil {
		return future, err
	}
	done := make(chan error, 1)
	go func() {
		future = start()
		done <- future.Error()
	}()
	var err error
	select {
	case err = <-done:
	case <-n.failed:
		err = n.failure()
	case <-ctx.Done():
		err = timedOut(ctx.Err())
	}
	if err != nil {
		var none F
		return none, raftError(n, err)
	}
	return future, nil
}

// raftError says what raft's errors mean to whoever wanted a change.
func raftError(n *Node, err error) error {
	if failure := n.store.fs.failure(); failure != nil {
		return fmt.Errorf("writing the cluster metadata: %w", failure) // raft says that it lost the leadership
	}
	switch {
	case errors.Is(err, raft.ErrRaftShutdown):
		return errors.Join(n.failure(), ErrClosed)
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost):
		return refuse(kerr.NotController, "this broker is not the controller (%v)", err)
	}
	return err
}

// timedOut is the refusal of a change for which the caller would not wait any
// longer; the change may still happen.
func timedOut(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return refuse(kerr.RequestTimedOut, "the change was not committed in time; it may still happen")
	}
	return fmt.Errorf("waiting for the change: %w", err)
}
