package storage

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/broker/internal/ident"
)

var (
	// ErrClosed says that the log was closed or deleted.
	ErrClosed = errors.New("log is closed")
	// ErrFailed says that the disk failed in a way after which the log's
	// state on it is unknown: a sync failed, or a partial write could not be
	// taken back. The log refuses everything from then on, and every error
	// that it returns wraps ErrFailed and the first cause. It must be closed
	// and opened anew.
	ErrFailed = errors.New("log has failed")
	// ErrTooLarge says that one batch is larger than a segment may be.
	ErrTooLarge = errors.New("batch is larger than a segment")
	// ErrOutOfOrder says that batches to append do not continue the log.
	ErrOutOfOrder = errors.New("batch does not continue the log")
)

// OutOfRangeError says that an offset is not within the log.
type OutOfRangeError struct {
	// Offset is what was asked for; the log has [Start, End).
	Offset, Start, End ident.Offset
}

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("offset %d is out of range: the log has [%d, %d)", e.Offset, e.Start, e.End)
}

// DamageError says that a file does not hold what was once safely written to
// it. It concerns one partition only.
type DamageError struct {
	// File is the path of the damaged file.
	File string
	// Position is where in the file the damage begins, in bytes.
	Position int64
	// Cause says what is wrong there.
	Cause error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("damaged file %s at byte %d: %v", e.File, e.Position, e.Cause)
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Cause }
