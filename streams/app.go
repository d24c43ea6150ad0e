package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/worker"
	"github.com/millrace/millrace/streams/state"
)

// Defaults of [Config].
const (
	DefaultThreads        = 1
	DefaultCommitInterval = time.Second
	DefaultStateBytes     = 256 << 20
)

// Config says where and how an [App] runs a job. Only Brokers is needed, and not even that if Client has seed brokers.
type Config struct {
	// Brokers are the addresses, host:port, of some of the cluster's brokers. The others are found through them.
	Brokers []string
	// Client are options for every Kafka client of the job: TLS (kgo.DialTLSConfig), SASL (kgo.SASL), timeouts, compression.
	// What the runtime depends on (group, topics, offsets, partitioning, acks) it sets itself, and what Client says of it is
	// ignored.
	Client []kgo.Opt
	// StateDir holds the state of jobs on this machine, in a folder for each application. Keep it over restarts: a job
	// that finds its state need not restore it from the cluster. Each process needs a StateDir of its own. Empty means
	// "millrace-streams" in the user's cache folder.
	StateDir string
	// Threads is how many tasks are processed at the same time in this process. Zero means 1. More threads than tasks do
	// nothing. A job also scales by more processes, here or on other machines. A thread takes the records of its tasks in
	// order of their times; threads and processes do not wait for each other, so behind a repartition a job of several
	// that catches up on a backlog sees times mixed, and needs a grace that covers it.
	Threads int
	// CommitInterval is the time between commits: how much work is repeated, at most, after a crash. Zero means a second.
	// Commits are made earlier when uncommitted writes take a quarter of StateBytes, and when tasks move.
	CommitInterval time.Duration
	// StateBytes bounds the memory that all stores take together: read caches, write buffers, uncommitted writes, and
	// stores in memory (which alone can exceed it). Zero means 256 MiB.
	StateBytes int64
	// ReplicationFactor of the job's internal topics. Zero means the cluster's default.
	ReplicationFactor int
	// InstanceID, when not empty, makes the process a static member of the job's group: it can restart within the session
	// timeout without tasks moving. It must be unique among the processes of the job, and last over restarts.
	InstanceID string
	// Endpoint, host:port, is told to the job's other processes. It is for applications that forward queries. May be
	// empty.
	Endpoint string
	// MaxIdle is how long a task that reads several topics waits for one that has no records on the broker, so that records
	// are taken in order of time. Zero means not at all. Records that the broker has are waited for in any case.
	MaxIdle time.Duration
	// Handlers decide about records that fail. Without, the job fails.
	Handlers Handlers
	// Now is the clock for commits, timers and idle waits. Nil means time.Now.
	Now func() time.Time
	// Log gets what the job logs. Nil means slog.Default().
	Log *slog.Logger

	// interrupt, for tests, fails a commit at one of its steps.
	interrupt func(worker.CommitStep) error
}

// withDefaults fills in what is zero, and reports all that is wrong.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	if len(c.Brokers) == 0 && len(c.Client) == 0 {
		errs = append(errs, errors.New("no brokers: give Brokers the address of at least one"))
	}
	if c.Threads < 0 || c.CommitInterval < 0 || c.StateBytes < 0 || c.ReplicationFactor < 0 || c.MaxIdle < 0 {
		errs = append(errs, errors.New("negative numbers: Threads, CommitInterval, StateBytes, ReplicationFactor and MaxIdle start at zero"))
	}
	if c.ReplicationFactor > 1<<15-1 {
		errs = append(errs, fmt.Errorf("a ReplicationFactor of %d is more than Kafka allows", c.ReplicationFactor))
	}
	if c.Threads == 0 {
		c.Threads = DefaultThreads
	}
	if c.CommitInterval == 0 {
		c.CommitInterval = DefaultCommitInterval
	}
	if c.StateBytes == 0 {
		c.StateBytes = DefaultStateBytes
	}
	if c.ReplicationFactor == 0 {
		c.ReplicationFactor = -1 // the cluster's default, KIP-464
	}
	if c.StateDir == "" {
		c.StateDir = defaultStateDir()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c, errors.Join(errs...)
}

func defaultStateDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // no home folder, as in some containers
	}
	return filepath.Join(cache, "millrace-streams")
}

// App is one process of a job. Start more of them, with the same topology, to scale: they share the partitions of the
// input, and take over from each other.
//
// Processing is at-least-once: after a crash, records since the last commit are processed again, and their results may
// be written, and counted, twice.
type App struct {
	runtime *worker.Runtime
	ran     atomic.Bool
}

// New makes an app from a topology. It checks the configuration and does not connect yet.
func New(t *Topology, cfg Config) (*App, error) {
	if t == nil {
		return nil, errors.New("no topology: give New what Build returned, and look at Build's error first")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configuration of job %q: %w", t.graph.Application, err)
	}
	return &App{runtime: worker.New(worker.Config{
		Topology: t.graph, Programs: t.programs, Brokers: cfg.Brokers, Client: cfg.Client, StateDir: cfg.StateDir,
		Threads: cfg.Threads, CommitInterval: cfg.CommitInterval, StateBytes: cfg.StateBytes,
		ReplicationFactor: int16(cfg.ReplicationFactor), InstanceID: cfg.InstanceID, Endpoint: cfg.Endpoint, MaxIdle: cfg.MaxIdle,
		Handlers: cfg.Handlers.ForTasks(), Now: cfg.Now, Log: cfg.Log.With("job", t.graph.Application), Interrupt: cfg.interrupt,
	})}, nil
}

// Run makes the job's internal topics, joins its group and processes until ctx ends; then it commits, leaves the group
// and returns nil, within seconds. It returns early with an error when the job cannot go on: an input topic is
// missing, a record failed and no handler dealt with it, access was refused, no broker answered for a minute at the
// start. Trouble that passes (brokers that restart, rebalances) is not an error. Run may be called once.
func (a *App) Run(ctx context.Context) error {
	if a.ran.Swap(true) {
		return errors.New("Run was called before: make a new App")
	}
	return a.runtime.Run(ctx)
}

// WaitCaughtUp waits until the job, in all its processes together, has processed and committed what its input topics hold
// at the time of the call, with everything that follows from it, until no rebalance is under way, and until this process
// has restored the tasks that it was given: queries and output topics show everything then, queries for as long as no
// tasks move. It is for tests, and for services that answer queries only when they are up to date. It may be called before
// Run. It fails when ctx ends, saying what is behind, and with [ErrEnded] when Run returns before.
func (a *App) WaitCaughtUp(ctx context.Context) error { return a.runtime.WaitCaughtUp(ctx) }

// ErrEnded says that Run returned before what was waited for.
var ErrEnded = worker.ErrEnded

// Query returns a view of a key-value store: its committed content in the partitions that this process has. It works
// from any goroutine, for as long as the job runs. While no partition is here, or one that is to be here is being restored,
// its methods fail with [state.ErrUnavailable], so that an answer is whole for this process; see [App.WaitCaughtUp]. A
// store that the topology does not have is another error.
func (a *App) Query[K, V any](r state.KeyValueRef[K, V]) state.ReadOnly[K, V] {
	return state.NewReadOnly(a.runtime.Stores, r)
}

// QueryWindow is [App.Query] for window stores.
func (a *App) QueryWindow[K, V any](r state.WindowRef[K, V]) state.ReadOnlyWindow[K, V] {
	return state.NewReadOnlyWindow(a.runtime.Stores, r)
}

// QuerySession is [App.Query] for session stores.
func (a *App) QuerySession[K, V any](r state.SessionRef[K, V]) state.ReadOnlySession[K, V] {
	return state.NewReadOnlySession(a.runtime.Stores, r)
}
