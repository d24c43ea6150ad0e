package broker

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/coord"
	"github.com/millrace/millrace/broker/internal/group"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/logs"
	"github.com/millrace/millrace/broker/internal/partition"
	"github.com/millrace/millrace/broker/internal/settings"
	"github.com/millrace/millrace/broker/internal/storage"
)

// applier makes the logs and the coordinators of this broker what the metadata
// says that they are: apply runs first for the whole image, then for each
// change, on the goroutine of the metadata's subscription; failed and recovered
// come in between.
type applier struct {
	self     ident.BrokerID
	settings *settings.Broker
	node     *cluster.Node
	logs     *logs.Manager
	groups   *group.Coordinator
	codecs   *batch.Codecs
	now      func() time.Time
	log      *slog.Logger

	mu      sync.Mutex // one change at a time
	started bool       // whether apply has run
}

// apply goes from one image to the next.
func (a *applier) apply(old, next *cluster.Image) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.started {
		a.started = true
		a.setStrayAside(next)
	}
	var work []func()
	for _, was := range old.Topics() {
		if is, ok := next.Topic(was.Name); !ok || is.ID != was.ID {
			work = append(work, a.topicGone(was)...)
		}
	}
	inParallel(work)
	work = nil
	for _, is := range next.Topics() {
		was, ok := old.Topic(is.Name)
		if ok && was == is {
			continue // images share what did not change
		}
		if ok && was.ID != is.ID {
			was = nil
		}
		work = append(work, a.topicChanged(was, is)...)
	}
	inParallel(work)
}

// atOnce is how many partitions are made or deleted at once. Each takes a few
// fsyncs, which a file system carries out together.
const atOnce = 16

// inParallel does the work on partitions, which does not depend on each other.
func inParallel(work []func()) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, do := range work {
		g.Go(func() error { do(); return nil })
	}
	_ = g.Wait() // each reports what went wrong by itself
}

// setStrayAside takes partitions out of the way that the metadata does not
// know: their topics were deleted while this broker was away or right before it
// crashed, or the metadata was lost or restored from an old copy. Nobody can
// tell which, so they are not deleted.
func (a *applier) setStrayAside(image *cluster.Image) {
	for _, p := range a.logs.Partitions() {
		if t, ok := image.Topic(p.Name().Topic); ok && t.ID == p.TopicID() && a.holds(t, p.Name().Partition) {
			continue
		}
		if err := a.logs.SetAside(p.Name()); err != nil {
			a.log.Error("setting a partition aside", "partition", p.Name(), "err", err)
		}
	}
}

// holds reports whether this broker is a replica of a partition.
func (a *applier) holds(t *cluster.Topic, number int32) bool {
	return int(number) < len(t.Partitions) && slices.Contains(t.Partitions[number].Replicas, a.self)
}

// topicGone gives up a topic that was deleted, and returns what is to be done
// about its partitions.
func (a *applier) topicGone(t *cluster.Topic) (work []func()) {
	a.log.Info("topic deleted", "topic", t.Name, "id", t.ID, "partitions", len(t.Partitions))
	for i := range t.Partitions {
		number := int32(i)
		if t.Name == cluster.OffsetsTopic {
			a.groups.Resign(number)
		}
		if a.holds(t, number) {
			work = append(work, func() { a.delete(ident.TopicPartition{Topic: t.Name, Partition: number}) })
		}
	}
	if t.Name == cluster.OffsetsTopic {
		a.groups.SetPartitions(0)
	} else {
		a.groups.ForgetTopic(t.Name, t.ID)
	}
	return work
}

func (a *applier) delete(tp ident.TopicPartition) {
	if err := a.logs.Delete(tp); err != nil {
		a.log.Error("deleting the log of a partition", "partition", tp, "err", err)
	}
}

// topicChanged returns what is to be done about the partitions of a topic to
// make it what it is now; was is nil if it is new.
func (a *applier) topicChanged(was, is *cluster.Topic) (work []func()) {
	if is.Name == cluster.OffsetsTopic {
		a.groups.SetPartitions(int32(len(is.Partitions)))
	}
	own := a.partitionSettings(a.node.TopicSettings(is))
	for i := range is.Partitions {
		if !a.holds(is, int32(i)) {
			continue
		}
		var before *cluster.Partition
		if was != nil && i < len(was.Partitions) {
			before = &was.Partitions[i]
		}
		tp := ident.TopicPartition{Topic: is.Name, Partition: int32(i)}
		work = append(work, func() {
			p, err := a.open(tp, is.ID, own)
			if err != nil {
				a.log.Error("partition is off line; trying again", "partition", tp, "cause", err)
				a.logs.Retry(tp, func() error { return a.openLater(tp, is.ID) })
				return
			}
			a.lead(p, before, &is.Partitions[i])
		})
	}
	return work
}

