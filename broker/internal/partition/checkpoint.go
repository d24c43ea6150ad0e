package partition

import (
	"math"
	"sync/atomic"

	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/replica"
)

// Checkpoint is what is to be written down about a partition from time to time,
// so that the next start finds it.
type Checkpoint struct {
	Start, RecoveryPoint, HighWatermark ident.Offset
}

// Checkpoint returns the present values. They are right also after Close. It
// takes no lock, so that hooks may call it.
func (p *Partition) Checkpoint() Checkpoint {
	return Checkpoint{
		Start:         ident.Offset(p.published.start.Load()),
		RecoveryPoint: ident.Offset(min(p.published.flushedEnd.Load(), p.published.ceiling.Load())),
		HighWatermark: ident.Offset(p.published.highWatermark.Load()),
	}
}

// published is what can be seen of the machine without the lock. Whoever writes
// checkpoints may do so on behalf of a hook, which a log calls with its own
// lock held, for which an append may wait that holds the partition's lock.
type published struct {
	start, flushedEnd, highWatermark atomic.Int64
	// ceiling bounds the recovery point while the log is being cut.
	ceiling atomic.Int64
}

// noCeiling lets the recovery point be where the log is flushed to.
const noCeiling int64 = math.MaxInt64

// update is called with the partition's lock held.
func (m *published) update(r *replica.Replica) {
	m.start.Store(int64(r.Start()))
	m.flushedEnd.Store(int64(r.FlushedEnd()))
	m.highWatermark.Store(int64(r.HighWatermark()))
}

// lowerRecoveryPoint is called by the log before it is cut at end. Whoever cuts
// takes the ceiling off again.
func (p *Partition) lowerRecoveryPoint(end ident.Offset) error {
	p.published.ceiling.Store(int64(end))
	if p.cfg.Hooks.LowerRecoveryPoint == nil {
		return nil
	}
	return p.cfg.Hooks.LowerRecoveryPoint()
}
