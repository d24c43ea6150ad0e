package connector

import "time"

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
func Problemf(setting, format string, args ...any) error { return problemf(setting, format, args...) }

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
func (e RecordErrors) Error() string { return e.describe() }

// Retry wraps err to ask that the call be made again after a pause, as the
// origin or target is not to be reached at the moment. The host shows the task
// as running, logs err, and doubles the pause, up to a minute, when the call
// fails again and again. An after of 0 leaves the pause to the host.
func Retry(err error, after time.Duration) error { return retry(err, after) }

// AsRetry returns the cause and the pause if err is or wraps one made by
// [Retry]. Hosts and tests call it.
func AsRetry(err error) (cause error, after time.Duration, ok bool) { return asRetry(err) }
