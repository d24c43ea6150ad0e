// Package streamstest runs a streams job in a test: the real operators, tasks and stores, without a broker, without
// goroutines, and with a clock that the test moves.
//
//	job := streamstest.New(t, topology)
//	views := job.Input("views", serde.String, serde.JSON[View]())
//	counts := job.Output("counts", serde.String, serde.Int64)
//
//	views.Send("alice", View{Path: "/"}, noon)
//	counts.All() // [{Key:"/" Value:1 Present:true ...}]
//
// Send returns when everything that the record causes has happened: in all parts of the job, through internal topics,
// down to the outputs. So records are processed in the order of sending, which a cluster does not promise: a job that reads
// several partitions gets ahead in some. [Driver.Apart] shows what comes of it. Topics have one partition each unless the test says otherwise with [Config].Partitions, and records are
// spread over them as Kafka's producers do. Stores are in memory, with their changelogs; [Driver.Restart] rebuilds
// them from there, as another instance would.
package streamstest

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// Config changes how [NewWith] runs a job. The zero value is what [New] uses.
type Config struct {
	// Handlers are the job's error handlers.
	Handlers streams.Handlers
	// Partitions has the partition counts of topics that have more than one.
	Partitions map[string]int32
	// Start is where the clock begins; zero means 2026-01-01 UTC. Timers on the wall clock and UseWallClock see it.
	Start time.Time
	// Log gets what the job logs; nil means the test's output.
	Log *slog.Logger
}

// Driver runs one job. It belongs to the test's goroutine.
type Driver struct {
	t        testing.TB
	cfg      Config
	topology *streams.Topology
	plan     *topology.Plan
	now      time.Time
	tasks    []*running
	topics   map[string]*topicLog
	refused  map[string]error
	// holding says that sent records wait for the end of Together or Apart; apart, that they are kept in held.
	holding, apart bool
	held           []*kgo.Record
	spread         kgo.Partitioner
}

// running is a task with its stores.
type running struct {
	id      topology.TaskID
	program *task.Program
	task    *task.Task
	stores  *state.Stores
}

// topicLog holds all that was written to a topic.
type topicLog struct {
	parts  [][]*kgo.Record
	spread kgo.TopicPartitioner
	// order has all records, in the order of writing.
	order []*kgo.Record
}

// New starts a job. It ends with the test.
func New(t testing.TB, topology *streams.Topology) *Driver {
	t.Helper()
	return NewWith(t, topology, Config{})
}

// NewWith is [New] with a configuration.
func NewWith(t testing.TB, topology *streams.Topology, cfg Config) *Driver {
	t.Helper()
	d, err := TryStart(t, topology, cfg)
	if err != nil {
		t.Fatalf("starting the job: %v", err)
	}
	return d
}

// TryStart is [NewWith] for jobs that may fail to start: topics of different partition counts, a processor whose Init
// fails.
func TryStart(t testing.TB, topology *streams.Topology, cfg Config) (*Driver, error) {
	t.Helper()
	if topology == nil {
		return nil, errors.New("the topology is nil: take the one that Build returned without an error")
	}
	if cfg.Start.IsZero() {
		cfg.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	d := &Driver{t: t, cfg: cfg, topology: topology, now: cfg.Start, topics: map[string]*topicLog{}, refused: map[string]error{},
		spread: kgo.StickyKeyPartitioner(nil)}
	external := map[string]int32{}
	for _, topic := range topology.Graph().ExternalSources() {
		external[topic] = max(1, cfg.Partitions[topic])
	}
	var err error
	if d.plan, err = topology.Graph().Plan(external); err != nil {
		return nil, err
	}
	for topic := range cfg.Partitions {
		if err := d.checkKnown(topic); err != nil {
			return nil, fmt.Errorf("Config.Partitions: %w", err)
		}
	}
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Errorf("stopping the job: %v", err)
		}
	})
	return d, d.start(nil)
}

// start opens all tasks; times has the partition times of those that ran before.
func (d *Driver) start(times map[topology.TaskID]map[string]window.Instant) error {
	for _, id := range d.plan.Tasks {
		r := &running{id: id}
		for _, p := range d.topology.Programs() {
			if p.Sub.Name == id.Sub {
				r.program = p
			}
		}
		d.tasks = append(d.tasks, r)
		if err := d.openStores(r); err != nil {
			return err
		}
		var err error
		r.task, err = task.New(task.Config{ID: id, Program: r.program, Stores: r.stores, Output: output{d}, Handlers: d.cfg.Handlers.ForTasks(),
			Now: d.Now, Log: d.cfg.Log, Times: times[id]})
		if err != nil {
			return err
		}
	}
	return d.commit()
}

