package cli

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// remaining tells when a reader has reached the ends that the partitions of a
// topic had when it began. A nil remaining never ends.
//
// The last offset of a partition may hold a control record, which a client
// hides by default: the reader has to keep those, and pass them to saw.
type remaining struct {
	// ends holds the partitions not yet read to their end.
	ends map[int32]int64
}

// remainingRecords looks up what a reader that begins at from (as in --from)
// has ahead of it.
func remainingRecords(ctx context.Context, admin *kadm.Client, topic, from string, committed bool) (*remaining, error) {
	starts, err := targetOffsets(ctx, admin, []string{topic}, from)
	if err != nil {
		return nil, err
	}
	list := admin.ListEndOffsets
	if committed {
		list = admin.ListCommittedOffsets
	}
	ends, err := listed(list(ctx, topic))
	if err != nil {
		return nil, err
	}
	left := &remaining{ends: map[int32]int64{}}
	ends.Each(func(end kadm.ListedOffset) {
		if start, ok := starts.Lookup(topic, end.Partition); ok && start.At < end.Offset {
			left.ends[end.Partition] = end.Offset
		}
	})
	return left, nil
}

func (l *remaining) none() bool { return l != nil && len(l.ends) == 0 }

// saw takes note of a record, control records included.
func (l *remaining) saw(r *kgo.Record) {
	if l != nil && r.Offset+1 >= l.ends[r.Partition] {
		delete(l.ends, r.Partition)
	}
}
