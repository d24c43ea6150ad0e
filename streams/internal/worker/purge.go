package worker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// purgeInterval is how often a thread deletes what nobody needs any more from internal topics; Kafka's
// repartition.purge.interval.ms.
const purgeInterval = 30 * time.Second

// purge deletes, some time after the last time, the records of repartition topics that are committed, and the changes of
// window and session stores that have expired (docs/decisions/changelog-timestamps.md). It does not wait: what fails
// is tried again the next time.
func (t *thread) purge() {
	now := t.rt.cfg.Now()
	if now.Sub(t.purged) < purgeInterval {
		return
	}
	t.purged = now
	if len(t.running()) > 0 {
		t.rt.dir.clean(now, t.log)
	}
	offsets := t.purgeable()
	if len(offsets) == 0 {
		return
	}
	t.rt.background.Go(func() {
		ctx, cancel := context.WithTimeout(t.produceCtx, requestTimeout)
		defer cancel()
		done, err := t.rt.admin.DeleteRecords(ctx, offsets)
		if err == nil {
			err = done.Error()
		}
		if err != nil && ctx.Err() == nil {
			t.log.Warn("cannot delete what is no longer needed from internal topics; they grow meanwhile", "err", err)
		}
	})
}

// purgeable returns, for each partition of internal topics, the offset below which nothing is needed.
func (t *thread) purgeable() kadm.Offsets {
	offsets := kadm.Offsets{}
	for _, r := range t.running() {
		for topic, in := range r.inputs {
			if t.rt.isRepartition(topic) && in.offset > 0 {
				offsets.AddOffset(topic, r.id.Partition, in.offset, -1)
			}
		}
		for store, topic := range r.out.changelogs {
			if before, ok := r.stores.PurgeBefore(store); ok {
				offsets.AddOffset(topic, r.id.Partition, before, -1)
			}
		}
	}
	return offsets
}
