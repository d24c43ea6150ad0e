package connect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/connect/config"
	"github.com/millrace/millrace/connect/internal/table"
)

// TargetState is what a user has asked a connector to be.
type TargetState string

const (
	// TargetRunning is the state of a new connector.
	TargetRunning TargetState = "STARTED"
	// TargetPaused keeps the tasks' processes but moves no records.
	TargetPaused TargetState = "PAUSED"
	// TargetStopped ends the tasks' processes and keeps the configuration.
	TargetStopped TargetState = "STOPPED"
)

// Keys of the configuration topic begin so, as Kafka Connect writes them.
const (
	connectorPrefix = "connector-"
	targetPrefix    = "target-state-"
)

// connectorConfig is what the configuration topic says of one connector.
type connectorConfig struct {
	settings map[string]string
	target   TargetState
}

// configs is the configuration topic as a map.
type configs struct {
	table *table.Table
	log   *slog.Logger
	// changed gets a token when something was applied; it holds at most one.
	changed chan struct{}

	mu       sync.Mutex
	settings map[string]map[string]string
	// targets are apart from settings: after compaction, a target state may
	// come before the configuration of its connector.
	targets map[string]TargetState
}

func newConfigs(log *slog.Logger) *configs {
	return &configs{log: log, changed: make(chan struct{}, 1), settings: map[string]map[string]string{}, targets: map[string]TargetState{}}
}

// The JSON values of the topic; docs/format/connect-topics.md.
type (
	configValue struct {
		Properties map[string]string `json:"properties"`
	}
	targetValue struct {
		State TargetState `json:"state"`
	}
)

// apply takes one record of the topic. Keys that are not known are those of
// newer workers, or of Kafka Connect's own, and are left alone. A value that
// cannot be understood changes nothing.
func (c *configs) apply(key, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if name, ok := strings.CutPrefix(string(key), connectorPrefix); ok {
		err = c.applyConfig(name, value)
	} else if name, ok := strings.CutPrefix(string(key), targetPrefix); ok {
		err = c.applyTarget(name, value)
	} else {
		return
	}
	if err != nil {
		c.log.Error("a record of the configuration topic cannot be understood, and is passed over", "key", string(key), "err", err)
		return
	}
	select {
	case c.changed <- struct{}{}:
	default: // a token is waiting already
	}
}

func (c *configs) applyConfig(name string, value []byte) error {
	if value == nil {
		delete(c.settings, name)
		return nil
	}
	if err := config.CheckName(name); err != nil {
		return err
	}
	var v configValue
	if err := json.Unmarshal(value, &v); err != nil {
		return errors.New("the value is not {\"properties\":{…}} with texts") // err could quote a secret
	}
	if v.Properties == nil {
		return errors.New("the value has no properties")
	}
	c.settings[name] = v.Properties
	return nil
}

func (c *configs) applyTarget(name string, value []byte) error {
	if value == nil {
		delete(c.targets, name)
		return nil
	}
	var v targetValue
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	switch v.State {
	case TargetRunning, TargetPaused, TargetStopped:
		c.targets[name] = v.State
		return nil
	}
	return fmt.Errorf("there is no target state %q", v.State)
}

func (c *configs) get(name string) (connectorConfig, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	settings, ok := c.settings[name]
	return connectorConfig{maps.Clone(settings), cmp.Or(c.targets[name], TargetRunning)}, ok
}

func (c *configs) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.settings))
}

// create writes a new connector. Its target state goes first, or it could run
// for a moment; running is to have none, which also does away with what may be
// left of an earlier connector of that name. It returns, as all writes do, when
// this worker has applied it.
func (c *configs) create(ctx context.Context, name string, settings map[string]string, target TargetState) error {
	var state any
	if target != TargetRunning {
		state = targetValue{target}
	}
	return c.put(ctx, configEntry{targetPrefix + name, state}, configEntry{connectorPrefix + name, configValue{settings}})
}

func (c *configs) putConfig(ctx context.Context, name string, settings map[string]string) error {
	return c.put(ctx, configEntry{connectorPrefix + name, configValue{settings}})
}

func (c *configs) putTarget(ctx context.Context, name string, target TargetState) error {
	return c.put(ctx, configEntry{targetPrefix + name, targetValue{target}})
}

// remove deletes a connector. The target state goes second: a connector that
// has none is a running one, so the other order could start it for a moment.
func (c *configs) remove(ctx context.Context, name string) error {
	return c.put(ctx, configEntry{connectorPrefix + name, nil}, configEntry{targetPrefix + name, nil})
}

// configEntry is a value to be written as JSON, or a deletion if it is nil.
type configEntry struct {
	key   string
	value any
}

func (c *configs) put(ctx context.Context, changes ...configEntry) error {
	entries := make([]table.Entry, len(changes))
	for i, change := range changes {
		entries[i].Key = []byte(change.key)
		if change.value == nil {
			continue
		}
		text, err := json.Marshal(change.value)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", change.key, err)
		}
		entries[i].Value = text
	}
	if err := c.table.Put(ctx, entries...); err != nil {
		return err
	}
	return c.table.Sync(ctx)
}
