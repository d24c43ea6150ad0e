package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/connect/host"
	"github.com/millrace/millrace/connect/internal/table"
)

// Config describes a worker. Client and Host are required.
type Config struct {
	// Client options that reach the cluster: seeds, TLS, SASL.
	Client []kgo.Opt
	// Host finds and runs the plugins' processes. It belongs to the caller.
	Host *host.Host
	// ID is shown in statuses as the worker's name, such as "host:8083".
	ID string
	// ConfigTopic, OffsetTopic and StatusTopic hold what the worker knows.
	// Empty means connect-configs, connect-offsets and connect-status.
	ConfigTopic, OffsetTopic, StatusTopic string
	// Replication is the number of replicas of those topics when they are
	// created; 0 or -1 takes the brokers' default.
	Replication int16
	// CommitInterval is how often positions and offsets are stored. 0 means
	// one second.
	CommitInterval time.Duration
	// StateDir is where tasks may keep files on this machine. Empty means
	// the folder "connect-state" in the working directory.
	StateDir string
	// Log receives what happens. Nil means slog.Default.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Client) == 0 {
		return c, errors.New("connect: Config.Client is missing: it says how to reach the cluster")
	}
	if c.Host == nil {
		return c, errors.New("connect: Config.Host is missing: it runs the plugins")
	}
	c.ID = cmp.Or(c.ID, "worker")
	c.ConfigTopic = cmp.Or(c.ConfigTopic, "connect-configs")
	c.OffsetTopic = cmp.Or(c.OffsetTopic, "connect-offsets")
	c.StatusTopic = cmp.Or(c.StatusTopic, "connect-status")
	c.Replication = cmp.Or(c.Replication, -1)
	c.CommitInterval = cmp.Or(c.CommitInterval, time.Second)
	c.StateDir = cmp.Or(c.StateDir, "connect-state")
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.CommitInterval < 0 {
		return c, fmt.Errorf("connect: Config.CommitInterval is %v: it must not be negative", c.CommitInterval)
	}
	return c, nil
}

// Worker runs connectors. Make it with [New], then call Run; all other methods
// may be called concurrently, by a REST API for instance.
type Worker struct {
	cfg      Config
	configs  *configs
	offsets  *offsets
	statuses *statuses
	// wake asks the loop of Run to compare wanted and running again.
	wake chan struct{}
	// changing is held by the change that is being stored; see change.
	changing chan struct{}
	stopping chan struct{} // closed when Run begins to end

	mu        sync.Mutex
	runners   map[string]*runner
	clusterID string // empty until it was asked for
}

// New reads the worker's three topics, creating what is missing. ctx bounds
// that. Close the worker if Run is not going to be called.
func New(ctx context.Context, cfg Config) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: cfg, configs: newConfigs(cfg.Log), offsets: newOffsets(), statuses: newStatuses(cfg.ID, cfg.Log),
		wake: make(chan struct{}, 1), changing: make(chan struct{}, 1), stopping: make(chan struct{}), runners: map[string]*runner{},
	}
	open := func(topic string, partitions int32, apply func(key, value []byte)) (*table.Table, error) {
		return table.Open(ctx, table.Config{Client: cfg.Client, Topic: topic, Partitions: partitions,
			Replication: cfg.Replication, Apply: apply, Log: cfg.Log})
	}
	if w.configs.table, err = open(cfg.ConfigTopic, 1, w.configs.apply); err == nil {
		if w.offsets.table, err = open(cfg.OffsetTopic, 5, w.offsets.apply); err == nil {
			w.statuses.table, err = open(cfg.StatusTopic, 5, w.statuses.apply)
		}
	}
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("starting the Connect worker: %w", err)
	}
	w.statuses.start()
	return w, nil
}

// Close lets go of the topics. Run does it too.
func (w *Worker) Close() {
	w.statuses.stop()
	for _, t := range []*table.Table{w.configs.table, w.offsets.table, w.statuses.table} {
		if t != nil {
			t.Close()
		}
	}
}

// Run runs the connectors until ctx ends, and returns when all tasks have
// stopped: sources with their positions stored, sinks with offsets committed.
// Call it once.
func (w *Worker) Run(ctx context.Context) error {
	defer w.Close()
	for {
		w.reconcile(ctx)
		select {
		case <-ctx.Done():
			close(w.stopping)
			w.awaitAll()
			return nil
		case <-w.configs.changed:
		case <-w.wake:
		}
	}
}

// reconcile makes what runs be what the configuration topic says. It never
// waits: a runner that has to end wakes the loop when it has.
func (w *Worker) reconcile(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := map[string]connectorConfig{}
	for _, name := range w.configs.names() {
		if c, ok := w.configs.get(name); ok {
			wanted[name] = c
		}
	}
	for name, r := range w.runners {
		select {
		case <-r.done:
			delete(w.runners, name)
			w.ended(name)
			continue
		default:
		}
		c, ok := wanted[name]
		if !ok || c.target == TargetStopped || !maps.Equal(c.settings, r.settings) {
			r.cancel()
			continue
		}
		r.setPaused(c.target == TargetPaused)
	}
	for name, c := range wanted {
		if w.runners[name] != nil || ctx.Err() != nil {
			continue
		}
		if c.target == TargetStopped {
			if w.statuses.get(connectorKey(name)).State != Stopped {
				w.statuses.set(connectorKey(name), Stopped, nil)
			}
			continue
		}
		r := startRunner(ctx, w, name, c)
		w.runners[name] = r
		go func() {
			<-r.done
			w.poke()
		}()
	}
}

// ended tidies up the reports of a connector that does not run any more.
func (w *Worker) ended(name string) {
	if _, ok := w.configs.get(name); !ok {
		w.statuses.forget(name)
	}
}

func (w *Worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Worker) awaitAll() {
	w.mu.Lock()
	runners := maps.Clone(w.runners)
	w.mu.Unlock()
	for _, r := range runners {
		<-r.done
	}
}

// client makes a client of the cluster; the caller closes it.
func (w *Worker) client(opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, w.cfg.Client...), opts...)...)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

// ClusterID returns the id of the cluster that the worker uses. It asks once.
func (w *Worker) ClusterID(ctx context.Context) (string, error) {
	w.mu.Lock()
	id := w.clusterID
	w.mu.Unlock()
	if id != "" {
		return id, nil
	}
	client, err := w.client()
	if err != nil {
		return "", err
	}
	defer client.Close()
	meta, err := kadm.NewClient(client).BrokerMetadata(ctx)
	if err != nil {
		return "", fmt.Errorf("asking for the cluster's id: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clusterID = meta.Cluster
	return meta.Cluster, nil
}
