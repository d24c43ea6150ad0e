package partition

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/producer"
	"github.com/millrace/millrace/broker/internal/replica"
	"github.com/millrace/millrace/broker/internal/storage"
)

// Partition is one partition on this broker. All methods may be called
// concurrently.
type Partition struct {
	cfg      Config
	settings atomic.Pointer[Settings]
	sync     syncEntry

	// files is held for writing while the log is replaced or given up, and for
	// reading by what changes files of the folder by their names without mu: the
	// folder of a deleted partition may be that of a new one at once.
	files sync.RWMutex

	mu        sync.Mutex
	gone      error        // why nothing works any more, or nil
	log       *storage.Log // nil before it was opened
	opened    bool         // log was open once
	replica   *replica.Replica
	producers *producer.State
	effects   []replica.Effect // reused by step

	waitLeader waitQueue // for the leader's own log
	waitAll    waitQueue // for the high watermark
	watchers   watcherList

	unflushed  int64       // records since the last flush was asked for
	flushTimer *time.Timer // runs while records wait for FlushAge
	// snapshotAt is where the last producer snapshot was taken, and
	// snapshotBytes what was appended since, which snapshotEvery bounds; interimAt is where
	// the last one was that is not of a segment. NoOffset stands for none.
	snapshotAt, interimAt        ident.Offset
	snapshotBytes, snapshotEvery int64
	// securedAt is the last that is durable for the sake of a deletion.
	// securing is held while one is made so.
	securedAt ident.Offset
	securing  sync.Mutex
	// rolledAt is where the log began a segment whose snapshot is to be taken,
	// else NoOffset. The log sets it, with the lock held or not.
	rolledAt atomic.Int64

	published published
}

// Open opens or begins the partition in cfg.Dir. It is neither leader nor
// follower until told so.
func Open(cfg Config) (*Partition, error) {
	p, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if err := p.open(cfg.Start, cfg.RecoveryPoint, cfg.HighWatermark, cfg.Clean); err != nil {
		return nil, fmt.Errorf("opening partition %v: %w", cfg.Partition, err)
	}
	return p, nil
}

// NewOffline returns a partition that could not be opened because of cause. It
// answers ErrStorage until Reopen succeeds.
func NewOffline(cfg Config, cause error) (*Partition, error) {
	p, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	// Its checkpoint stays as it was.
	p.replica = replica.New(replica.Config{
		Self:          cfg.Self,
		Start:         cfg.Start,
		End:           max(cfg.Start, cfg.RecoveryPoint),
		FlushedEnd:    cfg.RecoveryPoint,
		HighWatermark: cfg.HighWatermark,
	})
	p.published.update(p.replica)
	p.producers = &producer.State{}
	p.gone = storageError("opening", cause)
	return p, nil
}

func prepare(cfg Config) (*Partition, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Partition{cfg: cfg, snapshotAt: ident.NoOffset, interimAt: ident.NoOffset, securedAt: ident.NoOffset, snapshotEvery: snapshotEveryBytes}
	p.rolledAt.Store(int64(ident.NoOffset))
	p.published.ceiling.Store(noCeiling)
	p.sync.flush = p.flush
	s := cfg.Settings
	p.settings.Store(&s)
	return p, nil
}

// Name returns the topic and number.
func (p *Partition) Name() ident.TopicPartition { return p.cfg.Partition }

// TopicID returns the id of the topic.
func (p *Partition) TopicID() ident.TopicID { return p.cfg.TopicID }

// Dir returns the folder.
func (p *Partition) Dir() string { return p.cfg.Dir }

// Err returns why the partition does not work, or nil: ErrStorage, ErrClosed
// or ErrDeleted.
func (p *Partition) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// Leadership is what the cluster decided about a partition.
type Leadership struct {
	// Epoch counts the leaders, PartitionEpoch all changes of the rest.
	Epoch          ident.LeaderEpoch
	PartitionEpoch int32
	// InSync are the replicas that acknowledge an acks=all append, this
	// broker included.
	InSync []ident.BrokerID
}

// BecomeLeader makes this broker the leader, or changes the in-sync set of
// the partition that it leads. An epoch older than the present one is ignored.
// The error is ErrStorage, ErrClosed or ErrDeleted when the partition does not
// work.
func (p *Partition) BecomeLeader(l Leadership) error {
	if !slices.Contains(l.InSync, p.cfg.Self) {
		return fmt.Errorf("making broker %d the leader of %v: the in-sync set %v lacks it", p.cfg.Self, p.Name(), l.InSync)
	}
	return p.withCalls(func(c *calls) error {
		if p.gone != nil {
			return p.gone
		}
		if l.Epoch >= p.replica.Epoch() {
			p.log.AssignEpoch(l.Epoch)
		}
		p.step(c, replica.BecomeLeader{Epoch: l.Epoch, PartitionEpoch: l.PartitionEpoch, InSync: l.InSync})
		if p.settings.Load().durable() && p.replica.FlushedEnd() < p.replica.End() {
			// Nobody waits for the end of this log, but readers do.
			p.requestFlush()
		}
		return nil
	})
}

