package api

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/cluster"
)

// refusal is an error with a code of Kafka's and a text for people.
func refusal(code *kerr.Error, format string, args ...any) error {
	return &cluster.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// errorText is what a client may show its user, null if there is no error.
// What an error of no known code says is about the broker and goes to its log
// only.
func errorText(err error) *string {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*cluster.Error](err); ok {
		return &e.Message
	}
	return &kafkaError(err).Description
}
