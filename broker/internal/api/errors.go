package api

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// errorCode is the one place where Go errors become Kafka's error codes: 0 for
// nil, the code of a [kerr.Error] anywhere in the chain, the code of the
// domain's typed errors, and UNKNOWN_SERVER_ERROR for everything else, which
// Kafka's clients do not retry.
func errorCode(err error) int16 {
	if err == nil {
		return 0
	}
	if k, ok := errors.AsType[*kerr.Error](err); ok {
		return k.Code
	}
	return kerr.UnknownServerError.Code
}
