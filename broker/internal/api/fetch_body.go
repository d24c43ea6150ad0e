package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/wire"
)

// fetchBody is a Fetch reply whose record batches go from file to socket. The
// kmsg response holds all but the records; records[i] are those of the i-th
// partition, counted through all topics, nil for none.
type fetchBody struct {
	*kmsg.FetchResponse
	records []wire.Run
}

// writeInto encodes the body (FetchResponse.json, versions 4 to 18) into a
// reply, which owns the chunks from then on.
func (b *fetchBody) writeInto(r *wire.Reply) {
	e := wire.Encoder{Reply: r, Flexible: b.IsFlexible()}
	e.Int32(b.ThrottleMillis)
	if b.Version >= 7 {
		e.Int16(b.ErrorCode)
		e.Int32(b.SessionID)
	}
	e.Len(len(b.Topics))
	chunk := 0
	for i := range b.Topics {
		t := &b.Topics[i]
		if b.Version >= 13 {
			e.UUID(t.TopicID)
		} else {
			e.String(t.Topic)
		}
		e.Len(len(t.Partitions))
		for j := range t.Partitions {
			b.writePartition(e, &t.Partitions[j], b.records[chunk])
			chunk++
		}
		e.NoTags()
	}
	if len(b.Brokers) == 0 {
		e.NoTags()
		return
	}
	e.Uvarint(1)
	e.Tag(0, b.writeBrokers)
}

func (b *fetchBody) writePartition(e wire.Encoder, p *kmsg.FetchResponseTopicPartition, records wire.Run) {
	e.Int32(p.Partition)
	e.Int16(p.ErrorCode)
	e.Int64(p.HighWatermark)
	e.Int64(p.LastStableOffset)
	if b.Version >= 5 {
		e.Int64(p.LogStartOffset)
	}
	if p.AbortedTransactions == nil {
		e.Len(-1)
	} else {
		e.Len(len(p.AbortedTransactions))
	}
	for _, a := range p.AbortedTransactions {
		e.Int64(a.ProducerID)
		e.Int64(a.FirstOffset)
		e.NoTags()
	}
	if b.Version >= 11 {
		e.Int32(p.PreferredReadReplica)
	}
	if records == nil {
		e.Len(0) // not null: older clients fail on that
	} else {
		e.Len(records.Len())
		e.AppendRun(records)
	}
	if p.CurrentLeader.LeaderID < 0 || !e.Flexible {
		e.NoTags()
		return
	}
	e.Uvarint(1)
	e.Tag(1, func(e wire.Encoder) {
		e.Int32(p.CurrentLeader.LeaderID)
		e.Int32(p.CurrentLeader.LeaderEpoch)
		e.NoTags()
	})
}

// writeBrokers encodes where the leaders are that CurrentLeader names (KIP-951).
func (b *fetchBody) writeBrokers(e wire.Encoder) {
	e.Len(len(b.Brokers))
	for _, n := range b.Brokers {
		e.Int32(n.NodeID)
		e.String(n.Host)
		e.Int32(n.Port)
		e.NullableString(n.Rack)
		e.NoTags()
	}
}
