package logs

import (
	"errors"
	"time"

	"github.com/millrace/millrace/broker/internal/partition"
)

const (
	reopenPauseMin = 100 * time.Millisecond
	reopenPauseMax = time.Minute
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
		if _, err := p.ApplyRetention(m.cfg.Now()); err != nil {
			m.cfg.Logger.Error("retention failed", "partition", p.Name().String(), "cause", err)
		}
	}
}

// failed is called by a partition whose disk failed. It is opened again, with
// growing pauses until that works.
func (m *Manager) failed(p *partition.Partition, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.work.Go(func() { m.reopen(p) })
}

func (m *Manager) reopen(p *partition.Partition) {
	for wait := reopenPauseMin; m.pause(wait, nil); wait = min(2*wait, reopenPauseMax) {
		err := p.Reopen()
		switch {
		case err == nil:
			if m.cfg.Recovered != nil {
				m.cfg.Recovered(p)
			}
			return
		case errors.Is(err, partition.ErrClosed), errors.Is(err, partition.ErrDeleted):
			return
		}
		m.cfg.Logger.Error("partition stays off line", "partition", p.Name().String(), "cause", err)
	}
}
