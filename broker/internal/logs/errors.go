package logs

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/broker/internal/ident"
)

// ErrClosed says that the manager was closed.
var ErrClosed = errors.New("logs are closed")

// LockedError says that another broker uses the folder.
type LockedError struct {
	Dir string
	Err error
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("data folder %s is in use by another process: stop that one, or choose another folder", e.Dir)
}

// Unwrap returns the cause, [disk.ErrLocked].
func (e *LockedError) Unwrap() error { return e.Err }

// FormatError says that a newer program wrote the folder.
type FormatError struct {
	File string
	// Version is what the file has, Known the newest that is understood.
	Version, Known int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has format version %d, but this program knows versions up to %d: use a newer program", e.File, e.Version, e.Known)
}

// NodeError says that the folder belongs to another broker.
type NodeError struct {
	File       string
	Have, Want ident.BrokerID
}

func (e *NodeError) Error() string {
	return fmt.Sprintf("%s belongs to the broker with node.id %d, not %d: set node.id to %d, or choose another folder", e.File, e.Have, e.Want, e.Have)
}

// ClusterError says that the folder belongs to another cluster.
type ClusterError struct {
	File       string
	Have, Want string
}

func (e *ClusterError) Error() string {
	return fmt.Sprintf("%s belongs to the cluster %q, not %q: choose another folder", e.File, e.Have, e.Want)
}

// MetaError says that meta.properties, partition.metadata or a checkpoint cannot
// be read.
type MetaError struct {
	File string
	// Line counts from 1; 0 means the file as a whole.
	Line int
	Err  error
	// Remedy is what to do about it; it may be empty.
	Remedy string
}

func (e *MetaError) Error() string {
	text := e.File
	if e.Line > 0 {
		text = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	text = fmt.Sprintf("%s cannot be read: %v", text, e.Err)
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return text
}

// Unwrap returns the cause.
func (e *MetaError) Unwrap() error { return e.Err }

// remedied adds what to do to a MetaError.
func remedied(err error, remedy string) error {
	if e, ok := errors.AsType[*MetaError](err); ok {
		e.Remedy = remedy
	}
	return err
}

// TopicIDError says that the folder of a partition belongs to another topic
// of the same name: that topic was deleted while the broker was away. The
// caller sets the folder aside and creates it anew.
type TopicIDError struct {
	Partition  ident.TopicPartition
	Have, Want ident.TopicID
}

func (e *TopicIDError) Error() string {
	return fmt.Sprintf("folder of %v belongs to topic id %v, not %v", e.Partition, e.Have, e.Want)
}
