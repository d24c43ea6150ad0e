package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// readErrorWait keeps a thread from asking again at once, which kgo would do thousands of times in a second.
	readErrorWait = 50 * time.Millisecond
	// readErrorLogInterval is the time between two lines about one topic that cannot be read.
	readErrorLogInterval = 10 * time.Second
	// readErrorGap without an error is the end of a trouble: partitions without records do not tell.
	readErrorGap = 5 * time.Second
	// topicGoneMax is how long an input topic may be unknown to the brokers. New leaders may learn of it late.
	topicGoneMax = 30 * time.Second
)

// failing is an input topic that cannot be read.
type failing struct{ since, last, logged time.Time }

// readErrors deals with the errors of a poll: it returns those that end the job, logs the others now and then, and waits a
// little if there was nothing but errors.
func (t *thread) readErrors(ctx context.Context, fetches kgo.Fetches) error {
	var fatal error
	failed := false
	fetches.EachError(func(topic string, partition int32, err error) {
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return
		case isFatal(err):
			fatal = fmt.Errorf("reading %s[%d]: %w", topic, partition, err)
			return
		}
		failed = true
		since, log := t.failed(topic)
		var group *kgo.ErrGroupSession
		switch {
		case isUnknownTopic(err) && since > topicGoneMax:
			fatal = fmt.Errorf("input topic %q is gone: it was deleted, or deleted and made again, under the job: %w", topic, err)
		case !log:
		case errors.As(err, &group):
			t.log.Warn("cannot join the job's group yet; trying again", "group", t.rt.cfg.Topology.Application, "err", group.Err)
		default:
			t.log.Warn("cannot read an input yet; trying again", "topic", topic, "partition", partition, "for", since, "err", err)
		}
	})
	if fatal != nil {
		return fatal
	}
	if failed && fetches.NumRecords() == 0 {
		select {
		case <-time.After(readErrorWait):
		case <-ctx.Done():
		}
	}
	return nil
}

// failed notes an error of a topic, and returns for how long there have been some, and whether to log it.
func (t *thread) failed(topic string) (since time.Duration, log bool) {
	now := t.rt.cfg.Now()
	f, ok := t.failing[topic]
	if !ok || now.Sub(f.last) > readErrorGap {
		f = &failing{since: now}
		t.failing[topic] = f
	}
	f.last = now
	if log = now.Sub(f.logged) >= readErrorLogInterval; log {
		f.logged = now
	}
	return now.Sub(f.since), log
}

func isUnknownTopic(err error) bool {
	return errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.InconsistentTopicID)
}

// isFatal tells errors that trying again does not mend.
func isFatal(err error) bool {
	for _, fatal := range []error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.InconsistentGroupProtocol, kerr.FencedInstanceID, kerr.GroupMaxSizeReached, kgo.ErrClientClosed,
	} {
		if errors.Is(err, fatal) {
			return true
		}
	}
	return false
}
