package task

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/window"
)

// queue holds the records of one input partition that wait, and how far it has come.
type queue struct {
	spec InputSpec
	in   Input
	op   *Op
	// recs[from:] wait.
	recs []*kgo.Record
	from int
	// decoded says that in holds the head, whose event time is headTime.
	decoded  bool
	headTime window.Instant

	next  int64
	epoch int32
	time  window.Instant
	// dryAt is when the queue last ran dry; meaningful while it is empty.
	dryAt time.Time
}

func (q *queue) len() int          { return len(q.recs) - q.from }
func (q *queue) head() *kgo.Record { return q.recs[q.from] }

// pop takes the head off.
func (q *queue) pop(now func() time.Time) {
	rec := q.recs[q.from]
	q.next, q.epoch = rec.Offset+1, rec.LeaderEpoch
	q.recs[q.from] = nil
	q.from++
	q.decoded = false
	if q.from == len(q.recs) {
		q.recs, q.from = q.recs[:0], 0
		q.dryAt = now()
	}
}

// ready decodes the head, dropping records that cannot be used, until one can or none is left.
func (q *queue) ready(c *Context) error {
	for !q.decoded && q.len() > 0 {
		rec := q.head()
		at, keep, err := q.decode(c, rec)
		if err != nil {
			return err
		}
		if !keep {
			c.task.processed++
			q.pop(c.task.cfg.Now)
			continue
		}
		q.decoded, q.headTime = true, min(at, maxTime)
	}
	return nil
}

// decode decodes rec and applies the policies: the handler's for bytes that cannot be decoded, the source's for times.
func (q *queue) decode(c *Context, rec *kgo.Record) (at window.Instant, keep bool, err error) {
	c.begin(rec, window.Instant(rec.Timestamp.UnixMilli()))
	defer c.end()
	at, reason, err := q.guardedDecode(rec)
	switch {
	case reason == InvalidTime:
		return q.timeless(c, err)
	case err != nil:
		return 0, false, c.settle(q.op, c.failure(q.op, Deserialization, err))
	case reason != Keep:
		q.op.Drop(reason)
		return 0, false, nil
	}
	return at, true, nil
}

// timeless applies the source's policy to a record that, as cause says, has no valid event time.
func (q *queue) timeless(c *Context, cause error) (at window.Instant, keep bool, err error) {
	switch q.spec.InvalidTimes {
	case DropInvalidTimes:
		q.op.Drop(InvalidTime)
		return 0, false, nil
	case UsePartitionTime:
		return max(q.time, 0), true, nil
	case UseWallClock:
		return window.At(c.task.cfg.Now()), true, nil
	}
	return 0, false, c.settle(q.op, c.failure(q.op, Deserialization, cause))
}

// guardedDecode catches panics of the user's serdes and extractors.
func (q *queue) guardedDecode(rec *kgo.Record) (at window.Instant, reason Reason, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	return q.in.Decode(rec)
}
