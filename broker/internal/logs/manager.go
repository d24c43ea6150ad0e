package logs

import (
	"log/slog"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
)

// Folder is a broker's data folder, locked and checked.
type Folder struct{}

// OpenFolder creates the folder if it does not exist, locks it, and checks that
// it is one of broker node. Errors are LockedError, FormatError, NodeError,
// MetaError and those of the disk. The folder is unlocked by [Manager.Close],
// or by Close if no manager took it over.
func OpenFolder(fs disk.FS, dir string, node ident.BrokerID) (*Folder, error) {
	panic("being written")
}

// ClusterID returns the id of the cluster that the folder belongs to; ok is
// false when it is new.
func (f *Folder) ClusterID() (id string, ok bool) { panic("being written") }

// SetClusterID marks a new folder, durably, and checks one that is marked: the
// error is a ClusterError then.
func (f *Folder) SetClusterID(id string) error { panic("being written") }

// Close unlocks the folder.
func (f *Folder) Close() error { panic("being written") }

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
	// Recovered, if not nil, is called after a partition whose disk had failed
	// is usable again. It leads nothing then: give it its leadership back with
	// BecomeLeader. It runs on a goroutine of its own.
	Recovered func(p *partition.Partition)
}

// Manager holds the partitions of a broker. All methods may be called
// concurrently.
type Manager struct{}

// Open opens all partitions in the folder, in parallel. A partition that is
// damaged does not keep the others from being opened: it is there and answers
// partition.ErrStorage. All have default settings and lead nothing until
// told so by Create.
func Open(cfg Config) (*Manager, error) { panic("being written") }

// Create returns the partition with the settings applied, and makes it if it
// is not there. The error is a TopicIDError when the folder is that of an older
// topic of the same name: Delete it and call Create again.
func (m *Manager) Create(tp ident.TopicPartition, id ident.TopicID, s partition.Settings) (*partition.Partition, error) {
	panic("being written")
}

// Get returns a partition that is there.
func (m *Manager) Get(tp ident.TopicPartition) (*partition.Partition, bool) { panic("being written") }

// Partitions returns all partitions by topic and number. Those that metadata
// does not know are leftovers of topics that were deleted while the broker was
// away, and are to be deleted.
func (m *Manager) Partitions() []*partition.Partition { panic("being written") }

// SetSettings replaces the settings of a partition that is there.
func (m *Manager) SetSettings(tp ident.TopicPartition, s partition.Settings) { panic("being written") }

// Delete closes a partition and removes its folder, which is renamed first so
// that a crash leaves no half of it under its name. One that is not there is no
// error.
func (m *Manager) Delete(tp ident.TopicPartition) error { panic("being written") }

// Close closes all partitions, writes the checkpoints and, if all went well, a
// mark that lets the next start skip recovery; then it unlocks the folder.
func (m *Manager) Close() error { panic("being written") }