// Resign ends leadership. Appends that wait fail with ErrNotLeader.
func (p *Partition) Resign() {
	_ = p.withCalls(func(c *calls) error {
		p.step(c, replica.Resign{})
		return nil
	})
}

// SetSettings replaces the settings. Zero fields take defaults.
func (p *Partition) SetSettings(s Settings) {
	s = s.withDefaults()
	_ = p.withCalls(func(c *calls) error {
		p.settings.Store(&s)
		if p.gone != nil {
			return nil
		}
		p.log.SetSettings(s.Log)
		p.step(c, replica.DurabilityChanged{Durable: s.durable()})
		if s.durable() {
			// What was written before the change has waiters too, now.
			p.requestFlush()
		}
		return nil
	})
}

// calls collects what is to be called when the lock is released.
type calls struct {
	done   []*Wait
	notify []func()
	failed error // for Hooks.Failed
}

// withCalls runs f with the lock held, and then, without it, what f collected.
func (p *Partition) withCalls(f func(c *calls) error) error {
	var c calls
	p.mu.Lock()
	err := f(&c)
	p.mu.Unlock()
	p.run(&c)
	return err
}

// run tells of a failure first: whoever keeps state that rests on the log must
// know before those who waited for the log are answered.
func (p *Partition) run(c *calls) {
	if c.failed != nil && p.cfg.Hooks.Failed != nil {
		p.cfg.Hooks.Failed(p, c.failed)
	}
	for _, w := range c.done {
		w.done(w.result)
	}
	for _, notify := range c.notify {
		notify()
	}
}

// step feeds the machine and does what it says. The lock is held.
func (p *Partition) step(c *calls, e replica.Event) {
	p.effects = p.replica.Step(p.cfg.Now(), e, p.effects[:0])
	for _, effect := range p.effects {
		switch effect := effect.(type) {
		case replica.LeaderSafe:
			p.waitLeader.release(effect.End, c)
		case replica.HighWatermarkMoved:
			p.releaseAll(effect.Offset, c)
			p.watchers.notify(c)
		case replica.RoleChanged:
			// Those that wait for another leadership can rely on nothing.
			p.failWaits(c, ErrNotLeader)
			p.watchers.notify(c)
		default:
			panic(fmt.Sprintf("partition: effect of unknown type %T", effect))
		}
	}
	p.published.update(p.replica)
}

// releaseAll answers the acks=all appends below the high watermark.
func (p *Partition) releaseAll(highWatermark ident.Offset, c *calls) {
	first := len(c.done)
	p.waitAll.release(highWatermark, c)
	if !p.enoughInSync() {
		for _, w := range c.done[first:] {
			w.result.Err = ErrNotEnoughReplicasAfterAppend
		}
	}
}

func (p *Partition) enoughInSync() bool {
	return len(p.replica.InSync()) >= p.settings.Load().InSyncMin
}

// failWaits ends all waiting with err. The lock is held.
func (p *Partition) failWaits(c *calls, err error) {
	p.waitLeader.fail(err, c)
	p.waitAll.fail(err, c)
}

// checkLeader is CheckLeader with the lock held.
func (p *Partition) checkLeader(epoch ident.LeaderEpoch) error {
	switch current := p.replica.Epoch(); {
	case p.gone != nil:
		return p.gone
	case p.replica.Role() != replica.Leader:
		return ErrNotLeader
	case epoch != ident.NoLeaderEpoch && epoch != current:
		return &EpochError{Asked: epoch, Current: current}
	}
	return nil
}

// CheckLeader returns nil when this broker leads the partition and epoch is
// its epoch or NoLeaderEpoch; else ErrNotLeader, EpochError, ErrStorage,
// ErrClosed or ErrDeleted.
func (p *Partition) CheckLeader(epoch ident.LeaderEpoch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checkLeader(epoch)
}

// LeaderEpoch returns the epoch of the present leader, NoLeaderEpoch before
// the first.
func (p *Partition) LeaderEpoch() ident.LeaderEpoch {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replica.Epoch()
}

// Producers lists the producers that the partition remembers, by id.
func (p *Partition) Producers() []producer.Producer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.producers.Producers()
}
