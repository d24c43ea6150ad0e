package cluster

import (
	"errors"
	"fmt"
	"time"

	"slices"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/millrace/millrace/broker/internal/ident"
)

// snapshotVersion is the version of snapshots that this release writes, and
// the newest that it reads (docs/format/metadata-log.md).
const snapshotVersion = 1

// encode returns the image as bytes; equal images have equal bytes.
func (m *Image) encode() []byte {
	b := kbin.AppendInt8(nil, snapshotVersion)
	b = kbin.AppendInt64(b, int64(m.index))
	b = kbin.AppendCompactString(b, m.clusterID)
	b = kbin.AppendInt64(b, int64(m.nextPID))
	b = kbin.AppendCompactArrayLen(b, len(m.brokers))
	for _, broker := range m.brokers {
		b = kbin.AppendInt32(b, int32(broker.ID))
		b = kbin.AppendInt64(b, broker.Epoch)
		b = kbin.AppendUuid(b, broker.Incarnation)
		b = kbin.AppendCompactString(b, broker.Rack)
		b = appendEndpoints(b, broker.Endpoints)
	}
	b = kbin.AppendCompactArrayLen(b, len(m.topics))
	for _, t := range m.topics {
		b = kbin.AppendCompactString(b, t.Name)
		b = kbin.AppendUuid(b, t.ID)
		b = kbin.AppendInt64(b, t.Created.UnixMilli())
		b = appendSettings(b, t.Settings)
		b = kbin.AppendCompactArrayLen(b, len(t.Partitions))
		for i := range t.Partitions {
			b = appendPartition(b, &t.Partitions[i])
		}
	}
	return b
}

func appendPartition(b []byte, p *Partition) []byte {
	b = kbin.AppendInt32(b, int32(p.Leader))
	b = kbin.AppendInt32(b, int32(p.LeaderEpoch))
	b = kbin.AppendInt32(b, p.Epoch)
	b = appendBrokers(b, p.Replicas)
	return appendBrokers(b, p.ISR)
}

// decodeImage reads what encode wrote. A newer version is ErrNewerFormat.
func decodeImage(b []byte) (*Image, error) {
	r := &kbin.Reader{Src: b}
	if version := r.Int8(); r.Ok() && version != snapshotVersion {
		return nil, fmt.Errorf("metadata snapshot of version %d: %w; this release knows version %d", version, ErrNewerFormat, snapshotVersion)
	}
	m := &Image{index: uint64(r.Int64()), clusterID: r.CompactString(), nextPID: ident.ProducerID(r.Int64())}
	m.brokers = readArray(r, func() *Broker {
		return &Broker{
			ID: ident.BrokerID(r.Int32()), Epoch: r.Int64(), Incarnation: r.Uuid(),
			Rack: r.CompactString(), Endpoints: readEndpoints(r),
		}
	})
	m.topics = readArray(r, func() *Topic {
		return &Topic{
			Name: r.CompactString(), ID: r.Uuid(), Created: time.UnixMilli(r.Int64()).UTC(),
			Settings: readSettings(r), Partitions: readArray(r, func() Partition { return readPartition(r) }),
		}
	})
	if err := complete(r); err != nil {
		return nil, fmt.Errorf("metadata snapshot of %d bytes: %w", len(b), err)
	}
	m.byID = slices.Clone(m.topics)
	slices.SortFunc(m.byID, func(a, b *Topic) int { return compareID(a, b.ID) })
	if err := m.checkOrder(); err != nil {
		return nil, fmt.Errorf("metadata snapshot: %w", err)
	}
	return m, nil
}

func readPartition(r *kbin.Reader) Partition {
	return Partition{
		Leader: ident.BrokerID(r.Int32()), LeaderEpoch: ident.LeaderEpoch(r.Int32()), Epoch: r.Int32(),
		Replicas: readBrokers(r), ISR: readBrokers(r),
	}
}

// checkOrder holds what lookups rely on: lists are sorted and without doubles.
func (m *Image) checkOrder() error {
	for i := 1; i < len(m.brokers); i++ {
		if m.brokers[i-1].ID >= m.brokers[i].ID {
			return errors.New("brokers are not in order of their ids")
		}
	}
	for i := 1; i < len(m.topics); i++ {
		if m.topics[i-1].Name >= m.topics[i].Name {
			return errors.New("topics are not in order of their names")
		}
		if m.byID[i-1].ID == m.byID[i].ID {
			return errors.New("two topics have the same id")
		}
	}
	return nil
}
