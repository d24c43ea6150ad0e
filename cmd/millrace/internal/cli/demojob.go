package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// jobProcess is a stream job that runs as a process of its own.
type jobProcess struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended, once done is closed
}

// jobStopTimeout is how long a job may take to commit and stop.
const jobStopTimeout = 10 * time.Second

// startJob starts a job whose output goes to w. It is killed when ctx ends and
// it has not stopped within [jobStopTimeout] of being asked to.
func startJob(ctx context.Context, executable string, w io.Writer, args ...string) (*jobProcess, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), executable, args...)
	cmd.Stdout, cmd.Stderr = w, w
	j := &jobProcess{cmd: cmd, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the stream job: %w", err)
	}
	go func() {
		j.err = cmd.Wait()
		close(j.done)
	}()
	return j, nil
}

// stop asks the job to stop, and returns how it ended.
func (j *jobProcess) stop() error {
	if err := j.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the stream job: %w", err)
	}
	select {
	case <-j.done:
	case <-time.After(jobStopTimeout):
		_ = j.cmd.Process.Kill() // it may have ended just now
		<-j.done
		return fmt.Errorf("the stream job did not stop within %v and was killed", jobStopTimeout)
	}
	if j.err != nil {
		return fmt.Errorf("the stream job failed: %w", j.err)
	}
	return nil
}
