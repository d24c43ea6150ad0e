// Package worker runs the tasks of a stream job against a Kafka cluster.
//
// A [Runtime] is one process of the job. It holds the state folder, makes the internal topics, and starts threads. A
// thread is one goroutine with one Kafka client of its own: it is a member of the job's group, fetches the input of the
// tasks that it was assigned, drives them, and commits. Tasks and their stores are touched by their thread alone. What
// Kafka's client calls from goroutines of its own becomes an event that the thread handles between two steps.
//
//	kgo callback (assigned, revoked, lost) --event--> thread: poll, step tasks, commit --> kgo produce, commit offsets
//	                                                    ^ restored
//	                                      restorer: a task's folder, then its changelogs
//
// A task that was assigned is first restored, by a goroutine that owns its stores meanwhile: it opens the folder and
// reads what the changelogs have beyond it, with a second client that all threads share. Input is paused until then.
//
// Commits are made by thread.commit alone, in the order that at-least-once needs; what can go wrong between its steps,
// and why that is no loss, is written there. See docs/design/streams-runtime.md.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/assign"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
)

// Config is a job to run. Package streams fills in every field that is not marked optional.
type Config struct {
	Topology *topology.Topology
	Programs []*task.Program
	// Brokers are host:port of some brokers; Client are options for every client, applied before the runtime's own.
	Brokers []string
	Client  []kgo.Opt
	// StateDir holds a folder for each application.
	StateDir string
	Threads  int
	// CommitInterval is the time between commits when nothing else causes one.
	CommitInterval time.Duration
	// StateBytes bounds the memory of all stores; a quarter of it is for uncommitted writes.
	StateBytes int64
	// ReplicationFactor of internal topics; -1 is the cluster's default.
	ReplicationFactor int16
	// InstanceID makes the threads static members of the group (optional).
	InstanceID string
	// Endpoint is told to the other members (optional).
	Endpoint string
	MaxIdle  time.Duration
	Handlers task.Handlers
	Now      func() time.Time
	Log      *slog.Logger
	// Interrupt, for tests, runs before each step of a commit; its error ends the thread there, as a crash would.
	Interrupt func(CommitStep) error
}

// uncommittedShare is the part of StateBytes that uncommitted writes may take.
const uncommittedShare = 4

// Runtime is one process of a job.
type Runtime struct {
	cfg    Config
	dir    *stateDir
	admin  *kadm.Client // over the second client
	second *kgo.Client
	topics *topics

	subOf   map[string]*task.Program // by source topic
	program map[string]*task.Program // by sub-topology
	writer  map[string]string        // sub-topology by the repartition topic that it writes
	// fed are the sub-topologies that read a repartition topic and write another: see upstream.go.
	fed map[string]bool

	mu      sync.Mutex
	memory  *state.Memory     // nil unless running
	places  map[task.ID]place // of the tasks that were assigned to this process
	members []*kgo.Client     // of the threads, by their index; nil before they are made
	outside map[string]int32  // partitions of topics that are only written to
	reports map[task.ID]TaskStatus
	phase   Phase
	totals  Totals

	restores   chan struct{}  // one element for each that runs
	ended      chan struct{}  // closed when Run returns
	background sync.WaitGroup // purges; they end with their thread's context
}

// New makes a runtime. It does nothing yet.
func New(cfg Config) *Runtime {
	rt := &Runtime{
		cfg: cfg, subOf: map[string]*task.Program{}, program: map[string]*task.Program{},
		writer: map[string]string{}, fed: map[string]bool{},
		places: map[task.ID]place{}, outside: map[string]int32{}, reports: map[task.ID]TaskStatus{}, phase: Created,
		restores: make(chan struct{}, restoresMax), ended: make(chan struct{}),
	}
	for _, p := range cfg.Programs {
		rt.program[p.Sub.Name] = p
		for _, topic := range p.Sub.Sources {
			rt.subOf[topic] = p
			rt.fed[p.Sub.Name] = rt.fed[p.Sub.Name] || len(p.Sub.Internal) > 0 && rt.isRepartition(topic)
		}
		for _, topic := range p.Sub.Internal {
			rt.writer[topic] = p.Sub.Name
		}
	}
	return rt
}

// Run runs the job until ctx ends, and then stops it cleanly: everything processed is committed. It returns nil after a
// clean stop, or what ended the job.
func (rt *Runtime) Run(ctx context.Context) (err error) {
	rt.setPhase(Starting)
	defer close(rt.ended)
	defer func() {
		if err != nil {
			rt.setPhase(Failed)
		} else {
			rt.setPhase(Stopped)
		}
	}()
	rt.dir, err = openStateDir(filepath.Join(rt.cfg.StateDir, rt.cfg.Topology.Application))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.dir.Close()) }()
	rt.second, err = kgo.NewClient(rt.clientOptions("restore")...)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer rt.second.Close()
	defer rt.background.Wait()
	rt.admin = kadm.NewClient(rt.second)

	rt.topics, err = prepareTopics(ctx, rt)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	rt.dir.scan(rt.topics.plan.Tasks, rt.cfg.Log)
	memory := state.NewMemory(rt.cfg.StateBytes * (uncommittedShare - 1) / uncommittedShare)
	rt.setMemory(memory)
	defer func() {
		rt.setMemory(nil)
		memory.Close()
	}()
	return rt.runThreads(ctx)
}

