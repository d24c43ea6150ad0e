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

// statuses is the status topic as a map, by the keys of that topic.
type statuses struct {
	table  *table.Table
	worker string
	log    *slog.Logger

	mu    sync.Mutex
	byKey map[string]Status
	// own holds the keys that this worker reports: what it set is newer than
	// what it reads back.
	own map[string]bool
}

func newStatuses(worker string, log *slog.Logger) *statuses {
	return &statuses{worker: worker, log: log, byKey: map[string]Status{}, own: map[string]bool{}}
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

// statusTimeout bounds the write of one status: a status is news, and what is
// reported must not hang because news cannot be told.
const statusTimeout = 10 * time.Second

// set reports a state. What this worker shows changes at once; a failure to
// write it is logged, as the connector itself is not harmed by it.
func (s *statuses) set(ctx context.Context, key string, state State, cause error) {
	status := Status{State: state, WorkerID: s.worker}
	if cause != nil {
		status.Trace = cause.Error()
		status.Retrying = errors.Is(cause, errRetrying)
	}
	value, err := json.Marshal(status)
	if err != nil {
		panic(fmt.Sprintf("connect: a status that is not JSON: %v", err))
	}
	s.mu.Lock()
	s.own[key] = true
	s.byKey[key] = status
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusTimeout)
	defer cancel()
	if err := s.table.Put(ctx, []byte(key), value); err != nil {
		s.log.Warn("reporting a status failed", "key", key, "state", string(state), "err", err)
	}
}

// forget deletes all that was reported of a connector.
func (s *statuses) forget(ctx context.Context, name string) {
	s.mu.Lock()
	keys := []string{connectorKey(name)}
	for key := range maps.Keys(s.byKey) {
		if number, ok := strings.CutPrefix(key, "status-task-"+name+"-"); ok && !strings.Contains(number, "-") {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		delete(s.byKey, key)
		delete(s.own, key)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusTimeout)
	defer cancel()
	for _, key := range keys {
		if err := s.table.Put(ctx, []byte(key), nil); err != nil {
			s.log.Warn("deleting a status failed", "key", key, "err", err)
		}
	}
}
