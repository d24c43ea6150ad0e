package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
)

// Config says where partitions lie and what they work with.
type Config struct {
	// Folder has been marked with the cluster's id. It belongs to the manager
	// when Open returned without an error.
	Folder *Folder
	// Codecs are the broker's compressors.
	Codecs *batch.Codecs
	// RetentionInterval is the time between two searches for old segments
	// (log.retention.check.interval.ms). 0 means 5 minutes, negative never.
	RetentionInterval time.Duration
	// CheckpointInterval is the time between two writes of the checkpoints.
	// 0 means a second.
	CheckpointInterval time.Duration
	// Syncers is how many partitions are flushed at once. 0 means 16.
	Syncers int
	// Now is the clock.
	Now func() time.Time
	// Jitter returns a random duration in [0, max); nil means none.
	Jitter func(max time.Duration) time.Duration
	// Logger is told what no caller is; nil discards.
	Logger *slog.Logger
	// Failed, if not nil, is called when the disk of a partition failed, before
	// those who wait for the partition are told. It must not block.
	Failed func(p *partition.Partition)
	// Recovered, if not nil, is called after a partition whose disk had failed
	// is usable again. It leads nothing then: give it its leadership back with
	// BecomeLeader. It runs on a goroutine of its own.
	Recovered func(p *partition.Partition)
}

const (
	retentionIntervalDefault  = 5 * time.Minute
	checkpointIntervalDefault = time.Second
	syncersDefault            = 16
	// openAtOnce is how many partitions are opened or closed in parallel.
	openAtOnce = 16
)

