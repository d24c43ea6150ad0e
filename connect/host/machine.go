package host

import "time"

// machine decides what happens to a task's process. It is pure: events go in,
// effects come out, and the supervisor does the work. Each process is known by
// its generation, so that late news of an old one changes nothing.
type machine struct {
	backoff Backoff

	state      State
	generation int   // of the process that is starting or running
	failures   int   // processes lost in a row without a record having passed
	retries    int   // times in a row that the connector asked to be opened again
	restarts   int   // launches after the first
	err        error // what Status.Err shows
	changes    int   // of state, generation or err
}

// event is something that happened.
type event struct {
	kind       eventKind
	generation int           // which process it is about; not of begin, failed and stop
	err        error         // of startFailed, exited, failed and retrying
	after      time.Duration // of startFailed: the least pause, if isRetry
	isRetry    bool          // of startFailed: the connector asked for another try
	ran        time.Duration // of exited: how long the connector had been open
}

type eventKind int

const (
	begin       eventKind = iota // the task is opened
	started                      // the process runs and the connector is open
	startFailed                  // the process could not be started, or died before the connector was open
	exited                       // the running process died, or can no longer be talked to
	paused                       // the pause of a back-off is over
	passed                       // a record was taken over, or a batch written
	retrying                     // the connector asked for a retry
	failed                       // the connector reported an error that it cannot go on from
	stop                         // the task is closed
)

// effect is something to do.
type effect struct {
	kind       effectKind
	generation int
	after      time.Duration // of pause
}

type effectKind int

const (
	launch effectKind = iota // start a process of this generation and open the connector
	kill                     // end this generation's process at once, whatever it is doing
	end                      // end this generation's process in good order, if it is running
	pause                    // report paused for this generation after a while
)

func (m *machine) step(ev event, effects []effect) []effect {
	switch ev.kind {
	case begin:
		m.set(Starting, nil)
		return append(effects, effect{kind: launch, generation: m.generation})
	case stop:
		if m.state == Starting {
			effects = append(effects, effect{kind: kill, generation: m.generation})
		}
		m.set(Stopped, nil)
		return effects
	case failed:
		if m.state == Stopped || m.state == Failed {
			return effects
		}
		m.set(Failed, ev.err)
		return append(effects, effect{kind: end, generation: m.generation})
	}
	if ev.generation != m.generation {
		return effects
	}
	switch {
	case ev.kind == started && m.state == Starting:
		m.set(Running, nil)
	case ev.kind == startFailed && m.state == Starting, ev.kind == exited && m.state == Running:
		return m.lost(ev, effects)
	case ev.kind == paused && m.state == BackingOff:
		m.set(Starting, m.err)
		m.restarts++
		return append(effects, effect{kind: launch, generation: m.generation})
	case ev.kind == passed && m.state == Running:
		m.failures = 0
		if m.err != nil {
			m.set(Running, nil)
		}
	case ev.kind == retrying && m.state == Running:
		m.set(Running, ev.err)
	}
	return effects
}

// lost goes to back off, or fails the task if that has been done enough.
func (m *machine) lost(ev event, effects []effect) []effect {
	effects = append(effects, effect{kind: kill, generation: m.generation})
	if ev.ran >= m.backoff.Longest {
		m.failures = 0 // it did well for a while, if without records
	}
	m.generation++
	if ev.isRetry {
		m.failures, m.retries = 0, m.retries+1 // a process that can say so is well
	} else {
		m.failures, m.retries = m.failures+1, 0
	}
	if m.failures >= m.backoff.Attempts {
		m.set(Failed, ev.err)
		return effects
	}
	m.set(BackingOff, ev.err)
	after := max(m.backoff.pause(m.failures+m.retries), ev.after)
	return append(effects, effect{kind: pause, generation: m.generation, after: after})
}

func (m *machine) set(state State, err error) {
	m.state, m.err = state, err
	m.changes++
}

// pause returns the pause after the n-th failure in a row, from 1.
func (b Backoff) pause(n int) time.Duration {
	d := b.First
	for range n - 1 {
		if d *= 2; d >= b.Longest {
			return b.Longest
		}
	}
	return d
}
