package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// supervisor drives a machine: it launches processes, watches them, and hands
// the running one to whoever needs it.
type supervisor struct {
	// launch starts a process and opens the connector in it. When ctx ends,
	// it kills what it started and returns.
	launch   func(ctx context.Context, generation int) (*session, error)
	onStatus func(Status) // may be nil

	mu       sync.Mutex
	machine  machine
	current  *session            // of the machine's generation, while it runs
	cancel   context.CancelFunc  // of the launch that is under way
	timer    *time.Timer         // of the back-off
	changed  chan struct{}       // closed at each change of the state
	progress *connector.Progress // nil until one is known
	pending  []Status            // not yet reported

	notify sync.Mutex // held while statuses are reported, to keep their order
	work   sync.WaitGroup
}

func newSupervisor(backoff Backoff, launch func(context.Context, int) (*session, error), onStatus func(Status)) *supervisor {
	return &supervisor{
		launch: launch, onStatus: onStatus,
		machine: machine{backoff: backoff}, changed: make(chan struct{}),
	}
}

// step feeds an event to the machine and carries out the effects. session is
// the new one for started, and nil otherwise.
func (s *supervisor) step(ev event, session *session) {
	s.mu.Lock()
	before := s.machine.changes
	if ev.kind == started {
		s.cancel = nil
		if ev.generation != s.machine.generation || s.machine.state != Starting {
			s.mu.Unlock()
			session.kill() // nobody wants it any more
			return
		}
		s.current = session
	}
	effects := s.machine.step(ev, nil)
	for _, e := range effects {
		s.carryOut(e)
	}
	if s.machine.changes != before {
		s.pending = append(s.pending, s.statusLocked())
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.mu.Unlock()
	s.report()
}

// carryOut begins an effect. s.mu is held.
func (s *supervisor) carryOut(e effect) {
	switch e.kind {
	case launch:
		ctx, cancel := context.WithCancel(context.Background())
		s.cancel = cancel
		s.work.Go(func() {
			defer cancel()
			s.launchAndWatch(ctx, e.generation)
		})
	case kill, end:
		if s.cancel != nil {
			s.cancel()
			s.cancel = nil
		}
		s.stopTimer()
		if session := s.current; session != nil {
			s.current = nil
			if e.kind == end {
				s.work.Go(session.endFailed)
			} else {
				s.work.Go(session.kill)
			}
		}
	case pause:
		s.timer = time.AfterFunc(e.after, func() { s.step(event{kind: paused, generation: e.generation}, nil) })
	}
}

// launchAndWatch returns when the process has ended.
func (s *supervisor) launchAndWatch(ctx context.Context, generation int) {
	session, err := s.launch(ctx, generation)
	if err != nil {
		if ctx.Err() == nil {
			s.step(launchFailure(err, generation), nil)
		}
		return
	}
	s.step(event{kind: started, generation: generation}, session)
	opened := time.Now()
	<-session.process.exited
	s.step(event{kind: exited, generation: generation, err: session.process.exitError(), ran: time.Since(opened)}, nil)
}

// launchFailure tells a connector that would not open from a process that did
// not start.
func launchFailure(err error, generation int) event {
	ev := event{kind: startFailed, generation: generation, err: err}
	if refused, ok := errors.AsType[*openRefused](err); ok {
		retry, isRetry := errors.AsType[*connector.RetryError](refused.cause)
		if !isRetry {
			return event{kind: failed, err: refused.cause}
		}
		ev.err, ev.after, ev.isRetry = retry.Cause, retry.After, true
	}
	return ev
}

// report passes pending statuses on, in order.
func (s *supervisor) report() {
	s.notify.Lock()
	defer s.notify.Unlock()
	for {
		s.mu.Lock()
		if len(s.pending) == 0 {
			s.mu.Unlock()
			return
		}
		status := s.pending[0]
		s.pending = s.pending[1:]
		s.mu.Unlock()
		if s.onStatus != nil {
			s.onStatus(status)
		}
	}
}

func (s *supervisor) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statusLocked()
}

func (s *supervisor) statusLocked() Status {
	status := Status{State: s.machine.state, Err: s.machine.err, Restarts: s.machine.restarts}
	if s.current != nil {
		status.PID = s.current.process.pid
	}
	if s.progress != nil {
		status.Progress, status.HasProgress = *s.progress, true
	}
	return status
}

func (s *supervisor) setProgress(p connector.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = &p
}

// session waits until the connector is open and returns its session.
func (s *supervisor) session(ctx context.Context) (*session, error) {
	for {
		s.mu.Lock()
		state, err, current, changed := s.machine.state, s.machine.err, s.current, s.changed
		s.mu.Unlock()
		switch {
		case state == Stopped:
			return nil, ErrClosed
		case state == Failed:
			return nil, err
		case state == Running && current != nil:
			return current, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// running returns the session if the connector is open now, and nil otherwise.
func (s *supervisor) running() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// lost reports that a session can no longer be talked to.
func (s *supervisor) lost(session *session, err error) {
	s.step(event{kind: exited, generation: session.generation, err: err}, nil)
}

// stop ends supervision and returns the session that still runs, for an
// orderly end, or nil.
func (s *supervisor) stop() *session {
	s.step(event{kind: stop}, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopTimer()
	current := s.current
	s.current = nil
	return current
}

// stopTimer ends the pause of a back-off. s.mu is held.
func (s *supervisor) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// wait returns when all processes have ended and all goroutines with them.
func (s *supervisor) wait() { s.work.Wait() }
