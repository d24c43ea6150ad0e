package api

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/ident"
)

// InitProducerId (key 22), versions 0 to 5.
//
// KIP-98 (idempotence), KIP-360 (a producer may name its id and epoch, version
// 3), KIP-890 (version 5, same fields).
//
// Errors: INVALID_REQUEST for an id without an epoch, an epoch without an id,
// and an empty transactional id; REQUEST_TIMED_OUT when no block of ids could
// be had in time. A transactional id gets UNSUPPORTED_VERSION, which clients
// take as final: there are no transactions yet.
func (s *Service) initProducerID(r *Request, in *kmsg.InitProducerIDRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = int64(ident.NoProducer), int16(ident.NoProducerEpoch)
	fail := func(err error) {
		resp.ErrorCode = errorCode(err)
		reply(resp)
	}
	switch {
	case (in.ProducerID == int64(ident.NoProducer)) != (in.ProducerEpoch == int16(ident.NoProducerEpoch)):
		fail(kerr.InvalidRequest)
	case in.TransactionalID != nil && *in.TransactionalID == "":
		fail(kerr.InvalidRequest)
	case in.TransactionalID != nil:
		fail(kerr.UnsupportedVersion)
	default:
		s.producerIDs.take(func(id ident.ProducerID, err error) {
			if err != nil {
				fail(err)
				return
			}
			resp.ProducerID, resp.ProducerEpoch = int64(id), 0
			reply(resp)
		})
	}
}

// producerIDs hands out producer ids one by one from blocks that the cluster
// gives to this broker. What is left of a block when the broker stops is lost,
// as in Kafka: there are 2^63.
type producerIDs struct {
	allocate func(context.Context) (cluster.ProducerIDs, error)
	async    func(time.Duration, func(context.Context))

	mu      sync.Mutex
	block   cluster.ProducerIDs
	waiting []func(ident.ProducerID, error) // not empty while a block is being fetched
}

// blockTimeout is how long requests wait for a new block of ids.
const blockTimeout = 5 * time.Second

// take calls done with the next id, at once if the block holds one.
func (p *producerIDs) take(done func(ident.ProducerID, error)) {
	p.mu.Lock()
	if p.block.Count > 0 {
		id := p.pop()
		p.mu.Unlock()
		done(id, nil)
		return
	}
	p.waiting = append(p.waiting, done)
	first := len(p.waiting) == 1
	p.mu.Unlock()
	if first {
		p.async(blockTimeout, p.refill)
	}
}

func (p *producerIDs) pop() ident.ProducerID {
	id := p.block.First
	p.block.First++
	p.block.Count--
	return id
}

// refill fetches a block and serves those who wait, again if they are more
// than a block holds.
func (p *producerIDs) refill(ctx context.Context) {
	for {
		block, err := p.allocate(ctx)
		if ctx.Err() != nil && err != nil {
			err = kerr.RequestTimedOut
		}
		p.mu.Lock()
		var ready []func()
		if err == nil {
			p.block = block
		}
		for len(p.waiting) > 0 && (err != nil || p.block.Count > 0) {
			done := p.waiting[0]
			p.waiting = p.waiting[1:]
			id := ident.NoProducer
			if err == nil {
				id = p.pop()
			}
			ready = append(ready, func() { done(id, err) })
		}
		more := len(p.waiting) > 0
		p.mu.Unlock()
		for _, f := range ready {
			f()
		}
		if !more {
			return
		}
	}
}
