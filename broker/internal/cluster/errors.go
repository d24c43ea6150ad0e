package cluster

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

var (
	// ErrClosed says that the node was closed.
	ErrClosed = errors.New("cluster metadata is closed")
	// ErrWrongCluster says that the folder belongs to another cluster.
	ErrWrongCluster = errors.New("the folder belongs to another cluster")
	// ErrWrongBroker says that the folder belongs to another broker.
	ErrWrongBroker = errors.New("the folder belongs to another broker")
	// ErrLost says that metadata that was there is missing or torn.
	ErrLost = errors.New("the cluster's metadata is damaged: put back the folder from a backup, or begin anew with an empty data folder")
	// ErrNewerFormat says that a newer release wrote the metadata.
	ErrNewerFormat = errors.New("the metadata was written by a newer release")
)

// Error refuses one item of a request. It unwraps to the [kerr.Error] whose
// code Kafka gives for that reason.
type Error struct {
	Code    *kerr.Error
	Message string // for people: what was wrong and what is expected
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the Kafka error.
func (e *Error) Unwrap() error { return e.Code }

func refuse(code *kerr.Error, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
