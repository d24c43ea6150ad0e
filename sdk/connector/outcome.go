package connector

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/sdk/connector/protocol"
)

// outcomeOf turns what the author's code returned into its form on the wire.
func outcomeOf(ctx context.Context, err error) *protocol.Outcome {
	if err == nil {
		return &protocol.Outcome{}
	}
	// Texts of the protocol are UTF-8; errors may quote anything.
	out := &protocol.Outcome{Code: protocol.Outcome_FAILED, Message: validText(err.Error())}
	bad, isRecords := errors.AsType[RecordErrors](err)
	retry, isRetry := errors.AsType[*RetryError](err)
	problems := Problems(err)
	switch {
	case err == io.EOF: // itself: a driver's error that wraps it is a failure
		out.Code = protocol.Outcome_END
	case isRetry:
		out.Code = protocol.Outcome_RETRY
		out.Message = validText(retry.Cause.Error())
		out.RetryAfterMs = retry.After.Milliseconds()
	case isRecords && len(bad) == 0:
		return &protocol.Outcome{}
	case isRecords:
		out.Code = protocol.Outcome_RECORDS
		for _, i := range slices.Sorted(maps.Keys(bad)) {
			out.RecordErrors = append(out.RecordErrors, &protocol.RecordError{Index: uint32(i), Message: validText(errorText(bad[i]))})
		}
	case len(problems) > 0:
		out.Code = protocol.Outcome_INVALID
		for _, p := range problems {
			out.Problems = append(out.Problems, &protocol.Problem{Setting: validText(p.Setting), Message: validText(p.Message)})
		}
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		out.Code = protocol.Outcome_CANCELLED
	case errors.Is(err, context.Canceled):
		out.Message += " (the connector returned this, although its task was not being stopped)"
	}
	return out
}

func unsupported(message string) *protocol.Outcome {
	return &protocol.Outcome{Code: protocol.Outcome_UNSUPPORTED, Message: message}
}

func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func errorText(err error) string {
	if err == nil {
		return "no cause given"
	}
	return err.Error()
}
