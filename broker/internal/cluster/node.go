// Package cluster keeps the metadata of the cluster: its brokers, topics,
// partitions, settings and blocks of producer ids.
//
// The metadata is a state machine that is replicated with raft. A change is a
// command in the raft log (docs/format/metadata-log.md); applying a command to
// an [Image] gives the next Image and a result for each item of the command.
// Applying is a pure function: whatever a command needs to know of the world,
// such as the time or new ids, was put into it by the broker that proposed
// it. So all brokers come to the same image, and a snapshot of it has the same
// bytes on each.
//
// Every broker holds the whole image and answers from it without asking anyone.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/settings"
)

// Config is what a [Node] needs. All fields but those marked optional are
// required.
type Config struct {
	// FS holds the metadata log and its snapshots, in the folder Dir, which
	// is made if it is missing. One node at a time may have it open.
	FS  disk.FS
	Dir string
	// Broker is the id of this broker.
	Broker ident.BrokerID
	// ClusterID is the id that the cluster must have; a new cluster takes it.
	// Optional: a new cluster takes a random one.
	ClusterID string
	// Used says that the metadata was made before: a folder without any is
	// ErrLost then, and no new cluster is made.
	Used bool
	// Settings are this broker's; they give the topics' defaults.
	Settings *settings.Broker
	// Policy may refuse topics. Optional.
	Policy TopicPolicy
	// Now is the wall clock.
	Now func() time.Time
	// Rand is the source of new ids. It must be safe for concurrent use.
	Rand io.Reader
	// Log receives what happens to the metadata and to raft.
	Log *slog.Logger
	// Election is raft's time-out, at least 5 ms. Optional: 10 ms, which is
	// right for a lone voter.
	Election time.Duration
}

// TopicPolicy decides whether a topic may be made, besides what the broker
// itself demands. A non-nil error refuses the topic with POLICY_VIOLATION, and
// its text is what the client reads. It may be called concurrently.
type TopicPolicy func(name string, partitions int, replicas int, settings map[string]string) error

// Node is this broker's part in the cluster's metadata. Its methods may be
// called concurrently.
type Node struct {
	cfg      Config
	log      *slog.Logger
	store    *store
	raft     *raft.Raft
	machine  *machine
	notifier *notifier
	failed   chan struct{} // closed when the node cannot go on, or is closed

	watching sync.WaitGroup
	growing  sync.Mutex // held while partitions are planned and added

	mu     sync.Mutex
	err    error // why the node cannot go on
	closed bool
}

// raft's intervals that have no influence on the start.
const (
	raftCommitTimeout     = 5 * time.Millisecond
	raftSnapshotInterval  = 30 * time.Second
	raftSnapshotThreshold = 4096 // entries since the last snapshot
	raftTrailingEntries   = 1024 // kept after a snapshot, for slow followers
	defaultElection       = 10 * time.Millisecond
	openTimeout           = 30 * time.Second
)

// Open starts the node and returns when it leads and its image holds all that
// was committed. It fails with [ErrWrongCluster] or [ErrWrongBroker] when the
// folder belongs to another, and with disk.ErrLocked when it is in use.
func Open(cfg Config) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, log: cfg.Log, failed: make(chan struct{})}
	store, err := openStore(cfg.FS, cfg.Dir, cfg.Log, runtime.Goexit)
	if err != nil {
		return nil, err
	}
	n.store = store
	n.machine = &machine{failed: n.fail}
	n.machine.image.Store(new(Image))
	n.notifier = newNotifier(n.Image)
	n.machine.changed = n.notifier.changed
	go n.notifier.run()
	n.watching.Go(n.watchDisk)
	if err := n.start(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	n.store.fs.open.Store(true)
	return n, nil
}

// check refuses what cannot work, and fills in the defaults.
func (cfg *Config) check() error {
	switch {
	case cfg.FS == nil, cfg.Dir == "", cfg.Settings == nil, cfg.Now == nil, cfg.Rand == nil, cfg.Log == nil:
		return errors.New("cluster: FS, Dir, Settings, Now, Rand and Log must be given")
	case cfg.Broker < 0:
		return fmt.Errorf("cluster: broker id %d is negative", cfg.Broker)
	case cfg.Election == 0:
		cfg.Election = defaultElection
	}
	return nil
}

// start brings raft up, waits until it leads and checks whose folder it is.
func (n *Node) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	if err := n.expendable(n.startRaft); err != nil {
		return fmt.Errorf("starting the cluster metadata in %s: %w", n.cfg.Dir, cmp.Or(n.failure(), err))
	}
	servers := n.raft.GetConfiguration().Configuration().Servers
	if len(servers) != 1 || servers[0].ID != n.serverID() {
		return fmt.Errorf("%w: %s holds the metadata of %v, this is broker %d", ErrWrongBroker, n.cfg.Dir, servers, n.cfg.Broker)
	}
	if err := n.lead(ctx); err != nil {
		return fmt.Errorf("starting the cluster metadata in %s: %w", n.cfg.Dir, err)
	}
	switch id := n.Image().ClusterID(); {
	case id == "":
		return n.initialize(ctx)
	case n.cfg.ClusterID != "" && n.cfg.ClusterID != id:
		return fmt.Errorf("%w: %s belongs to cluster %q, and %q was asked for", ErrWrongCluster, n.cfg.Dir, id, n.cfg.ClusterID)
	}
	return nil
}

func (n *Node) serverID() raft.ServerID { return raft.ServerID(strconv.Itoa(int(n.cfg.Broker))) }

