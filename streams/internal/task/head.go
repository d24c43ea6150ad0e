package task

import (
	"time"

	"github.com/millrace/millrace/streams/window"
)

// Head is what Step would take next.
type Head struct {
	// Ready says that there is a record, and Time is its event time.
	Ready bool
	Time  window.Instant
	// WaitUntil is as in [Progress].
	WaitUntil time.Time
}

// Head looks at the next record without processing it, so that the runtime can take the records of several tasks in order
// of time. Like Step it drops what cannot be decoded. An error ends the task.
func (t *Task) Head() (h Head, err error) {
	defer t.finish(&err)
	q, wait, err := t.choose()
	if err != nil || q == nil {
		return Head{WaitUntil: wait}, err
	}
	return Head{Ready: true, Time: q.headTime}, nil
}
