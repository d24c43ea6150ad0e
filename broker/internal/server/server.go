// Package server accepts connections, reads request frames and writes replies.
//
// Each connection has two goroutines. The reader takes one frame after the
// other and hands it to the [Handler], which may answer at once or later. The
// writer sends the replies in the order of the requests, as the protocol
// demands, whichever is ready first.
//
// # Limits
//
// Before the body of a frame is read, its cost (the frame and what decoding
// may make of it, see [wire.Cost]) is reserved: first within the connection,
// then within the server, where large frames do not take the room of small ones.
// A reader that finds no room waits, and with it the
// client, whose socket fills up. The reservation ends when the reply has been
// written. A frame that is oversized, malformed or does not arrive in time
// closes its own connection with one line in the log and touches no other.
//
// docs/design/broker-front.md has the reasons.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/millrace/millrace/broker/internal/wire"
)

// Handler takes one request frame, without its length, that came in on a
// connection. It is called by the connection's reader, in order, and must not
// wait for anything slow. done must be called exactly once, from any
// goroutine, with the reply, or with nil for a request that gets none; the
// frame belongs to the handler until then. An error means that the frame could
// not be understood: done is not called and the connection is closed.
type Handler func(c *Conn, frame []byte, done func(*wire.Reply)) error

// Listener is a bound socket under the name that Kafka's listener settings
// give it, such as PLAINTEXT.
type Listener struct {
	Name string
	net.Listener
}

// Config describes a server. Zero fields get the defaults named here.
type Config struct {
	// Listeners are owned by the server from New on. At least one is required.
	Listeners []Listener
	// Handle is required.
	Handle Handler
	// Log is required.
	Log *slog.Logger
	// Limits bounds frames.
	Limits wire.Limits
	// InFlightTotal bounds the bytes reserved by all requests that are not
	// answered yet; 512 MiB by default. One half is for requests that cost
	// less than a 64th of it, the other for larger ones; one that costs more
	// than half of its half reserves that much.
	InFlightTotal int64
	// InFlightPerConn is the same for one connection, and counts what replies
	// hold until they are written; 32 MiB by default. A request that costs
	// more is let in when it is the only one.
	InFlightPerConn int64
	// RequestsPerConn bounds the requests of a connection that are not
	// answered yet; 256 by default.
	RequestsPerConn int
	// Connections bounds the open connections; 10,000 by default.
	Connections int
	// IdleTimeout closes a connection on which nothing was sent for as long,
	// and none is waiting for a reply; Kafka's connections.max.idle.ms, 10
	// minutes by default. A client that does not read its replies for as long
	// is cut off too.
	IdleTimeout time.Duration
	// FrameTimeout is the time within which a frame must arrive once its first
	// byte has, plus a second for each MiB; 30 s by default.
	FrameTimeout time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Listeners) == 0 || c.Handle == nil || c.Log == nil {
		return c, errors.New("server: Listeners, Handle and Log are required")
	}
	c.Limits = c.Limits.WithDefaults()
	setDefault(&c.InFlightTotal, 512<<20)
	setDefault(&c.InFlightPerConn, 32<<20)
	setDefault(&c.RequestsPerConn, 256)
	setDefault(&c.Connections, 10_000)
	setDefault(&c.IdleTimeout, 10*time.Minute)
	setDefault(&c.FrameTimeout, 30*time.Second)
	if c.InFlightTotal < 0 || c.InFlightPerConn < 0 || c.RequestsPerConn < 0 || c.Connections < 0 || c.IdleTimeout < 0 || c.FrameTimeout < 0 {
		return c, errors.New("server: a limit is negative")
	}
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Server serves connections until it is stopped.
type Server struct {
	cfg          Config
	small, large lane
	writers      sync.Pool // of *bufio.Writer

	// ctx ends when the server begins to stop.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // acceptors and connections

	mu    sync.Mutex
	conns map[*Conn]struct{}
	full  bool // whether the connection limit was hit and logged
}

// New returns a server that does not accept yet.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg:   cfg,
		small: newLane(cfg.InFlightTotal / 2),
		large: newLane(cfg.InFlightTotal / 2),
		conns: make(map[*Conn]struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// lane is the memory for requests of a kind. Large requests have one of their
// own, since a client may take its time to send one, and all the others of the
// kind wait for it: heartbeats must not.
type lane struct {
	*semaphore.Weighted
	bytes int64
}

func newLane(bytes int64) lane { return lane{semaphore.NewWeighted(bytes), bytes} }

// reservation is memory that a request has in a lane.
type reservation struct {
	lane  *lane
	bytes int64
}

func (r reservation) release() { r.lane.Release(r.bytes) }

// reserve waits until there is room for a request that costs cost bytes, or ctx
// ends.
func (s *Server) reserve(ctx context.Context, cost int64) (reservation, error) {
	l := &s.small
	if cost >= s.cfg.InFlightTotal/64 {
		l = &s.large
	}
	r := reservation{l, min(cost, l.bytes/2)}
	return r, l.Acquire(ctx, r.bytes)
}

// Start begins to accept connections.
func (s *Server) Start() {
	for _, l := range s.cfg.Listeners {
		s.wg.Go(func() { s.accept(l) })
	}
}

// Drain stops accepting and reading, and ends the context of all connections,
// so that parked requests are answered early. It does not wait.
func (s *Server) Drain() {
	s.cancel()
	for _, l := range s.cfg.Listeners {
		_ = l.Close() // nothing is lost with a listening socket
	}
	for _, c := range s.all() {
		c.drain()
	}
}

// Stop drains, lets replies go out until ctx ends, and then closes what is
// left. It returns when no goroutine of the server runs.
func (s *Server) Stop(ctx context.Context) {
	s.Drain()
	stopped := make(chan struct{})
	go func() { s.wg.Wait(); close(stopped) }()
	select {
	case <-stopped:
		return
	case <-ctx.Done():
	}
	for _, c := range s.all() {
		c.close()
	}
	<-stopped
}

// Kill closes everything at once and returns when no goroutine of the server
// runs.
func (s *Server) Kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Stop(ctx)
}

func (s *Server) all() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// accept runs until the listener is closed. Failures such as too many open
// files pass, so it waits and tries again.
func (s *Server) accept(l Listener) {
	const waitMax = time.Second
	wait := 5 * time.Millisecond
	for {
		nc, err := l.Accept()
		if err == nil {
			wait = 5 * time.Millisecond
			s.serve(l.Name, nc)
			continue
		}
		if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		s.cfg.Log.Error("accepting a connection failed; trying again", "listener", l.Name, "in", wait, "err", err)
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, waitMax)
	}
}

// serve starts the goroutines of a connection, unless there are too many.
func (s *Server) serve(listener string, nc net.Conn) {
	c := newConn(s, listener, nc)
	s.mu.Lock()
	stopping := s.ctx.Err() != nil
	over := len(s.conns) >= s.cfg.Connections
	if !stopping && !over {
		s.conns[c] = struct{}{}
		s.wg.Add(1)
	}
	news := over && !s.full
	s.full = over
	s.mu.Unlock()
	if stopping || over {
		if news {
			s.cfg.Log.Warn("too many connections; new ones are closed until some end",
				"limit", s.cfg.Connections, "client", nc.RemoteAddr().String())
		}
		c.close()
		return
	}
	go func() {
		defer s.wg.Done()
		c.run()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

// errSlow says that a frame was begun and not finished in time.
var errSlow = fmt.Errorf("%w: it did not arrive in time", wire.ErrMalformed)
