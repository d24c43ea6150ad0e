package connector

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Problem is a mistake in the configuration: which setting, and what is wrong
// with it and what to do. Open, Validate and Split return it.
type Problem struct {
	// Setting is the name of the setting. It is empty if no single setting
	// is to blame.
	Setting string
	// Message says what is wrong. It must not quote a secret.
	Message string
}

// Problemf returns a [Problem] as an error.
func Problemf(setting, format string, args ...any) error {
	return Problem{Setting: setting, Message: fmt.Sprintf(format, args...)}
}

// Error returns the setting's name and the message.
func (p Problem) Error() string {
	if p.Setting == "" {
		return p.Message
	}
	return p.Setting + ": " + p.Message
}

// RecordErrors is what Write of a [Sink] returns if some records cannot be
// written because of what they hold: the cause for each, by the record's index
// in the batch. All records that it does not name have been written.
type RecordErrors map[int]error

// Error names the first of the records and says how many there are.
func (e RecordErrors) Error() string {
	if len(e) == 0 {
		return "no records failed"
	}
	first := slices.Min(slices.Collect(maps.Keys(e)))
	if len(e) == 1 {
		return fmt.Sprintf("record %d: %v", first, e[first])
	}
	return fmt.Sprintf("%d records failed, the first being record %d: %v", len(e), first, e[first])
}

// Retry wraps err to ask that the call be made again after a pause, as the
// origin or target cannot be reached at the moment. The host shows the task
// as running, logs err, and doubles the pause, up to a minute, when the call
// fails again and again. An after of 0 leaves the pause to the host.
//
// It is for Open, Read, Write, Flush and Ack. From Validate and Split it is an
// error like any other, shown to the user who is waiting for the answer.
func Retry(err error, after time.Duration) error {
	if err == nil {
		err = errors.New("the connector gave no cause")
	}
	return &RetryError{Cause: err, After: max(after, 0)}
}

// RetryError is what [Retry] returns. Hosts and tests look for it.
type RetryError struct {
	Cause error         // never nil
	After time.Duration // 0 leaves it to the host
}

// Error returns the cause's text.
func (e *RetryError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Cause }

// Problems returns the problems in err, which may be one, several joined by
// errors.Join, or wrapped; nil if there is none. Hosts and tests call it.
func Problems(err error) []Problem {
	switch e := err.(type) {
	case nil:
		return nil
	case Problem:
		return []Problem{e}
	case interface{ Unwrap() []error }:
		var all []Problem
		for _, err := range e.Unwrap() {
			all = append(all, Problems(err)...)
		}
		return all
	}
	return Problems(errors.Unwrap(err))
}