// open returns a partition, made anew when its folder is that of an older
// topic of the same name.
func (a *applier) open(tp ident.TopicPartition, id ident.TopicID, s partition.Settings) (*partition.Partition, error) {
	p, err := a.logs.Create(tp, id, s)
	if _, old := errors.AsType[*logs.TopicIDError](err); !old {
		return p, err
	}
	if err := a.logs.SetAside(tp); err != nil {
		return nil, err
	}
	return a.logs.Create(tp, id, s)
}

// openLater opens a partition that could not be opened when the metadata
// changed, such as for want of space, unless its topic has gone since.
func (a *applier) openLater(tp ident.TopicPartition, id ident.TopicID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	image := a.node.Image()
	t, ok := image.Topic(tp.Topic)
	if !ok || t.ID != id {
		return nil
	}
	p, err := a.open(tp, id, a.partitionSettings(a.node.TopicSettings(t)))
	if err != nil {
		return err
	}
	a.lead(p, nil, &t.Partitions[tp.Partition])
	return nil
}

// lead takes a partition's leadership over or gives it up. before is its state
// up to now, nil if there was none.
func (a *applier) lead(p *partition.Partition, before, now *cluster.Partition) {
	coordinator := p.Name().Topic == cluster.OffsetsTopic
	if now.Leader != a.self {
		p.Resign()
		if coordinator {
			a.groups.Resign(p.Name().Partition)
		}
		return
	}
	err := p.BecomeLeader(partition.Leadership{Epoch: now.LeaderEpoch, PartitionEpoch: now.Epoch, InSync: now.ISR})
	if err != nil {
		a.log.Error("becoming the leader of a partition; it is offline", "partition", p.Name(), "err", err)
		return
	}
	if coordinator && (before == nil || before.Leader != a.self || before.LeaderEpoch != now.LeaderEpoch) {
		a.groups.Lead(p.Name().Partition, &coord.PartitionLog{
			Partition: p, Epoch: now.LeaderEpoch, Codecs: a.codecs, Now: a.now,
		})
	}
}

// failed drops the coordinator of a partition whose disk failed: it may know
// records that the log has lost.
func (a *applier) failed(p *partition.Partition) {
	if p.Name().Topic == cluster.OffsetsTopic {
		a.groups.Resign(p.Name().Partition)
	}
}

// recovered gives a partition whose disk had failed its leadership back.
func (a *applier) recovered(p *partition.Partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now, ok := a.node.Image().Partition(p.Name()); ok {
		a.lead(p, nil, now)
	}
}

// partitionSettings translates a topic's settings into those that partitions
// obey. Where the latter take zero for a default, an explicit zero of the
// topic becomes the smallest value above it.
func (a *applier) partitionSettings(t settings.Topic) partition.Settings {
	validation := batch.LevelFull
	if t.Validation == settings.ValidateHeader {
		validation = batch.LevelHeader
	}
	return partition.Settings{
		Log:                logSettings(t),
		BatchBytesMax:      max(1, int(t.MaxMessageBytes)),
		TimestampType:      batch.TimestampType(t.TimestampType),
		TimestampBeforeMax: max(1, t.TimestampBeforeMax),
		TimestampAfterMax:  max(1, t.TimestampAfterMax),
		Recompress:         t.Compression != settings.AsProduced,
		Codec:              batch.Codec(max(0, t.Compression)),
		Compact:            t.Cleanup.Compact,
		Validation:         validation,
		FlushRecords:       t.FlushMessages,
		FlushAge:           max(1, t.FlushEvery),
		InSyncMin:          int(t.MinInsyncReplicas),
		ProducerExpiry:     a.settings.ProducerIDExpiration,
	}
}

func logSettings(t settings.Topic) storage.Settings {
	return storage.Settings{
		SegmentBytes:   int64(t.SegmentBytes),
		SegmentAge:     t.SegmentAge,
		SegmentJitter:  t.SegmentJitter,
		IndexInterval:  orNegative(int(t.IndexIntervalBytes)),
		IndexBytes:     int(t.SegmentIndexBytes),
		Delete:         t.Cleanup.Delete,
		RetentionAge:   t.Retention,
		RetentionBytes: t.RetentionBytes,
		Preallocate:    t.Preallocate,
	}
}

// orNegative turns 0 into -1.
func orNegative(n int) int {
	if n == 0 {
		return -1
	}
	return n
}