// runThreads runs the threads until one fails or ctx ends, and waits for all.
func (rt *Runtime) runThreads(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var threads []*thread
	for i := range rt.cfg.Threads {
		t, err := newThread(rt, i)
		if err != nil {
			for _, made := range threads {
				made.client.Close()
			}
			return err
		}
		threads = append(threads, t)
	}
	rt.setMembers(threads)
	rt.setPhase(Running)
	ended := make(chan error, len(threads))
	for _, t := range threads {
		go func() { ended <- t.run(ctx) }()
	}
	var errs []error
	for range threads {
		if err := <-ended; err != nil {
			errs = append(errs, err)
		}
		stop()
	}
	return errors.Join(errs...)
}

const (
	// metadataAgeMin lets clients see a new topic soon: the job makes topics and uses them at once, and kgo's default
	// would make it wait for 5 s twice at its first start.
	metadataAgeMin = 100 * time.Millisecond
	// fetchWaitMax is how long a broker holds a fetch that finds nothing. A partition that is resumed waits for the one
	// on its way, so kgo's 5 s would be felt whenever a task is restored.
	fetchWaitMax = 250 * time.Millisecond
)

// clientOptions are the options of every client: ours that the user may override, the user's, and what the runtime must
// decide.
func (rt *Runtime) clientOptions(role string) []kgo.Opt {
	opts := append([]kgo.Opt{kgo.MetadataMinAge(metadataAgeMin), kgo.FetchMaxWait(fetchWaitMax)}, rt.cfg.Client...)
	if len(rt.cfg.Brokers) > 0 {
		opts = append(opts, kgo.SeedBrokers(rt.cfg.Brokers...))
	}
	return append(opts,
		kgo.ClientID(rt.cfg.Topology.Application+"-"+role),
		// Only threads consume. With a group among the user's options the other clients would join it, and take partitions.
		kgo.ConsumerGroup(""), kgo.ConsumeTopics(), kgo.ConsumePartitions(nil),
	)
}

// Stores is a [state.Source]: it returns the stores of the tasks that run here and have a store of that name, in the order
// of their partitions. With them comes [state.ErrUnavailable] if there are tasks here that are still being restored. It
// fails if the topology has no such store.
func (rt *Runtime) Stores(store string) ([]*state.Stores, error) {
	if _, ok := rt.cfg.Topology.Store(store); !ok {
		return nil, rt.unknownStore(store)
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var ids []task.ID
	for id := range rt.places {
		if slices.Contains(rt.program[id.Sub].Sub.Stores, store) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b task.ID) int { return int(a.Partition - b.Partition) })
	var out []*state.Stores
	var restoring []int32
	for _, id := range ids {
		if stores := rt.places[id].stores; stores != nil {
			out = append(out, stores)
		} else {
			restoring = append(restoring, id.Partition)
		}
	}
	if len(restoring) > 0 {
		return out, fmt.Errorf("%w: partitions %v are being restored", state.ErrUnavailable, restoring)
	}
	return out, nil
}

// unknownStore says which stores there are. Waiting does not help here, so it is not ErrUnavailable.
func (rt *Runtime) unknownStore(store string) error {
	if store == "" {
		return fmt.Errorf("job %q: the reference names no store: take it from the table, or make it with state.NewKeyValue, NewWindow or NewSession", rt.cfg.Topology.Application)
	}
	var names []string
	for _, s := range rt.cfg.Topology.Stores {
		names = append(names, s.Spec.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("job %q has no store %q: it has no stores", rt.cfg.Topology.Application, store)
	}
	return fmt.Errorf("job %q has no store %q: it has %s", rt.cfg.Topology.Application, store, quotedList(names))
}

func (rt *Runtime) setMemory(m *state.Memory) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.memory = m
}

func (rt *Runtime) setMembers(threads []*thread) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, t := range threads {
		rt.members = append(rt.members, t.client)
	}
}

// place is where a task of this process is.
type place struct {
	thread int
	stores *state.Stores // nil until the task runs
}

// taken notes that tasks were assigned to a thread, which restores them now.
func (rt *Runtime) taken(thread int, ids ...task.ID) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, id := range ids {
		rt.places[id] = place{thread: thread}
	}
}

// opened notes that a task runs.
func (rt *Runtime) opened(thread int, id task.ID, s *state.Stores) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.places[id] = place{thread, s}
}

// closed notes that a thread has a task no more. Another may have been assigned it already.
func (rt *Runtime) closed(thread int, id task.ID) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.places[id].thread == thread {
		delete(rt.places, id)
	}
	delete(rt.reports, id)
}

// sourceTopics are all topics that the job reads, sorted.
func (rt *Runtime) sourceTopics() []string { return slices.Sorted(maps.Keys(rt.subOf)) }

// partitionsOf returns the input partitions of a task by topic: a topic with fewer partitions than its sub-topology has
// tasks gives the last ones nothing.
func (rt *Runtime) partitionsOf(id task.ID) map[string][]int32 {
	out := map[string][]int32{}
	for _, topic := range rt.program[id.Sub].Sub.Sources {
		if id.Partition < rt.topics.plan.Partitions[topic] {
			out[topic] = []int32{id.Partition}
		}
	}
	return out
}

// isRepartition tells whether a topic is one of the job's repartition topics.
func (rt *Runtime) isRepartition(topic string) bool {
	return slices.ContainsFunc(rt.cfg.Topology.Topics, func(t topology.Topic) bool {
		return t.Name == topic && t.Kind == topology.Repartition
	})
}

// stateful tells whether a task has state that it would have to restore.
func (rt *Runtime) stateful(t assign.Task) bool {
	p, ok := rt.program[t.Sub]
	return ok && len(p.Sub.Stores) > 0
}
