package cluster

import (
	"encoding/binary"

	"github.com/millrace/millrace/broker/internal/ident"
)

// placement gives partitions to brokers. Leaders go round the brokers; the
// further replicas of a partition follow its leader at a distance that grows
// by one with each round, so that the partitions that one broker leads are
// spread over all the others (as Kafka's AdminUtils does). Where a topic
// begins is drawn from its id, so that small topics do not all begin at the
// first broker, and partitions that are added later continue the pattern.
//
// Racks are not looked at.
type placement struct {
	brokers []ident.BrokerID // not empty
	start   int              // of partition 0's leader
	shift   int              // of its first follower, besides 1
}

// newPlacement draws where a topic begins.
func newPlacement(brokers []ident.BrokerID, id ident.TopicID) placement {
	n := uint32(len(brokers))
	return placement{
		brokers: brokers,
		start:   int(binary.BigEndian.Uint32(id[0:]) % n),
		shift:   int(binary.BigEndian.Uint32(id[4:]) % n),
	}
}

// replicas are the brokers of a partition, the preferred leader first. count
// must not exceed the number of brokers.
func (p placement) replicas(partition int, count int) []ident.BrokerID {
	n := len(p.brokers)
	leader := (p.start + partition) % n
	shift := p.shift + partition/n
	replicas := []ident.BrokerID{p.brokers[leader]}
	for i := range count - 1 {
		replicas = append(replicas, p.brokers[(leader+1+(shift+i)%(n-1))%n])
	}
	return replicas
}

// partitions are the brokers of the partitions from first up to end.
func (p placement) partitions(first, end int, count int) [][]ident.BrokerID {
	assignments := make([][]ident.BrokerID, 0, end-first)
	for i := first; i < end; i++ {
		assignments = append(assignments, p.replicas(i, count))
	}
	return assignments
}
