package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/connect/internal/table"
)

// State is what a connector or one of its tasks is doing, as Kafka Connect
// names it.
type State string

const (
	// Unassigned is a connector or task that no worker has started yet.
	Unassigned State = "UNASSIGNED"
	Running    State = "RUNNING"
	Paused     State = "PAUSED"
	Stopped    State = "STOPPED"
	// Failed is one that ended with an error, or waits to be started again
	// after one; the trace says which.
	Failed State = "FAILED"
	// Restarting is one whose restart a user has asked for.
	Restarting State = "RESTARTING"
	// Completed is a source task that has read its source to the end.
	// Kafka Connect has no such state, as its sources never end.
	Completed State = "COMPLETED"
)

// Status is a state with what there is to say about it.
type Status struct {
	State    State  `json:"state"`
	WorkerID string `json:"worker_id"`
	Trace    string `json:"trace,omitempty"`
	// Retrying is true for a failed task that is being started again.
	Retrying bool `json:"retrying,omitempty"`
}

// newStatus makes a status of a state and its cause, if it has one.
func newStatus(state State, cause error) Status {
	status := Status{State: state}
	if cause != nil {
		status.Trace = cause.Error()
		status.Retrying = errors.Is(cause, errRetrying)
	}
	return status
}

// statuses is the status topic as a map, by the keys of that topic. What is
// reported shows at once and nobody waits for it to be written: one goroutine
// writes what has changed, between start and stop. It may pass over what lasted
// too short a time to be written; the newest is always written last.
type statuses struct {
	table  *table.Table
	worker string
	log    *slog.Logger
	// changed gets a token when unwritten was added to; it holds at most one.
	changed chan struct{}
	// cancel ends the writing, and done is closed then; nil until start.
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	byKey map[string]Status
	// own holds the keys that this worker reports: what it set is newer than
	// what it reads back.
	own map[string]bool
	// unwritten holds the keys of which the topic does not have the newest.
	unwritten map[string]bool
}

func newStatuses(worker string, log *slog.Logger) *statuses {
	return &statuses{worker: worker, log: log, changed: make(chan struct{}, 1),
		byKey: map[string]Status{}, own: map[string]bool{}, unwritten: map[string]bool{}}
}

func connectorKey(name string) string { return "status-connector-" + name }

func taskKey(name string, task int) string { return fmt.Sprintf("status-task-%s-%d", name, task) }

// apply takes one record of the topic.
func (s *statuses) apply(key, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own[string(key)] {
		return
	}
	var status Status
	if value == nil || json.Unmarshal(value, &status) != nil {
		delete(s.byKey, string(key))
		return
	}
	s.byKey[string(key)] = status
}

func (s *statuses) get(key string) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status, ok := s.byKey[key]; ok {
		return status
	}
	return Status{State: Unassigned, WorkerID: s.worker}
}

// errRetrying marks the cause of a failure that is being mended.
var errRetrying = errors.New("it is being started again")

// set reports a state.
func (s *statuses) set(key string, state State, cause error) {
	s.update(key, func(Status) Status { return newStatus(state, cause) })
}

// update reports what change makes of the present status, with nothing coming
// in between. change must not call s.
func (s *statuses) update(key string, change func(Status) Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.byKey[key]
	status := change(old)
	status.WorkerID = s.worker
	if known && s.own[key] && status == old {
		return
	}
	s.byKey[key] = status
	s.note(key)
}

// forget deletes all that was reported of a connector.
func (s *statuses) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := []string{connectorKey(name)}
	for key := range maps.Keys(s.byKey) {
		if number, ok := strings.CutPrefix(key, "status-task-"+name+"-"); ok && !strings.Contains(number, "-") {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		delete(s.byKey, key)
		s.note(key)
	}
}

// note has a key written. s.mu is held.
func (s *statuses) note(key string) {
	s.own[key], s.unwritten[key] = true, true
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// start begins to write.
func (s *statuses) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done = cancel, make(chan struct{})
	go func() {
		defer close(s.done)
		s.writeUntil(ctx)
	}()
}

// lastStatusTimeout is short, as a stop waits for it.
const lastStatusTimeout = 2 * time.Second

// stop writes what is unwritten, for [lastStatusTimeout] at most, and ends the
// writing. It may be called again, and without start.
func (s *statuses) stop() {
	if s.cancel != nil {
		s.cancel()
		<-s.done
	}
}

func (s *statuses) writeUntil(ctx context.Context) {
	for {
		select {
		case <-s.changed:
			s.write(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastStatusTimeout)
			defer cancel()
			s.write(last)
			return
		}
	}
}

// write writes all that is unwritten. What could not be written stays so until
// the next change, or the stop.
func (s *statuses) write(ctx context.Context) {
	var entries []table.Entry
	s.mu.Lock()
	for key := range s.unwritten {
		entry := table.Entry{Key: []byte(key)}
		if status, ok := s.byKey[key]; ok {
			value, err := json.Marshal(status)
			if err != nil {
				panic(fmt.Sprintf("connect: a status that is not JSON: %v", err))
			}
			entry.Value = value
		}
		entries = append(entries, entry)
	}
	clear(s.unwritten)
	s.mu.Unlock()
	if len(entries) == 0 {
		return
	}
	if err := s.table.Put(ctx, entries...); err != nil {
		s.mu.Lock()
		for _, e := range entries {
			s.unwritten[string(e.Key)] = true
		}
		s.mu.Unlock()
		if ctx.Err() == nil {
			s.log.Warn("reporting statuses failed", "err", err)
		}
	}
}
