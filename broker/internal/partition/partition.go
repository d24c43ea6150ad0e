package partition

import (
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/producer"
	"github.com/millrace/millrace/broker/internal/storage"
)

// Partition is one partition on this broker. All methods may be called
// concurrently.
type Partition struct{}

// Open opens or begins the partition in cfg.Dir. It is neither leader nor
// follower until told so.
func Open(cfg Config) (*Partition, error) { panic("being written") }

// Name returns the topic and number.
func (p *Partition) Name() ident.TopicPartition { panic("being written") }

// TopicID returns the id of the topic.
func (p *Partition) TopicID() ident.TopicID { panic("being written") }

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
// The error wraps ErrStorage.
func (p *Partition) BecomeLeader(l Leadership) error { panic("being written") }

// Resign ends leadership. Appends that wait fail with ErrNotLeader.
func (p *Partition) Resign() { panic("being written") }

// SetSettings replaces the settings.
func (p *Partition) SetSettings(s Settings) { panic("being written") }

// Acks is what an append waits for.
type Acks int16

// The values of Kafka's protocol.
const (
	AcksNone   Acks = 0  // nothing
	AcksLeader Acks = 1  // the leader has the records safe
	AcksAll    Acks = -1 // every in-sync replica has
)

// Origin says who wrote a batch.
type Origin int8

const (
	// FromClient is a Produce request: exactly one batch, all checks.
	FromClient Origin = iota
	// FromBroker is a coordinator of this broker: any number of batches
	// without a producer id, of whose records nothing is checked.
	FromBroker
)

// AppendRequest is a write.
type AppendRequest struct {
	// Batches is the record bytes. They are changed in place, and not used
	// any more when Append returns.
	Batches []byte
	Acks    Acks
	Origin  Origin
	// Epoch is the leader epoch that the writer relies on; use NoLeaderEpoch
	// for none.
	Epoch ident.LeaderEpoch
}

// AppendResult is how a write ended.
type AppendResult struct {
	// Err is nil when the write is acknowledged as asked. The other fields are
	// set as far as they are known also when it is not.
	Err error
	// Base is the offset of the first record, NoOffset when nothing was
	// written; End is the offset after the last.
	Base, End ident.Offset
	// AppendTime is the broker's time in milliseconds when the topic has
	// log-append time, else batch.NoTimestamp.
	AppendTime int64
	// LogStart is the start of the log.
	LogStart ident.Offset
	// Duplicate says that the batch was written before, at Base.
	Duplicate bool
}

// Append checks and writes batches and then waits without a goroutine: done is
// called exactly once, when the acknowledgement that was asked for is there, or
// cannot come any more. It is called on any goroutine, possibly before Append
// returns, without locks held; it must not block.
//
// Appends of one goroutine are written in the order of their calls. The
// returned Wait can give up waiting; it is nil when done was called already.
func (p *Partition) Append(r AppendRequest, done func(AppendResult)) *Wait { panic("being written") }

// Wait is an append that is written and not acknowledged yet.
type Wait struct{}

// Cancel calls done with err now, unless it was called or is being called. It
// reports whether it did. The written records stay. A nil Wait does nothing.
func (w *Wait) Cancel(err error) bool { panic("being written") }

// Isolation is how far a reader may see.
type Isolation int8

const (
	// ReadUncommitted sees up to the high watermark.
	ReadUncommitted Isolation = iota
	// ReadCommitted sees up to the last stable offset.
	ReadCommitted
	// ReadReplica sees up to the end of the log, as followers do.
	ReadReplica
)

// ReadRequest asks for records.
type ReadRequest struct {
	From      ident.Offset
	Isolation Isolation
	// BytesMax bounds the answer; with AtLeastOne a first batch that is larger
	// is returned nevertheless.
	BytesMax   int
	AtLeastOne bool
	// Epoch is the reader's idea of the leader epoch, NoLeaderEpoch for none.
	Epoch ident.LeaderEpoch
}

// Marks are the offsets that every answer carries.
type Marks struct {
	// Start is the first offset that may be read, End the end of the log.
	Start, End ident.Offset
	// HighWatermark is the end of what is safe on all in-sync replicas.
	HighWatermark ident.Offset
	// LastStable is the end of what lies before the first open transaction; it
	// is never above HighWatermark.
	LastStable ident.Offset
}

// ReadResult is what a read found.
type ReadResult struct {
	Marks
	// Records are whole batches; the first may begin below From. The caller
	// closes it.
	Records storage.Chunk
}