func (c *Config) validate() error {
	switch {
	case c.Folder == nil:
		return errors.New("logs: Config.Folder is missing")
	case !c.Folder.marked:
		return errors.New("logs: Config.Folder has no cluster id: call SetClusterID")
	case c.Codecs == nil:
		return errors.New("logs: Config.Codecs is missing")
	case c.Now == nil:
		return errors.New("logs: Config.Now is missing")
	}
	if c.RetentionInterval == 0 {
		c.RetentionInterval = retentionIntervalDefault
	}
	if c.CheckpointInterval <= 0 {
		c.CheckpointInterval = checkpointIntervalDefault
	}
	if c.Syncers <= 0 {
		c.Syncers = syncersDefault
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Manager holds the partitions of a broker. All methods may be called
// concurrently.
type Manager struct {
	cfg         Config
	fs          disk.FS
	dir         string
	syncers     *partition.Syncers
	checkpoints checkpoints

	// ctx ends, and work is waited for, when the manager closes.
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
	// checkpointNow wakes the loop before its time.
	checkpointNow chan struct{}

	mu     sync.Mutex
	slots  map[ident.TopicPartition]*slot
	closed bool
}

// slot is the place of a partition. Its lock is held while the partition is
// opened, closed or removed, so that one of a name is not opened twice.
type slot struct {
	changing sync.Mutex
	p        atomic.Pointer[partition.Partition]
}

// Open opens all partitions in the folder, in parallel. A partition that is
// damaged does not keep the others from being opened: it is there and answers
// partition.ErrStorage. All have default settings and lead nothing until
// told so by Create.
func Open(cfg Config) (*Manager, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Manager{
		cfg:           cfg,
		fs:            cfg.Folder.fs,
		dir:           cfg.Folder.dir,
		ctx:           ctx,
		stop:          stop,
		checkpointNow: make(chan struct{}, 1),
		slots:         make(map[ident.TopicPartition]*slot),
	}
	m.checkpoints = checkpoints{fs: m.fs, dir: m.dir, log: cfg.Logger, gather: m.gather, written: make(map[string][]byte)}
	m.syncers = partition.NewSyncers(cfg.Syncers)
	if err := m.openAll(); err != nil {
		stop()
		m.syncers.Close()
		return nil, fmt.Errorf("opening logs in %s: %w", m.dir, err)
	}
	m.work.Go(m.checkpointLoop)
	if cfg.RetentionInterval > 0 {
		m.work.Go(m.retentionLoop)
	}
	return m, nil
}

// gather returns what is to be checkpointed.
func (m *Manager) gather() map[ident.TopicPartition]partition.Checkpoint {
	all := m.Partitions()
	out := make(map[ident.TopicPartition]partition.Checkpoint, len(all))
	for _, p := range all {
		out[p.Name()] = p.Checkpoint()
	}
	return out
}

// slot returns the place of tp, made if it is not there.
func (m *Manager) slot(tp ident.TopicPartition) (*slot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	s, ok := m.slots[tp]
	if !ok {
		s = &slot{}
		m.slots[tp] = s
	}
	return s, nil
}

// Create returns the partition with the settings applied, and makes it if it
// is not there. The error is a TopicIDError when the folder is that of an older
// topic of the same name: SetAside it and call Create again.
func (m *Manager) Create(tp ident.TopicPartition, id ident.TopicID, s partition.Settings) (*partition.Partition, error) {
	slot, err := m.slot(tp)
	if err != nil {
		return nil, err
	}
	slot.changing.Lock()
	defer slot.changing.Unlock()
	if p := slot.p.Load(); p != nil {
		if p.TopicID() != id {
			return nil, &TopicIDError{Partition: tp, Have: p.TopicID(), Want: id}
		}
		p.SetSettings(s)
		return p, nil
	}
	p, err := m.begin(tp, id, s)
	if err != nil {
		return nil, fmt.Errorf("creating partition %v: %w", tp, err)
	}
	slot.p.Store(p)
	return p, nil
}

// begin makes a partition. Its folder is marked before anything else is in it,
// as only marked folders are looked at by the next start.
func (m *Manager) begin(tp ident.TopicPartition, id ident.TopicID, s partition.Settings) (*partition.Partition, error) {
	if err := m.checkpoints.forget(tp); err != nil {
		return nil, err
	}
	dir := m.path(tp)
	if err := m.fs.MkdirAll(dir); err != nil {
		return nil, err
	}
	if err := writePartitionMeta(m.fs, dir, id); err != nil {
		return nil, err
	}
	if err := m.fs.SyncDir(m.dir); err != nil {
		return nil, fmt.Errorf("syncing folder %s: %w", m.dir, err)
	}
	return partition.Open(m.partitionConfig(tp, id, s, partition.Checkpoint{}, false))
}

func (m *Manager) path(tp ident.TopicPartition) string { return m.dir + "/" + tp.String() }

func (m *Manager) partitionConfig(tp ident.TopicPartition, id ident.TopicID, s partition.Settings, c partition.Checkpoint, clean bool) partition.Config {
	return partition.Config{
		Partition:     tp,
		TopicID:       id,
		Self:          m.cfg.Folder.node,
		FS:            m.fs,
		Dir:           m.path(tp),
		Codecs:        m.cfg.Codecs,
		Settings:      s,
		Start:         c.Start,
		RecoveryPoint: c.RecoveryPoint,
		HighWatermark: c.HighWatermark,
		Clean:         clean,
		Syncers:       m.syncers,
		Now:           m.cfg.Now,
		Jitter:        m.cfg.Jitter,
		Logger:        m.cfg.Logger,
		Hooks: partition.Hooks{
			Rolled:             m.checkpointSoon,
			LowerRecoveryPoint: m.checkpoints.write,
			StartAdvanced:      m.checkpoints.write,
			Failed:             m.failed,
		},
	}
}

// Get returns a partition that is there.
func (m *Manager) Get(tp ident.TopicPartition) (*partition.Partition, bool) {
	m.mu.Lock()
	s, ok := m.slots[tp]
	m.mu.Unlock()
	if !ok {
		return nil, false
	}
	p := s.p.Load()
	return p, p != nil
}

// Partitions returns all partitions by topic and number. Those that metadata
// does not know are leftovers of topics that were deleted while the broker was
// away, and are to be set aside.
func (m *Manager) Partitions() []*partition.Partition {
	m.mu.Lock()
	out := make([]*partition.Partition, 0, len(m.slots))
	for _, s := range m.slots {
		if p := s.p.Load(); p != nil {
			out = append(out, p)
		}
	}
	m.mu.Unlock()
	slices.SortFunc(out, func(a, b *partition.Partition) int { return comparePartitions(a.Name(), b.Name()) })
	return out
}

// SetSettings replaces the settings of a partition that is there.
func (m *Manager) SetSettings(tp ident.TopicPartition, s partition.Settings) {
	if p, ok := m.Get(tp); ok {
		p.SetSettings(s)
	}
}

// Delete closes a partition and removes its folder, which is renamed first so
// that a crash leaves no half of it under its name. One that is not there is no
// error.
func (m *Manager) Delete(tp ident.TopicPartition) error {
	err := m.takeOut(tp, func(p *partition.Partition) error {
		p.CloseForDelete()
		grave := m.dir + "/" + graveName(tp, p.TopicID())
		if err := m.fs.RemoveAll(grave); err != nil {
			return err
		}
		if err := m.rename(m.path(tp), grave); err != nil {
			return err
		}
		m.cfg.Logger.Debug("deleted partition", "partition", tp.String())
		return m.fs.RemoveAll(grave)
	})
	if err != nil {
		return fmt.Errorf("deleting partition %v: %w", tp, err)
	}
	return nil
}

// SetAside closes a partition that nobody asks for, and renames its folder to
// one that is not looked at any more, as Kafka does with stray logs: to lack
// the metadata of a partition is no reason to throw its records away. One that
// is not there is no error.
func (m *Manager) SetAside(tp ident.TopicPartition) error {
	err := m.takeOut(tp, func(p *partition.Partition) error {
		_ = p.Close() // a partition off line fails to, and has nothing to lose
		stray := m.dir + "/" + strayName(tp, p.TopicID())
		if err := m.rename(m.path(tp), stray); err != nil {
			return err
		}
		m.cfg.Logger.Warn("set a partition aside that the metadata does not know; remove its folder when nobody needs it",
			"partition", tp.String(), "topic_id", p.TopicID().String(), "folder", stray)
		return nil
	})
	if err != nil {
		return fmt.Errorf("setting partition %v aside: %w", tp, err)
	}
	return nil
}

// takeOut takes a partition out of its place and has do close it and clear its
// folder away.
func (m *Manager) takeOut(tp ident.TopicPartition, do func(*partition.Partition) error) error {
	if _, ok := m.Get(tp); !ok {
		return nil
	}
	slot, err := m.slot(tp)
	if err != nil {
		return err
	}
	slot.changing.Lock()
	defer slot.changing.Unlock()
	p := slot.p.Swap(nil)
	if p == nil {
		return nil
	}
	return do(p)
}

// rename renames a folder of the data folder, durably.
func (m *Manager) rename(from, to string) error {
	if err := m.fs.Rename(from, to); err != nil {
		return err
	}
	return m.fs.SyncDir(m.dir)
}

// Close closes all partitions, writes the checkpoints and, if all went well, a
// mark that lets the next start skip recovery; then it unlocks the folder.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.work.Wait()

	err := m.closeAll()
	m.syncers.Close()
	err = errors.Join(err, m.checkpoints.write())
	if err == nil {
		err = writeCleanMark(m.fs, m.dir)
	}
	if err := errors.Join(err, m.cfg.Folder.Close()); err != nil {
		return fmt.Errorf("closing logs: %w", err)
	}
	return nil
}

func (m *Manager) closeAll() error {
	all := m.Partitions()
	errs := make([]error, len(all))
	var g errgroup.Group
	g.SetLimit(openAtOnce)
	for i, p := range all {
		g.Go(func() error { errs[i] = p.Close(); return nil })
	}
	_ = g.Wait()
	return errors.Join(errs...)
}
