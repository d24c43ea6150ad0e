package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/millrace/millrace/connect/internal/table"
)

// offsets is the topic of source positions as a map: for each connector and
// each partition of its source, the position of the last record that a broker
// has acknowledged.
type offsets struct {
	table *table.Table

	mu   sync.Mutex
	byID map[string]map[string]string // connector -> source partition -> position
}

func newOffsets() *offsets { return &offsets{byID: map[string]map[string]string{}} }

// The JSON keys and values of the topic, as Kafka Connect has them: the key is
// [connector, source partition], both sides being maps. Ours have one entry.
type (
	sourcePartition struct {
		Partition *string `json:"partition"`
	}
	sourcePosition struct {
		Position *string `json:"position"`
	}
)

func (o *offsets) apply(key, value []byte) {
	var parts []json.RawMessage
	var name string
	var partition sourcePartition
	if json.Unmarshal(key, &parts) != nil || len(parts) != 2 || json.Unmarshal(parts[0], &name) != nil || json.Unmarshal(parts[1], &partition) != nil || partition.Partition == nil {
		return // not written by a connector of ours
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if value == nil {
		delete(o.byID[name], *partition.Partition)
		return
	}
	var position sourcePosition
	if json.Unmarshal(value, &position) != nil || position.Position == nil {
		return // not ours either: it must not send a source back to its beginning
	}
	if o.byID[name] == nil {
		o.byID[name] = map[string]string{}
	}
	o.byID[name][*partition.Partition] = *position.Position
}

// of returns the positions of a connector's source partitions, as a copy, all
// those included that were stored before the call: a task that is started anew
// must not resume at older ones.
func (o *offsets) of(ctx context.Context, name string) (map[string]string, error) {
	if err := o.table.Sync(ctx); err != nil {
		return nil, fmt.Errorf("looking up the positions of %s: %w", name, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	positions := maps.Clone(o.byID[name])
	if positions == nil {
		positions = map[string]string{}
	}
	return positions, nil
}

// store writes positions; they are durable when it returns nil.
func (o *offsets) store(ctx context.Context, name string, positions map[string]string) error {
	entries := make([]table.Entry, 0, len(positions))
	for partition, position := range positions {
		key, err := json.Marshal([]any{name, sourcePartition{&partition}})
		if err != nil {
			return fmt.Errorf("encoding a source partition of %s: %w", name, err)
		}
		value, err := json.Marshal(sourcePosition{&position})
		if err != nil {
			return fmt.Errorf("encoding a source position of %s: %w", name, err)
		}
		entries = append(entries, table.Entry{Key: key, Value: value})
	}
	if err := o.table.Put(ctx, entries...); err != nil {
		return fmt.Errorf("storing the position of %s: %w", name, err)
	}
	return nil
}
