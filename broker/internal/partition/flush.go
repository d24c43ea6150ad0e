package partition

import (
	"errors"
	"time"

	"github.com/millrace/millrace/broker/internal/replica"
	"github.com/millrace/millrace/broker/internal/storage"
)

// flushRetryAfter is the pause after a flush that failed for want of space.
const flushRetryAfter = time.Second

// scheduleFlush asks for what the topic's flush policy wants after an append.
// The lock is held.
func (p *Partition) scheduleFlush() {
	s := p.settings.Load()
	switch {
	case s.durable() || p.unflushed >= s.FlushRecords:
		p.requestFlush()
	case s.FlushAge > 0:
		p.flushIn(s.FlushAge)
	}
}

// flushIn asks for a flush after a pause, unless one is set already. The lock
// is held.
func (p *Partition) flushIn(pause time.Duration) {
	if p.flushTimer != nil {
		return
	}
	p.flushTimer = time.AfterFunc(pause, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.flushTimer != nil {
			p.requestFlush()
		}
	})
}

// requestFlush has a syncer flush all that was appended so far. The lock is
// held.
func (p *Partition) requestFlush() {
	p.unflushed = 0
	p.stopFlushTimer()
	p.cfg.Syncers.request(&p.sync)
}

func (p *Partition) stopFlushTimer() {
	if p.flushTimer != nil {
		p.flushTimer.Stop()
		p.flushTimer = nil
	}
}

// flush is what a syncer does. The lock is free while the disk works, so that
// appends go on; they are for the next flush.
func (p *Partition) flush() {
	log, _, err := p.working()
	if err != nil {
		return
	}
	end, err := log.Flush()
	_ = p.withCalls(func(c *calls) error {
		switch {
		case p.log != log:
			// It was closed or replaced meanwhile, and those who waited were
			// told.
		case errors.Is(err, storage.ErrFailed):
			p.fail(c, err)
		case err != nil:
			// The disk is full. Nothing is lost; but those who wait must not
			// wait until somebody makes room.
			p.failWaits(c, storageError("flushing", err))
			p.flushIn(flushRetryAfter)
		default:
			p.step(c, replica.LogFlushed{End: end})
		}
		return nil
	})
}

// fail takes the partition off line after the disk failed. What the disk holds
// of the unflushed end is not known, so nobody is told that it is safe, and
// leadership ends. The lock is held.
func (p *Partition) fail(c *calls, cause error) {
	if p.gone != nil {
		return
	}
	p.cfg.Logger.Error("partition goes off line", "partition", p.Name().String(), "cause", cause)
	p.gone = storageError("partition went off line", cause)
	p.failWaits(c, p.gone)
	p.step(c, replica.Resign{})
	p.stopFlushTimer()
	c.failed = cause
}
