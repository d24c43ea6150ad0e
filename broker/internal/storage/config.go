package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// Config says where a log lies and what it needs to work. Fields without a
// default are required.
type Config struct {
	// FS holds the log.
	FS disk.FS
	// Dir is the partition's folder. It is created if it does not exist.
	Dir string
	// Codecs decompress batches for lookups by time.
	Codecs *batch.Codecs
	// Settings are the topic's; zero fields take defaults.
	Settings Settings
	// Start is the start of the log as last checkpointed, 0 when it never
	// was. A log whose first segment begins later starts there.
	Start ident.Offset
	// RecoveryPoint is the end of what is known to be durable, as last
	// checkpointed, 0 when it never was. Damage below it is an error.
	RecoveryPoint ident.Offset
	// Clean says that the log was closed by [Log.Close] and not touched
	// since, so that no segment needs to be read.
	Clean bool
	// Now is the clock.
	Now func() time.Time
	// Jitter returns a random duration in [0, max). It is asked once a
	// segment when Settings.SegmentJitter is positive; nil means no jitter.
	Jitter func(max time.Duration) time.Duration
	// Logger is told of rolls, deletions and repairs. Nil discards.
	Logger *slog.Logger
	// Rolled, if not nil, is called when a segment was begun at the end of the
	// log, base, before anything is appended to it: the time to write the
	// producer snapshot of base. It runs on the goroutine of the append, which
	// may still fail, and must not change the log.
	Rolled func(base ident.Offset)
	// LowerRecoveryPoint, if not nil, is called before bytes below the
	// flushed end are cut off, and returns when the new recovery point is
	// durable. Without it a crash right after the cut would look like damage.
	LowerRecoveryPoint func(ident.Offset) error
}

// Settings are those of a topic that its log obeys. Ages and sizes follow
// Kafka's settings of the names given.
type Settings struct {
	// SegmentBytes is the size beyond which a segment is rolled
	// (segment.bytes). 0 means 1 GiB.
	SegmentBytes int64
	// SegmentAge is the time after which a segment is rolled by the next
	// append (segment.ms). 0 means 7 days.
	SegmentAge time.Duration
	// SegmentJitter is the most that is taken off SegmentAge at random
	// (segment.jitter.ms). 0 means none.
	SegmentJitter time.Duration
	// IndexInterval is the number of bytes between two entries of an index
	// (index.interval.bytes). 0 means 4096; 1 makes an entry for every batch
	// but the first.
	IndexInterval int
	// IndexBytes is the largest size of an index file; a full one rolls the
	// segment (segment.index.bytes). 0 means 10 MiB.
	IndexBytes int
	// Delete lets retention delete old segments (cleanup.policy has delete).
	Delete bool
	// RetentionAge is how long a segment is kept after its youngest record
	// (retention.ms). 0 keeps nothing beyond the active segment's roll;
	// negative means for ever.
	RetentionAge time.Duration
	// RetentionBytes is the size that the log is cut down to
	// (retention.bytes). Negative means unlimited.
	RetentionBytes int64
	// Preallocate reserves SegmentBytes for each new segment (preallocate).
	Preallocate bool
}

const (
	segmentBytesDefault  = 1 << 30
	segmentAgeDefault    = 7 * 24 * time.Hour
	indexIntervalDefault = 4096
	indexBytesDefault    = 10 << 20
	// segmentBytesMax is what a position in an offset index can name.
	segmentBytesMax = 1<<31 - 1
)

// withDefaults returns the settings with zero fields filled in and limits
// applied.
func (s Settings) withDefaults() Settings {
	if s.SegmentBytes <= 0 {
		s.SegmentBytes = segmentBytesDefault
	}
	s.SegmentBytes = min(s.SegmentBytes, segmentBytesMax)
	if s.SegmentAge <= 0 {
		s.SegmentAge = segmentAgeDefault
	}
	if s.IndexInterval <= 0 {
		s.IndexInterval = indexIntervalDefault
	}
	if s.IndexBytes <= 0 {
		s.IndexBytes = indexBytesDefault
	}
	return s
}

func (c *Config) validate() error {
	switch {
	case c.FS == nil:
		return errors.New("storage: Config.FS is missing")
	case c.Dir == "":
		return errors.New("storage: Config.Dir is empty")
	case c.Codecs == nil:
		return errors.New("storage: Config.Codecs is missing")
	case c.Now == nil:
		return errors.New("storage: Config.Now is missing")
	case c.Start < 0 || c.RecoveryPoint < 0:
		return fmt.Errorf("storage: Config.Start %d and RecoveryPoint %d must not be negative", c.Start, c.RecoveryPoint)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Settings = c.Settings.withDefaults()
	return nil
}
