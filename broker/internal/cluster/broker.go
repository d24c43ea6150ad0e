package cluster

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/ident"
)

// RegisterBroker makes this broker known with its addresses and returns its
// broker epoch. It is called once after each start. The partitions that the
// broker leads get a new leader epoch.
func (n *Node) RegisterBroker(ctx context.Context, endpoints []Endpoint) (epoch int64, err error) {
	incarnation, err := n.newID()
	if err != nil {
		return 0, err
	}
	out, err := n.propose(ctx, &registerBroker{
		broker: n.cfg.Broker, incarnation: incarnation, rack: n.cfg.Settings.Rack, endpoints: endpoints,
	})
	return out.brokerEpoch, err
}

// ProducerIDBlock is how many producer ids a broker takes at once; those that
// it has not given away when it stops are lost.
const ProducerIDBlock = 1000

// ProducerIDs is a run of producer ids that nobody else gets.
type ProducerIDs struct {
	First ident.ProducerID
	Count int32
}

// AllocateProducerIDs takes the next block of producer ids for this broker,
// which must be registered.
func (n *Node) AllocateProducerIDs(ctx context.Context) (ProducerIDs, error) {
	self, ok := n.Image().Broker(n.cfg.Broker)
	if !ok {
		return ProducerIDs{}, refuse(kerr.BrokerNotAvailable, "broker %d is not registered yet", n.cfg.Broker)
	}
	out, err := n.propose(ctx, &allocateProducerIDs{broker: self.ID, brokerEpoch: self.Epoch, count: ProducerIDBlock})
	return out.ids, err
}
