package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Recovered says what [Open] found and mended.
type Recovered struct {
	// SegmentsRead is the number of segments whose batches were checked.
	SegmentsRead int
	// CutBytes is how many bytes were cut off, and CutCause why; 0 and nil
	// when the log ended well.
	CutBytes int64
	CutCause error
	// Kept lists the files that hold cut bytes among which whole batches
	// were found.
	Kept []string
	// IndexesRebuilt is the number of segments whose indexes failed their
	// check or were missing, among those that were read.
	IndexesRebuilt int
}

// Open opens the log in cfg.Dir, or begins an empty one at offset cfg.Start.
// It recovers from a crash as the package doc says; the error is a
// [DamageError] when what was once durable is not there any more.
func Open(cfg Config) (*Log, Recovered, error) {
	if err := cfg.validate(); err != nil {
		return nil, Recovered{}, err
	}
	l := &Log{cfg: cfg}
	l.settings.Store(&cfg.Settings)
	found, err := l.open()
	if err != nil {
		for _, s := range l.segments {
			err = errors.Join(err, s.drop(true))
		}
		return nil, found, fmt.Errorf("opening log %s: %w", cfg.Dir, err)
	}
	return l, found, nil
}

func (l *Log) open() (Recovered, error) {
	fresh, err := l.makeDir()
	if err != nil {
		return Recovered{}, err
	}
	known, cause, err := l.epochs.load(l.cfg.FS, l.cfg.Dir)
	if err != nil {
		return Recovered{}, err
	}
	if cause != nil {
		l.cfg.Logger.Warn("leader epochs are unreadable and are taken from the log", "log", l.cfg.Dir, "cause", cause)
	}
	if err := l.list(); err != nil {
		return Recovered{}, err
	}
	if len(l.segments) == 0 {
		if l.cfg.RecoveryPoint > l.cfg.Start && !fresh {
			return Recovered{}, &DamageError{File: l.cfg.Dir, Cause: fmt.Errorf("there is no segment, but the log once reached offset %d", l.cfg.RecoveryPoint)}
		}
		return Recovered{}, l.beginEmpty()
	}
	return l.recover(known)
}

// makeDir creates the partition's folder, durably.
func (l *Log) makeDir() (fresh bool, err error) {
	_, err = l.cfg.FS.Stat(l.cfg.Dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := l.cfg.FS.MkdirAll(l.cfg.Dir); err != nil {
		return false, err
	}
	return true, l.cfg.FS.SyncDir(path.Dir(l.cfg.Dir))
}

// beginEmpty creates the first segment of a new log.
func (l *Log) beginEmpty() error {
	l.epochs.truncate(0)
	s := newSegment(l.cfg.FS, l.cfg.Dir, l.cfg.Start)
	if err := l.begin(s); err != nil {
		return err
	}
	if err := l.cfg.FS.SyncDir(l.cfg.Dir); err != nil {
		return err
	}
	l.segments = []*segment{s}
	l.start, l.end, l.flushed, l.youngest = l.cfg.Start, l.cfg.Start, l.cfg.Start, noMark
	return nil
}

// list finds the segments and removes what crashes left behind: files that
// were on their way out or not yet in, indexes without a log, and segments
// below the start, whose deletion was not durable.
func (l *Log) list() error {
	infos, err := l.cfg.FS.ReadDir(l.cfg.Dir)
	if err != nil {
		return err
	}
	var indexes []string
	for _, info := range infos {
		name := info.Name()
		for _, suffix := range []string{deletedSuffix, cleanedSuffix, temporarySuffix} {
			if strings.HasSuffix(name, suffix) {
				if err := l.cfg.FS.Remove(path.Join(l.cfg.Dir, name)); err != nil {
					return err
				}
			}
		}
		if strings.HasSuffix(name, swapSuffix) {
			return fmt.Errorf("%s is left of a compaction that another program began; let that program finish it", name)
		}
		base, suffix, ok := parseName(name)
		switch {
		case !ok || info.IsDir():
		case suffix == logSuffix:
			s := newSegment(l.cfg.FS, l.cfg.Dir, base)
			s.size.Store(info.Size())
			s.synced, s.indexed = info.Size(), true
			l.segments = append(l.segments, s)
		case suffix == offsetSuffix || suffix == timeSuffix || suffix == txnSuffix:
			indexes = append(indexes, name)
		}
	}
	for _, name := range indexes {
		base, _, _ := parseName(name)
		if i := (view{segments: l.segments}).find(base); len(l.segments) == 0 || l.segments[i].base != base {
			if err := l.cfg.FS.Remove(path.Join(l.cfg.Dir, name)); err != nil {
				return err
			}
		}
	}
	for len(l.segments) > 1 && l.segments[1].base <= l.cfg.Start {
		if err := l.segments[0].remove(); err != nil {
			return err
		}
		l.segments = l.segments[1:]
		// It has to be gone for good before the next one goes.
		l.newDirs++
		if err := l.syncDir(); err != nil {
			return err
		}
	}
	return nil
}
