package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

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
	// changed gets a token when something was applied; it holds at most one.
	changed chan struct{}

	mu   sync.Mutex
	byID map[string]connectorConfig
}

func newConfigs() *configs {
	return &configs{changed: make(chan struct{}, 1), byID: map[string]connectorConfig{}}
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
// newer workers, or of Kafka Connect's own, and are left alone.
func (c *configs) apply(key, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := strings.CutPrefix(string(key), connectorPrefix); ok {
		c.applyConfig(name, value)
	} else if name, ok := strings.CutPrefix(string(key), targetPrefix); ok {
		c.applyTarget(name, value)
	} else {
		return
	}
	select {
	case c.changed <- struct{}{}:
	default: // a token is waiting already
	}
}

func (c *configs) applyConfig(name string, value []byte) {
	var v configValue
	if value == nil || json.Unmarshal(value, &v) != nil || v.Properties == nil {
		delete(c.byID, name)
		return
	}
	config, ok := c.byID[name]
	if !ok {
		config.target = TargetRunning
	}
	config.settings = v.Properties
	c.byID[name] = config
}

func (c *configs) applyTarget(name string, value []byte) {
	config, ok := c.byID[name]
	if !ok {
		return
	}
	config.target = TargetRunning
	var v targetValue
	if value != nil && json.Unmarshal(value, &v) == nil && v.State != "" {
		config.target = v.State
	}
	c.byID[name] = config
}

func (c *configs) get(name string) (connectorConfig, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	config, ok := c.byID[name]
	config.settings = maps.Clone(config.settings)
	return config, ok
}

func (c *configs) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.byID))
}

// putConfig writes a configuration and returns when this worker has applied it.
func (c *configs) putConfig(ctx context.Context, name string, settings map[string]string) error {
	return c.put(ctx, connectorPrefix+name, configValue{settings})
}

func (c *configs) putTarget(ctx context.Context, name string, target TargetState) error {
	return c.put(ctx, targetPrefix+name, targetValue{target})
}

func (c *configs) put(ctx context.Context, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", key, err)
	}
	if err := c.table.Put(ctx, table.Entry{Key: []byte(key), Value: text}); err != nil {
		return err
	}
	return c.table.Sync(ctx)
}

// remove deletes a connector. The target state goes second: a connector that
// has none is a running one, so the other order could start it for a moment.
func (c *configs) remove(ctx context.Context, name string) error {
	if err := c.table.Put(ctx, table.Entry{Key: []byte(connectorPrefix + name)}, table.Entry{Key: []byte(targetPrefix + name)}); err != nil {
		return err
	}
	return c.table.Sync(ctx)
}