// startRaft makes a raft cluster of this broker alone, if there is none yet,
// and starts raft.
func (n *Node) startRaft() error {
	conf := raft.DefaultConfig()
	conf.LocalID = n.serverID()
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 2*n.cfg.Election, 2*n.cfg.Election, n.cfg.Election
	conf.CommitTimeout = raftCommitTimeout
	conf.SnapshotInterval, conf.SnapshotThreshold, conf.TrailingLogs = raftSnapshotInterval, raftSnapshotThreshold, raftTrailingEntries
	conf.Logger = raftLogger(n.log)
	conf.NoLegacyTelemetry = true

	// A lone voter talks to nobody: the transport has no peers to deliver to.
	address, transport := raft.NewInmemTransport(raft.ServerAddress(n.serverID()))
	snaps := snapshots{n.store}
	empty, err := snaps.emptied()
	if err != nil {
		return fmt.Errorf("looking for raft's state: %w", err)
	}
	switch {
	case empty && n.cfg.Used:
		return fmt.Errorf("%w: there is none", ErrLost)
	case !empty:
		if err := snaps.checkWhole(); err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
	default:
		voters := raft.Configuration{Servers: []raft.Server{{ID: conf.LocalID, Address: address}}}
		if err := raft.BootstrapCluster(conf, n.store, n.store, snaps, transport, voters); err != nil {
			return fmt.Errorf("making a new cluster: %w", err)
		}
	}
	r, err := raft.NewRaft(conf, n.machine, n.store, n.store, snaps, transport)
	if err != nil {
		return fmt.Errorf("starting raft: %w", err)
	}
	n.raft = r
	return n.campaign()
}

// campaign has this node stand for election at once. raft would first listen
// for a leader, for one to two time-outs, and a lone voter knows that there is
// none. Shortening the time-out makes raft look whether it has run out, which
// it has: nothing was ever heard.
func (n *Node) campaign() error {
	conf := n.raft.ReloadableConfig()
	conf.HeartbeatTimeout, conf.ElectionTimeout = n.cfg.Election, n.cfg.Election
	if err := n.raft.ReloadConfig(conf); err != nil {
		return fmt.Errorf("standing for election: %w", err)
	}
	return nil
}

// expendable runs f on a goroutine of its own, which the store may end when
// the disk fails.
func (n *Node) expendable(f func() error) error {
	err := errors.New("ended early")
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = f()
	}()
	<-done
	return n.store.check(err)
}

// lead waits until this node leads and has applied all that was committed.
func (n *Node) lead(ctx context.Context) error {
	for leads := n.raft.State() == raft.Leader; !leads; {
		select {
		case leads = <-n.raft.LeaderCh():
		case <-n.failed:
			return n.failure()
		case <-ctx.Done():
			return fmt.Errorf("no leader after %v", openTimeout)
		}
	}
	_, err := await(ctx, n, func() raft.Future { return n.raft.Barrier(0) })
	return errors.Join(err, n.failure())
}

// initialize gives a new cluster its id.
func (n *Node) initialize(ctx context.Context) error {
	id := n.cfg.ClusterID
	if id == "" {
		random, err := n.newID()
		if err != nil {
			return err
		}
		id = ident.TopicID(random).String() // Kafka writes cluster ids the same way
	}
	_, err := n.propose(ctx, &initCluster{clusterID: id})
	return err
}

// newID draws a random id (a version 4 UUID, as Kafka's ids are). Those that
// begin with '-' when printed are not taken, for they look like flags.
func (n *Node) newID() ([16]byte, error) {
	for {
		id, err := uuid.NewRandomFromReader(n.cfg.Rand)
		if err != nil {
			return id, fmt.Errorf("drawing an id: %w", err)
		}
		if ident.TopicID(id).String()[0] != '-' {
			return id, nil
		}
	}
}

// watchDisk makes the failure of the disk that of the node.
func (n *Node) watchDisk() {
	select {
	case <-n.store.fs.dead:
		n.fail(n.store.fs.failure())
	case <-n.failed:
	}
}

// fail says that the node cannot go on. Only the first reason counts.
func (n *Node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return
	}
	n.err = err
	if !errors.Is(err, ErrClosed) {
		n.log.Error("cluster metadata stopped", "error", err)
	}
	close(n.failed)
}

// failure says why the node cannot go on; nil while it can.
func (n *Node) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Failed is closed when the node cannot go on, because its disk failed, a newer
// release wrote its log, or it was closed; [Node.Err] says which. It then
// answers from the last image, and all changes fail.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Err says why the node cannot go on; nil while it can.
func (n *Node) Err() error { return n.failure() }

// Close stops the node and waits for all it started. Calls that wait for a
// commit fail with [ErrClosed]. Closing twice is no error.
func (n *Node) Close() error {
	n.mu.Lock()
	twice := n.closed
	n.closed = true
	n.mu.Unlock()
	if twice {
		return nil
	}
	n.fail(ErrClosed)
	close(n.store.fs.hurry)
	var errs []error
	if n.raft != nil {
		if err := n.raft.Shutdown().Error(); err != nil {
			errs = append(errs, fmt.Errorf("stopping raft: %w", err))
		}
	}
	n.watching.Wait()
	n.notifier.close()
	errs = append(errs, n.store.close())
	return errors.Join(errs...)
}

// Image returns the newest image.
func (n *Node) Image() *Image { return n.machine.image.Load() }

// Subscribe has f called with each change of the image, in order and never
// twice at a time, first with an empty image as old, before Subscribe returns.
// Changes that come while f runs are handed over as one. f may block; the calls
// that change metadata return only when all subscribers have seen their change,
// so f must make neither such calls nor subscriptions. The function returned
// ends the subscription; f does not run after it returned.
func (n *Node) Subscribe(f func(old, new *Image)) (cancel func()) { return n.notifier.subscribe(f) }
