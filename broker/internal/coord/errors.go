package coord

import "errors"

// What a call may fail with, besides what the machine answers. Logs wrap these
// as well, so that coordinators need not know the errors of storage.
var (
	// ErrNotCoordinator says that this broker does not lead the shard, or
	// stopped to: the client has to look for the coordinator.
	ErrNotCoordinator = errors.New("this broker is not the coordinator")
	// ErrLoading says that the shard is being replayed: ask again soon.
	ErrLoading = errors.New("the coordinator is loading")
	// ErrBusy says that the shard's queue is full: ask again soon.
	ErrBusy = errors.New("the coordinator's queue is full")
	// ErrUnavailable says that records could not be written or committed for
	// now: too few replicas, a time-out, no space.
	ErrUnavailable = errors.New("the coordinator cannot store records now")
	// ErrTooLarge says that the records do not fit into a batch.
	ErrTooLarge = errors.New("the records are too large for a batch")
)
