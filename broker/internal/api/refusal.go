package api

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/cluster"
)

// refusal is an error with a code of Kafka's and a text for people.
func refusal(code *kerr.Error, format string, args ...any) error {
	return &cluster.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// errorTextBytesMax bounds what a client is told. Texts repeat names, and older
// versions have two bytes for the length of either.
const errorTextBytesMax = 2000

// errorText is what a client may show its user, null if there is no error.
// What an error of no known code says is about the broker and goes to its log
// only.
func errorText(err error) *string {
	if err == nil {
		return nil
	}
	text := kafkaError(err).Description
	if e, ok := errors.AsType[*cluster.Error](err); ok {
		text = e.Message
	}
	if len(text) > errorTextBytesMax {
		text = strings.ToValidUTF8(text[:errorTextBytesMax], "") + "…"
	}
	return &text
}