// openStores opens a task's stores, in memory whatever their specs say, and restores them from their changelogs.
func (d *Driver) openStores(r *running) error {
	graph := d.topology.Graph()
	cfg := state.Config{Log: d.cfg.Log}
	changelog := func(store string) string {
		s, _ := graph.Store(store)
		return s.Changelog
	}
	cfg.ChangelogTopic = changelog
	for _, name := range r.program.Sub.Stores {
		s, _ := graph.Store(name)
		spec := s.Spec
		spec.InMemory = true
		cfg.Specs = append(cfg.Specs, spec)
	}
	cfg.Capture = func(c state.Change) error {
		var at window.Instant
		if r.task != nil {
			at = r.task.Time()
		}
		d.append(changelog(c.Store), r.id.Partition, c.Key, c.Value, nil, at)
		return nil
	}
	var err error
	if r.stores, err = state.Open(cfg); err != nil {
		return err
	}
	for _, spec := range cfg.Specs {
		if spec.Unlogged {
			continue
		}
		for _, rec := range d.topic(changelog(spec.Name)).parts[r.id.Partition] {
			if err := r.stores.Restore(spec.Name, rec.Key, rec.Value, rec.Offset); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Driver) stop() error {
	var errs []error
	for _, r := range d.tasks {
		if r.task != nil {
			errs = append(errs, r.task.Close())
		}
		if r.stores != nil {
			errs = append(errs, r.stores.Close())
		}
	}
	d.tasks = nil
	return errors.Join(errs...)
}

// Restart stops all tasks and starts them again on empty stores, which are restored from their changelogs. Stores without
// a changelog lose their content.
func (d *Driver) Restart() {
	d.t.Helper()
	times := map[topology.TaskID]map[string]window.Instant{}
	for _, r := range d.tasks {
		times[r.id] = map[string]window.Instant{}
		for _, p := range r.task.Positions() {
			times[r.id][p.Topic] = p.Time
		}
	}
	if err := errors.Join(d.stop(), d.start(times)); err != nil {
		d.t.Fatalf("restarting the job: %v", err)
	}
}

// Now returns the clock's time.
func (d *Driver) Now() time.Time { return d.now }

// Advance moves the clock, and calls the timers that come due on the way, each at its time. Stream time does not move by
// it.
func (d *Driver) Advance(by time.Duration) {
	d.t.Helper()
	end := d.now.Add(by)
	for {
		next, due := end, false
		for _, r := range d.tasks {
			if at, ok := r.task.NextPunctuation(); ok && !at.After(next) {
				next, due = at, true
			}
		}
		d.now = next
		if !due {
			return
		}
		for _, r := range d.tasks {
			if err := r.task.Punctuate(); err != nil {
				d.t.Fatal(err)
			}
		}
		if err := d.run(); err != nil {
			d.t.Fatal(err)
		}
	}
}

// Together lets what f sends be processed in one go when f returns: records of several topics by their event times.
func (d *Driver) Together(f func()) {
	d.t.Helper()
	d.holding = true
	f()
	d.holding = false
	if err := d.run(); err != nil {
		d.t.Fatal(err)
	}
}

// Apart lets what f sends be processed in the worst order that a cluster may bring about, when f returns: each partition to
// its end, through all of the job, before the next partition begins, by their numbers. A job does that when it starts on
// old data, or falls behind. In each partition records keep their order, and those of several topics go by their event
// times; but a part of the job behind a repartition topic gets the last records of one partition before the first of the
// next, and drops these as late if the grace is shorter than that. It needs an input with several partitions.
//
//	job := streamstest.NewWith(t, topology, streamstest.Config{Partitions: map[string]int32{"views": 3}})
//	job.Apart(func() {
//		for _, v := range anHourOfViews {
//			views.Send(v.User, v, v.At)
//		}
//	})
//	job.Dropped() // want none
func (d *Driver) Apart(f func()) {
	d.t.Helper()
	d.holding, d.apart = true, true
	f()
	d.holding, d.apart = false, false
	held := d.held
	d.held = nil
	slices.SortStableFunc(held, func(a, b *kgo.Record) int { return int(a.Partition - b.Partition) })
	for i, rec := range held {
		d.deliver(rec)
		if i+1 < len(held) && held[i+1].Partition == rec.Partition {
			continue
		}
		if err := d.run(); err != nil {
			d.t.Fatal(err)
		}
	}
}

// Refuse makes writes to a topic fail for good, as a broker does with records that are too large; nil ends it.
func (d *Driver) Refuse(topic string, err error) {
	d.t.Helper()
	d.mustKnow(topic)
	d.refused[topic] = err
}

// Dropped returns how many records the job's operators dropped, by operator and reason: "count visits: late". Operators are
// named as in the topology's drawing.
func (d *Driver) Dropped() map[string]int64 {
	all := map[string]int64{}
	for _, r := range d.tasks {
		for _, drop := range r.task.Drops() {
			all[drop.Operator+": "+drop.Reason.String()] += drop.Count
		}
	}
	return all
}

// Topics returns the names of all topics that something was written to, internal ones included, sorted.
func (d *Driver) Topics() []string {
	names := slices.Sorted(maps.Keys(d.topics))
	return slices.DeleteFunc(names, func(name string) bool { return len(d.topics[name].order) == 0 })
}

// Records returns everything that was written to a topic so far, in the order of writing: the bytes, before any serde. A topic
// that the job does not have fails the test; see [Driver.Output].
func (d *Driver) Records(topic string) []*kgo.Record {
	d.t.Helper()
	d.mustKnow(topic)
	return d.topic(topic).order
}

// TrySend gives a record to the job as a broker would: its topic, key, value, headers and timestamp count, and its partition
// if it is not negative. It returns the error that ends the job, if it does. A topic that the job does not read fails the
// test.
func (d *Driver) TrySend(rec *kgo.Record) error {
	d.t.Helper()
	d.mustRead(rec.Topic)
	d.take(d.append(rec.Topic, rec.Partition, rec.Key, rec.Value, rec.Headers, window.Instant(rec.Timestamp.UnixMilli())))
	return d.run()
}

// take passes a record that was sent on to the job, or keeps it for the end of Apart.
func (d *Driver) take(rec *kgo.Record) {
	if d.apart {
		d.held = append(d.held, rec)
		return
	}
	d.deliver(rec)
}

// KeyValue returns a view of a key-value store. A store that the job does not have fails the test.
func (d *Driver) KeyValue[K, V any](ref state.KeyValueRef[K, V]) state.ReadOnly[K, V] {
	d.t.Helper()
	d.mustStore(ref.Spec())
	return state.NewReadOnly(d.stores, ref)
}

// Window returns a view of a window store; see KeyValue.
func (d *Driver) Window[K, V any](ref state.WindowRef[K, V]) state.ReadOnlyWindow[K, V] {
	d.t.Helper()
	d.mustStore(ref.Spec())
	return state.NewReadOnlyWindow(d.stores, ref)
}

// Session returns a view of a session store; see KeyValue.
func (d *Driver) Session[K, V any](ref state.SessionRef[K, V]) state.ReadOnlySession[K, V] {
	d.t.Helper()
	d.mustStore(ref.Spec())
	return state.NewReadOnlySession(d.stores, ref)
}

func (d *Driver) stores(name string) ([]*state.Stores, error) {
	var all []*state.Stores
	for _, r := range d.tasks {
		if slices.Contains(r.program.Sub.Stores, name) {
			all = append(all, r.stores)
		}
	}
	return all, nil
}

// run steps all tasks until none has anything to do, then commits.
func (d *Driver) run() error {
	if d.holding {
		return nil
	}
	for busy := true; busy; {
		busy = false
		for _, r := range d.tasks {
			p, err := r.task.Step()
			if err != nil {
				return err
			}
			busy = busy || p.Processed
		}
	}
	return d.commit()
}

func (d *Driver) commit() error {
	for _, r := range d.tasks {
		if err := r.stores.Commit(state.Checkpoint{Committed: d.now}); err != nil {
			return err
		}
	}
	return nil
}

// topic returns the log of a topic, which is made at its first mention.
func (d *Driver) topic(name string) *topicLog {
	l, ok := d.topics[name]
	if !ok {
		l = &topicLog{parts: make([][]*kgo.Record, d.partitions(name)), spread: d.spread.ForTopic(name)}
		d.topics[name] = l
	}
	return l
}

func (d *Driver) partitions(topic string) int32 {
	if n := d.plan.Partitions[topic]; n > 0 {
		return n
	}
	return max(1, d.cfg.Partitions[topic])
}

// append writes a copy of a record to a topic.
func (d *Driver) append(topic string, partition int32, key, value []byte, headers []kgo.RecordHeader, at window.Instant) *kgo.Record {
	l := d.topic(topic)
	rec := &kgo.Record{Topic: topic, Key: slices.Clone(key), Value: slices.Clone(value), Headers: slices.Clone(headers), Timestamp: time.UnixMilli(int64(at)).UTC(), LeaderEpoch: -1}
	if partition < 0 {
		partition = int32(l.spread.Partition(rec, len(l.parts)))
	}
	if int(partition) >= len(l.parts) {
		d.t.Fatalf("partition %d of topic %q does not exist: it has %d", partition, topic, len(l.parts))
	}
	rec.Partition, rec.Offset = partition, int64(len(l.parts[partition]))
	l.parts[partition] = append(l.parts[partition], rec)
	l.order = append(l.order, rec)
	return rec
}

// deliver gives a record to the task that reads it, if one does.
func (d *Driver) deliver(rec *kgo.Record) {
	for _, r := range d.tasks {
		if r.id.Partition == rec.Partition && slices.Contains(r.program.Sub.Sources, rec.Topic) {
			r.task.Add(rec.Topic, []*kgo.Record{rec})
		}
	}
}

// output is what tasks write to.
type output struct{ d *Driver }

func (o output) Send(m *task.Message) error {
	d := o.d
	if cause := d.refused[m.Topic]; cause != nil {
		for _, r := range d.tasks {
			if r.task != nil && slices.ContainsFunc(r.program.Sub.Nodes, func(n topology.NodeID) bool { return r.program.Topology.Nodes[n].Label == m.Operator }) {
				copied := *m
				return r.task.ProductionFailed(&copied, fmt.Errorf("the broker refused the record: %w", cause))
			}
		}
	}
	d.deliver(d.append(m.Topic, m.Partition, m.Key, m.Value, m.Headers, m.Time))
	return nil
}

func (o output) Partitions(topic string) (int32, error) { return o.d.partitions(topic), nil }
