package logs

import (
	"errors"
	"time"

	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
)

const (
	retryPauseMin = 100 * time.Millisecond
	retryPauseMax = time.Minute
)

// pause waits for d, or until wake is sent on, or the manager closes, which it
// reports as false.
func (m *Manager) pause(d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-wake:
		return true
	case <-m.ctx.Done():
		return false
	}
}

// checkpointSoon has the checkpoints written without waiting for the interval.
func (m *Manager) checkpointSoon() {
	select {
	case m.checkpointNow <- struct{}{}:
	default: // it will be, already
	}
}

func (m *Manager) checkpointLoop() {
	for m.pause(m.cfg.CheckpointInterval, m.checkpointNow) {
		if err := m.checkpoints.write(); err != nil {
			m.cfg.Logger.Error("checkpoints are out of date", "cause", err)
		}
	}
}

func (m *Manager) retentionLoop() {
	for m.pause(m.cfg.RetentionInterval, nil) {
		m.ApplyRetention()
	}
}

// ApplyRetention deletes old segments of all partitions now.
func (m *Manager) ApplyRetention() {
	for _, p := range m.Partitions() {
		if p.Err() != nil {
			continue
		}
		_, err := p.ApplyRetention(m.cfg.Now())
		if err != nil && !isGone(err) {
			m.cfg.Logger.Error("retention failed", "partition", p.Name().String(), "cause", err)
		}
	}
}

// isGone reports that a partition was closed or deleted meanwhile.
func isGone(err error) bool {
	return errors.Is(err, partition.ErrClosed) || errors.Is(err, partition.ErrDeleted)
}

// failed is called by a partition whose disk failed. It is opened again, with
// growing pauses until that works.
func (m *Manager) failed(p *partition.Partition, _ error) {
	if m.cfg.Failed != nil {
		m.cfg.Failed(p)
	}
	m.Retry(p.Name(), func() error {
		err := p.Reopen()
		if err == nil && m.cfg.Recovered != nil {
			m.cfg.Recovered(p)
		}
		return err
	})
}

// Retry calls bring, which is to bring a partition on line, in the background
// and with growing pauses, until it succeeds, or the partition or the manager
// was closed.
func (m *Manager) Retry(tp ident.TopicPartition, bring func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.work.Go(func() {
		for wait := retryPauseMin; m.pause(wait, nil); wait = min(2*wait, retryPauseMax) {
			err := bring()
			if err == nil || isGone(err) || errors.Is(err, ErrClosed) {
				return
			}
			m.cfg.Logger.Error("partition stays off line", "partition", tp.String(), "cause", err)
		}
	})
}
