package broker

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/logs"
)

// Reasons for which [New] fails, to be told apart with errors.Is. The error
// itself says which address or folder, and what to do.
var (
	// ErrAddressInUse: another program listens on the address.
	ErrAddressInUse = errors.New("address already in use")
	// ErrFolderInUse: another broker has the data folder open.
	ErrFolderInUse = errors.New("data folder is in use")
	// ErrOtherNode: the data folder belongs to another broker or cluster.
	ErrOtherNode = errors.New("data folder belongs to another broker")
	// ErrNewerFormat: a newer release wrote the data folder.
	ErrNewerFormat = errors.New("data folder has a newer format")
)

// reason is an error that also satisfies errors.Is with one of the above,
// without repeating its words.
type reason struct {
	error
	is error
}

func (r *reason) Unwrap() []error { return []error{r.error, r.is} }

// startError classifies the error of a start.
func startError(err error) error {
	_, otherNode := errors.AsType[*logs.NodeError](err)
	_, otherCluster := errors.AsType[*logs.ClusterError](err)
	_, newer := errors.AsType[*logs.FormatError](err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &reason{fmt.Errorf("%w: stop the program that listens there, or choose another address", err), ErrAddressInUse}
	case errors.Is(err, disk.ErrLocked):
		return &reason{err, ErrFolderInUse}
	case otherNode, otherCluster, errors.Is(err, cluster.ErrWrongCluster), errors.Is(err, cluster.ErrWrongBroker):
		return &reason{err, ErrOtherNode}
	case newer, errors.Is(err, cluster.ErrNewerFormat):
		return &reason{err, ErrNewerFormat}
	}
	return err
}
