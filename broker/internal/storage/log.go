package storage

import (
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
)

// Log is the log of one partition. All methods may be called concurrently.
// Methods that change the log wait for one another; reads wait for none.
type Log struct{}

// Recovered says what [Open] found and mended.
type Recovered struct {
	// SegmentsRead is the number of segments whose batches were checked.
	SegmentsRead int
	// CutBytes is how many bytes were cut off, and CutCause why; 0 and nil
	// when the log ended well.
	CutBytes int64
	CutCause error
	// Kept lists the files that hold cut bytes among which whole batches
	// were found.
	Kept []string
	// IndexesRebuilt is the number of index files that failed their check or
	// were missing.
	IndexesRebuilt int
}

// Open opens the log in cfg.Dir, or begins an empty one at offset cfg.Start.
// It recovers from a crash as the package doc says; the error is a
// [DamageError] when what was once durable is not there any more.
func Open(cfg Config) (*Log, Recovered, error) { panic("being written") }

// Appended says where batches went.
type Appended struct {
	// Base is the offset of the first record, and End the end of the log
	// after the last.
	Base, End ident.Offset
	// Bytes is the size of what was written.
	Bytes int64
}

// AppendAsLeader gives the batches the next offsets and the epoch, in place,
// and writes them. The batches must have been validated. They are not kept.
//
// Nothing is appended when it returns an error: a partial write is cut off.
// The error wraps [disk.ErrNoSpace] when the disk is full, and a later append
// may succeed; [ErrTooLarge]; [ErrFailed].
func (l *Log) AppendAsLeader(batches []byte, epoch ident.LeaderEpoch) (Appended, error) {
	panic("being written")
}

// AppendAsFollower writes batches that came from the leader, with their
// offsets and epochs. Their checksums are verified here. Offsets must not lie below the end of the
// log, must increase and may leave gaps, as compaction does; epochs must not
// decrease; else the error is [ErrOutOfOrder]. Errors are those of AppendAsLeader besides.
func (l *Log) AppendAsFollower(batches []byte) (Appended, error) { panic("being written") }

// AssignEpoch records that a leader of this epoch begins at the end of the
// log. Epochs not above the latest are ignored.
func (l *Log) AssignEpoch(epoch ident.LeaderEpoch) { panic("being written") }

// Flush makes durable all that was appended before it was called, and returns
// the flushed end. Calls that overlap share syncs. It may run concurrently
// with appends and reads. An error wraps [ErrFailed] and is final.
func (l *Log) Flush() (ident.Offset, error) { panic("being written") }

// Start returns the first offset that may be read.
func (l *Log) Start() ident.Offset { panic("being written") }

// End returns the offset that the next record will get.
func (l *Log) End() ident.Offset { panic("being written") }

// FlushedEnd returns the end of what survives a crash. It is also the recovery
// point to checkpoint.
func (l *Log) FlushedEnd() ident.Offset { panic("being written") }

// Size returns the size of all segments in bytes, indexes excluded.
func (l *Log) Size() int64 { panic("being written") }

// Err returns why the log has failed, or nil.
func (l *Log) Err() error { panic("being written") }

// SetSettings replaces the settings; the active segment obeys them from the
// next append on.
func (l *Log) SetSettings(s Settings) { panic("being written") }

// Read returns whole batches from the one that holds offset from, or the next
// one if from lies in a gap, up to maxBytes or the exclusive offset end,
// whichever comes first. The first batch may begin below from. The chunk ends
// at the latest with a segment; it is empty when nothing lies before end. With
// atLeastOne a first batch larger than maxBytes is returned alone.
//
// The error is an [OutOfRangeError] when from is not in [Start, End].
func (l *Log) Read(from, end ident.Offset, maxBytes int, atLeastOne bool) (Chunk, error) {
	panic("being written")
}

// Replay calls f with every batch that ends after from, in order, up to the
// end of the log. The view is valid until f returns. It stops at the first
// error and returns it.
func (l *Log) Replay(from ident.Offset, f func(batch.View) error) error { panic("being written") }

// Stamp names a record by time.
type Stamp struct {
	Offset ident.Offset
	// Timestamp is the record's, in milliseconds since the Unix epoch.
	Timestamp int64
	// Epoch is that of the record's batch.
	Epoch ident.LeaderEpoch
}

// OffsetForTime returns the first record at or above the log's start whose
// timestamp is at least ms; ok is false when there is none.
func (l *Log) OffsetForTime(ms int64) (s Stamp, ok bool, err error) { panic("being written") }

// MaxTimestamp returns the first record that has the highest timestamp; ok is
// false when the log has no record with one.
func (l *Log) MaxTimestamp() (s Stamp, ok bool, err error) { panic("being written") }

// LatestEpoch returns the latest leader epoch that the log knows, or
// NoLeaderEpoch.
func (l *Log) LatestEpoch() ident.LeaderEpoch { panic("being written") }

// EpochEnd returns the largest epoch not above the one asked for, and where it
// ended: the start of the next larger one, or the end of the log when epoch is
// the latest. It returns NoLeaderEpoch and NoOffset when the log cannot say
// (KIP-101, KIP-279).
func (l *Log) EpochEnd(epoch ident.LeaderEpoch) (ident.LeaderEpoch, ident.Offset) {
	panic("being written")
}

// EpochAt returns the leader epoch of the record at offset o, or NoLeaderEpoch
// when the log cannot say.
func (l *Log) EpochAt(o ident.Offset) ident.LeaderEpoch { panic("being written") }

// TruncateTail removes all batches that hold offsets at or above end, and is
// durable when it returns. The end of the log is end or, when end lay inside
// a batch, the start of that batch.
func (l *Log) TruncateTail(end ident.Offset) error { panic("being written") }

// AdvanceStart makes start the first offset that may be read, and deletes the
// segments that lie below. A start beyond the end empties the log and lets it
// continue there. A start that is not above the present one is ignored. The
// caller checkpoints the new start.
func (l *Log) AdvanceStart(start ident.Offset) error { panic("being written") }

// Deleted says what retention removed.
type Deleted struct {
	Segments int
	Bytes    int64
	// Start is the start of the log afterwards.
	Start ident.Offset
}

// ApplyRetention deletes the oldest segments that are beyond the settings'
// age or size, or lie below the start of the log. No record at or above
// bound, the high watermark, is deleted.
func (l *Log) ApplyRetention(now time.Time, bound ident.Offset) (Deleted, error) {
	panic("being written")
}

// Roll begins a new segment, unless the active one is empty.
func (l *Log) Roll() error { panic("being written") }

// Close flushes and closes the log. Chunks remain readable until they are
// closed. The error says that the log may not be opened as clean.
func (l *Log) Close() error { panic("being written") }

// Delete closes the log without flushing and removes its folder.
func (l *Log) Delete() error { panic("being written") }
