package partition

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/replica"
	"github.com/millrace/millrace/broker/internal/storage"
)

// open opens log and state, and puts them into place.
func (p *Partition) open(start, recoveryPoint, highWatermark ident.Offset, clean bool) error {
	log, err := p.openLog(start, recoveryPoint, clean)
	if err != nil {
		return err
	}
	return p.install(log, highWatermark)
}

func (p *Partition) openLog(start, recoveryPoint ident.Offset, clean bool) (*storage.Log, error) {
	log, recovered, err := storage.Open(storage.Config{
		FS:                 p.cfg.FS,
		Dir:                p.cfg.Dir,
		Codecs:             p.cfg.Codecs,
		Settings:           p.settings.Load().Log,
		Start:              start,
		RecoveryPoint:      recoveryPoint,
		Clean:              clean,
		Now:                p.cfg.Now,
		Jitter:             p.cfg.Jitter,
		Logger:             p.cfg.Logger,
		Rolled:             p.rolled,
		LowerRecoveryPoint: p.lowerRecoveryPoint,
	})
	if err != nil {
		return nil, err
	}
	if recovered.CutBytes > 0 {
		p.cfg.Logger.Warn("cut the end of a log that was not written out", "partition", p.Name().String(),
			"bytes", recovered.CutBytes, "cause", recovered.CutCause, "end", log.End(), "kept", recovered.Kept)
	}
	return log, nil
}

// install reads the producers' state and makes log the partition's.
func (p *Partition) install(log *storage.Log, highWatermark ident.Offset) error {
	producers, err := p.loadProducers(log)
	if err != nil {
		return errors.Join(fmt.Errorf("rebuilding the state of producers: %w", err), log.Close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log, p.producers, p.gone, p.opened = log, producers, nil, true
	p.unflushed = int64(log.End() - log.FlushedEnd())
	p.replica = replica.New(replica.Config{
		Self:          p.cfg.Self,
		Start:         log.Start(),
		End:           log.End(),
		FlushedEnd:    log.FlushedEnd(),
		HighWatermark: highWatermark,
		Durable:       p.settings.Load().durable(),
	})
	p.published.update(p.replica)
	return nil
}

// Reopen recovers a partition whose disk failed. In a durable topic all that
// was not flushed is cut off: the operating system may have dropped it from
// its cache after the failed sync while it still shows it to readers, and
// nobody was told that it is safe. The partition leads nothing then, until
// BecomeLeader. A partition that works is left alone.
func (p *Partition) Reopen() error {
	p.files.Lock()
	defer p.files.Unlock()
	p.mu.Lock()
	gone, old, r, wasOpen := p.gone, p.log, p.replica, p.opened
	p.mu.Unlock()
	switch {
	case gone == nil:
		return nil
	case !errors.Is(gone, ErrStorage):
		return gone
	}
	recoveryPoint, start := p.cfg.RecoveryPoint, p.cfg.Start
	if wasOpen {
		recoveryPoint, start = r.FlushedEnd(), r.Start()
	}
	if old != nil {
		// Its error is what we are here for.
		_ = old.Close()
		p.mu.Lock()
		p.log = nil
		p.mu.Unlock()
	}
	log, err := p.openLog(start, recoveryPoint, false)
	if err != nil {
		return fmt.Errorf("opening partition %v again: %w", p.Name(), err)
	}
	if wasOpen && p.settings.Load().durable() && log.End() > recoveryPoint {
		err := log.TruncateTail(recoveryPoint)
		p.published.ceiling.Store(noCeiling)
		if err != nil {
			return errors.Join(fmt.Errorf("cutting partition %v at %d: %w", p.Name(), recoveryPoint, err), log.Close())
		}
	}
	if err := p.install(log, r.HighWatermark()); err != nil {
		return fmt.Errorf("opening partition %v again: %w", p.Name(), err)
	}
	p.cfg.Logger.Info("partition is back", "partition", p.Name().String(), "end", log.End())
	return nil
}

// Close flushes and answers what waits for that, fails the rest with ErrClosed,
// and closes. An error means that the partition must not be opened as clean.
func (p *Partition) Close() error {
	log, err := p.leave(ErrClosed)
	if log == nil {
		return err
	}
	end, err := log.Flush()
	_ = p.withCalls(func(c *calls) error {
		if err == nil {
			p.step(c, replica.LogFlushed{End: end})
		}
		p.failWaits(c, ErrClosed)
		p.watchers.notify(c)
		return nil
	})
	if err == nil {
		err = p.takeSnapshot(log.End(), true)
	}
	if err := errors.Join(err, log.Close()); err != nil {
		return fmt.Errorf("closing partition %v: %w", p.Name(), err)
	}
	return nil
}

// CloseForDelete is Close before the folder is removed: what waits fails with
// ErrDeleted.
func (p *Partition) CloseForDelete() {
	log, _ := p.leave(ErrDeleted)
	_ = p.withCalls(func(c *calls) error {
		p.failWaits(c, ErrDeleted)
		p.watchers.notify(c)
		return nil
	})
	if log != nil {
		// The files are about to be removed: what could not be written to
		// them does not matter.
		_ = log.Close()
	}
}

// leave makes the partition refuse everything with why. It returns the log that
// is to be closed; nil, and the reason, when the partition did not work.
func (p *Partition) leave(why error) (*storage.Log, error) {
	p.files.Lock()
	defer p.files.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(p.gone, ErrClosed) || errors.Is(p.gone, ErrDeleted) {
		return nil, nil
	}
	was, log := p.gone, p.log
	p.gone = why
	p.stopFlushTimer()
	if was != nil && log != nil {
		_ = log.Close()
		log, p.log = nil, nil
	}
	return log, was
}
