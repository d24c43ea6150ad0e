package cluster

import (
	"context"
	"sync"

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

// producerIDs are those that this broker took and has not given away.
type producerIDs struct {
	filling chan struct{} // holds a token while a block is fetched
	mu      sync.Mutex
	left    ProducerIDs
}

// take gives away one id, if there is one.
func (p *producerIDs) take() (ident.ProducerID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left.Count == 0 {
		return ident.NoProducer, false
	}
	id := p.left.First
	p.left.First++
	p.left.Count--
	return id, true
}

// fill replaces the ids, of which there are none left.
func (p *producerIDs) fill(block ProducerIDs) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = block
}

// NextProducerID returns a producer id that was never given away. It takes a
// new block when the last one is used up, which waits for a commit.
func (n *Node) NextProducerID(ctx context.Context) (ident.ProducerID, error) {
	for {
		if id, ok := n.ids.take(); ok {
			return id, nil
		}
		select {
		case n.ids.filling <- struct{}{}:
		case <-ctx.Done():
			return ident.NoProducer, timedOut(ctx.Err())
		}
		id, ok := n.ids.take() // another call may have filled meanwhile
		var err error
		if !ok {
			var block ProducerIDs
			if block, err = n.AllocateProducerIDs(ctx); err == nil {
				n.ids.fill(block)
			}
		}
		<-n.ids.filling
		if ok || err != nil {
			return id, err
		}
	}
}
