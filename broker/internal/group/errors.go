package group

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/coord"
)

// code returns Kafka's code for what stopped a request to the coordinator. As
// Kafka's coordinator does, it tells clients what to do rather than what
// happened: look for the coordinator again, or wait, or give up.
func code(err error) int16 {
	if err == nil {
		return 0
	}
	return kafkaError(err).Code
}

func kafkaError(err error) *kerr.Error {
	switch {
	case errors.Is(err, coord.ErrNotCoordinator):
		return kerr.NotCoordinator
	case errors.Is(err, coord.ErrLoading), errors.Is(err, coord.ErrBusy):
		return kerr.CoordinatorLoadInProgress
	case errors.Is(err, coord.ErrUnavailable):
		return kerr.CoordinatorNotAvailable
	}
	if k, ok := errors.AsType[*kerr.Error](err); ok {
		return k
	}
	return kerr.UnknownServerError
}
