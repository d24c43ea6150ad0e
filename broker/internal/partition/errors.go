package partition

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/broker/internal/ident"
)

// Errors of partitions. Besides them, appends fail with the errors of the
// packages batch and producer, and reads with [storage.OutOfRangeError].
var (
	// ErrNotLeader says that this broker does not lead the partition
	// (NOT_LEADER_OR_FOLLOWER).
	ErrNotLeader = errors.New("not the leader of the partition")
	// ErrStorage says that the disk failed or is full
	// (KAFKA_STORAGE_ERROR). It wraps the cause.
	ErrStorage = errors.New("storage of the partition failed")
	// ErrClosed says that the broker is stopping (NOT_LEADER_OR_FOLLOWER).
	ErrClosed = errors.New("partition is closed")
	// ErrDeleted says that the partition was deleted while the call waited
	// (UNKNOWN_TOPIC_OR_PARTITION).
	ErrDeleted = errors.New("partition was deleted")
	// ErrNotEnoughReplicas says that fewer replicas are in sync than
	// min.insync.replicas asks for; nothing was written
	// (NOT_ENOUGH_REPLICAS).
	ErrNotEnoughReplicas = errors.New("not enough replicas are in sync")
	// ErrNotEnoughReplicasAfterAppend says the same, but the records were
	// written and may yet be seen (NOT_ENOUGH_REPLICAS_AFTER_APPEND).
	ErrNotEnoughReplicasAfterAppend = errors.New("not enough replicas are in sync after the append")
	// ErrTimedOut is what a caller passes to [Wait.Cancel] when its deadline
	// passed; the records were written (REQUEST_TIMED_OUT).
	ErrTimedOut = errors.New("timed out waiting for the acknowledgement")
	// ErrBatchCount says that an append that must hold one batch holds none
	// or several (INVALID_RECORD).
	ErrBatchCount = errors.New("exactly one batch is allowed")
	// ErrAcks says that acks is none of 0, 1 and -1 (INVALID_REQUIRED_ACKS).
	ErrAcks = errors.New("acks must be 0, 1 or -1")
)

// TooLargeError says that a batch is larger than max.message.bytes
// (MESSAGE_TOO_LARGE).
type TooLargeError struct {
	// Size is the batch's in bytes, and Max the topic's limit.
	Size, Max int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("batch of %d bytes is larger than max.message.bytes = %d", e.Size, e.Max)
}

// EpochError says that a caller's idea of the leader epoch differs from the
// partition's: older is FENCED_LEADER_EPOCH, newer UNKNOWN_LEADER_EPOCH.
type EpochError struct {
	// Asked is the caller's epoch, Current the partition's.
	Asked, Current ident.LeaderEpoch
}

func (e *EpochError) Error() string {
	if e.Fenced() {
		return fmt.Sprintf("leader epoch %d is fenced: the partition is at %d", e.Asked, e.Current)
	}
	return fmt.Sprintf("leader epoch %d is not known yet: the partition is at %d", e.Asked, e.Current)
}

// Fenced reports whether the caller's epoch is the older one.
func (e *EpochError) Fenced() bool { return e.Asked < e.Current }

// storageError marks err as the disk's fault.
func storageError(doing string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrStorage, doing, err)
}
