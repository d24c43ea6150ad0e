// Package api answers requests.
//
// One table of rows {key, min, max, handler} drives both what is dispatched
// and what ApiVersions advertises, so the two cannot disagree. Each API has a
// file of its own, named after it, whose comment names the versions, the KIPs
// behind them, the errors and what is not there yet.
//
// # How a handler works
//
// A handler authorises, validates, calls the domain and builds the reply in
// the order of the request. It is called on the goroutine that reads the
// client's connection, one request after the other, so what it does at once
// happens in arrival order. It must not wait for a disk flush, another broker
// or more data: it parks a completion and calls its [Reply]
// later, from any goroutine, exactly once.
//
//	func (s *Service) heartbeat(r *Request, in *kmsg.HeartbeatRequest, reply Reply) {
//		resp := in.ResponseKind().(*kmsg.HeartbeatResponse)
//		…
//		reply(resp)
//	}
//
// and its row in table.go:
//
//	serve(0, 4, (*Service).heartbeat),
//
// An error that belongs to a topic, a partition or a group goes into the reply
// as the code that [errorCode] gives; nothing else maps errors to codes.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/group"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
	"github.com/millrace/millrace/broker/internal/settings"
	"github.com/millrace/millrace/broker/internal/wire"
)

// Deps is what handlers work with. All fields are required.
type Deps struct {
	// BrokerID is the id of this broker.
	BrokerID ident.BrokerID
	// Cluster holds the metadata.
	Cluster *cluster.Node
	// Logs holds the partitions on this broker.
	Logs Logs
	// Groups serves the consumer groups whose coordinator this broker is.
	Groups *group.Coordinator
	// Settings are this broker's.
	Settings *settings.Broker
	// Now is the wall clock.
	Now func() time.Time
	// Log receives what no client is told, such as failed disks.
	Log *slog.Logger
}

// Logs finds the partitions on this broker; logs.Manager does.
type Logs interface {
	// Get returns a partition that is open.
	Get(ident.TopicPartition) (*partition.Partition, bool)
}

// Request is what a handler knows about a request besides its body. The body
// and all its slices alias the frame, which stays untouched until the reply
// was given; strings are copies.
type Request struct {
	wire.Header
	// Listener is the name of the listener the client came through, such as
	// PLAINTEXT; its advertised address is what the client can reach.
	Listener string
	// ClientAddr is the client's address.
	ClientAddr net.Addr
	// Principal is who the client proved to be, in Kafka's form.
	Principal string
	// Arrived is when the frame had been read.
	Arrived time.Time
	// Context ends when the client's connection does, or the broker begins to
	// stop: a parked request is then answered at once or dropped.
	Context context.Context
	// Disconnect closes the connection: the only way to tell a client
	// something that expects no reply.
	Disconnect func()
}

// Anonymous is the principal of a client that did not authenticate.
const Anonymous = "User:ANONYMOUS"

// Body is the body of a reply: any kmsg response, or one built by hand.
type Body interface {
	// IsFlexible reports whether the reply's version is flexible.
	IsFlexible() bool
	// AppendTo appends the encoded body.
	AppendTo([]byte) []byte
}

// Reply gives the answer to a request. It must be called exactly once, and
// may be called from any goroutine. nil answers nothing, which is right only
// for a Produce request with acks=0.
type Reply func(Body)

// Service answers requests. Its methods may be called concurrently.
type Service struct {
	Deps
	rows        map[int16]row // by API key
	producerIDs *producerIDs

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // what async started
}

// New returns a service. It is to be closed.
func New(d Deps) *Service {
	s := &Service{Deps: d, rows: make(map[int16]row)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.producerIDs = &producerIDs{allocate: d.Cluster.AllocateProducerIDs, async: s.async}
	for _, r := range table() {
		if _, twice := s.rows[r.key]; twice {
			panic(fmt.Sprintf("api: two rows for key %d", r.key))
		}
		s.rows[r.key] = r
	}
	return s
}

// Handle answers the request in frame, which came without its length. done is
// called exactly once, from any goroutine, with the reply (nil if the request
// asks for none) unless Handle returns an error: then the frame was malformed
// or of no supported version, done is not called, and the connection is beyond
// saving. The frame belongs to Handle until done was called.
//
// r holds what the server knows of the connection; Handle fills in its header.
func (s *Service) Handle(r *Request, frame []byte, done func(*wire.Reply)) error {
	h, body, err := wire.ParseHeader(frame)
	if err != nil {
		return err
	}
	r.Header = h
	row, ok := s.rows[h.Key]
	if !ok {
		return fmt.Errorf("%w: key %d (%s) is not served", wire.ErrMalformed, h.Key, kmsg.NameForKey(h.Key))
	}
	if h.Version < row.min || h.Version > row.max {
		if h.Key == int16(kmsg.ApiVersions) {
			done(s.apiVersionsTooNew(h))
			return nil
		}
		return fmt.Errorf("%w: %s version %d is not served, only %d to %d",
			wire.ErrMalformed, kmsg.NameForKey(h.Key), h.Version, row.min, row.max)
	}
	if h.Key == int16(kmsg.Produce) {
		if err := wire.CheckProduce(h.Version, body); err != nil {
			return err
		}
	}
	in := kmsg.RequestForKey(h.Key)
	in.SetVersion(h.Version)
	if err := in.ReadFrom(body); err != nil {
		return fmt.Errorf("%w: decoding %s version %d: %w", wire.ErrMalformed, kmsg.NameForKey(h.Key), h.Version, err)
	}
	row.handle(s, r, in, func(b Body) { done(encode(h, b)) })
	return nil
}

// encode turns a handler's answer into a frame.
func encode(h wire.Header, b Body) *wire.Reply {
	if b == nil {
		return nil
	}
	reply := wire.NewReply(h, b.IsFlexible())
	if runs, ok := b.(interface{ writeInto(*wire.Reply) }); ok {
		runs.writeInto(reply)
		return reply
	}
	reply.Append(b.AppendTo)
	return reply
}