// Read returns records that are there; it never waits. Errors are
// ErrNotLeader, EpochError, storage.OutOfRangeError (the marks are set then)
// and ErrStorage.
func (p *Partition) Read(r ReadRequest) (ReadResult, error) { panic("being written") }

// Marks returns the offsets.
func (p *Partition) Marks() Marks { panic("being written") }

// CheckLeader returns nil when this broker leads the partition and epoch is
// its epoch or NoLeaderEpoch; else ErrNotLeader, EpochError, ErrStorage,
// ErrClosed or ErrDeleted.
func (p *Partition) CheckLeader(epoch ident.LeaderEpoch) error { panic("being written") }

// LeaderEpoch returns the epoch of the present leader, NoLeaderEpoch before
// the first.
func (p *Partition) LeaderEpoch() ident.LeaderEpoch { panic("being written") }

// OffsetForTime returns the first record with a time of at least ms that the
// isolation lets the reader see; ok is false when there is none.
func (p *Partition) OffsetForTime(ms int64, iso Isolation) (s storage.Stamp, ok bool, err error) {
	panic("being written")
}

// MaxTimestamp returns the first record that has the highest time, ok is false
// when there is none.
func (p *Partition) MaxTimestamp(iso Isolation) (s storage.Stamp, ok bool, err error) {
	panic("being written")
}

// EpochAt returns the leader epoch of the record at offset o, which
// ListOffsets answers with; NoLeaderEpoch when the log cannot say.
func (p *Partition) EpochAt(o ident.Offset) ident.LeaderEpoch { panic("being written") }

// EndOffsetForEpoch returns the largest epoch not above the one asked for and
// where it ends; NoLeaderEpoch and NoOffset when the log cannot say.
func (p *Partition) EndOffsetForEpoch(epoch ident.LeaderEpoch) (ident.LeaderEpoch, ident.Offset) {
	panic("being written")
}

// DeleteRecords makes before the start of the log; NoOffset stands for the high
// watermark. It returns the new start once that is durable, so it blocks for
// the disk. An offset above the high watermark is a storage.OutOfRangeError.
func (p *Partition) DeleteRecords(before ident.Offset) (ident.Offset, error) { panic("being written") }

// Replay calls f with every batch from offset from on up to the end of the log.
// The view is valid until f returns.
func (p *Partition) Replay(from ident.Offset, f func(batch.View) error) error {
	panic("being written")
}

// Producers lists the producers that the partition remembers, by id.
func (p *Partition) Producers() []producer.Producer { panic("being written") }

// Watcher is told when there may be more to read. It watches one partition.
type Watcher struct{}

// NewWatcher returns a watcher that calls f. f is called after the high
// watermark, the end or the start of the log moved, leadership ended, or the
// partition went away; on the goroutine that did it, without locks held, so it
// must not block. It may be called once more after Unwatch returned, and
// concurrently with itself.
func NewWatcher(f func()) *Watcher { panic("being written") }

// Watch adds a watcher that watches nothing yet. To miss nothing, watch first
// and read then.
func (p *Partition) Watch(w *Watcher) { panic("being written") }

// Unwatch removes the watcher, which may be used again then. Removing one that
// is not there does nothing.
func (p *Partition) Unwatch(w *Watcher) { panic("being written") }

// ApplyRetention deletes old segments and forgets idle producers.
func (p *Partition) ApplyRetention(now time.Time) (storage.Deleted, error) { panic("being written") }

// RecoveryPoint returns the offset below which everything is durable.
func (p *Partition) RecoveryPoint() ident.Offset { panic("being written") }

// Size returns the bytes of all segments.
func (p *Partition) Size() int64 { panic("being written") }

// Reopen recovers a partition whose disk failed. What was not durable is cut
// off. It leads nothing then, until BecomeLeader.
func (p *Partition) Reopen() error { panic("being written") }

// Close fails what waits with ErrClosed, flushes and closes. An error means
// that the partition must not be opened as clean.
func (p *Partition) Close() error { panic("being written") }

// CloseForDelete is Close before the folder is removed: what waits fails with
// ErrDeleted and nothing is flushed.
func (p *Partition) CloseForDelete() { panic("being written") }

// Syncers is a pool of goroutines that flush partitions, those with the
// oldest waiter first.
type Syncers struct{}

// NewSyncers starts n syncers.
func NewSyncers(n int) *Syncers { panic("being written") }

// Close waits for the flushes that run, and ends the goroutines. Partitions
// must be closed before.
func (s *Syncers) Close() { panic("being written") }
