package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/broker/internal/wire"
)

const (
	// readBufferBytes is for heads of frames and small frames; larger bodies
	// are read past the buffer. Every connection has one.
	readBufferBytes = 4 << 10
	// writeBufferBytes is what a connection has while it writes.
	writeBufferBytes = 32 << 10
)

// Conn is one client's connection.
type Conn struct {
	server   *Server
	listener string
	nc       net.Conn
	ctx      context.Context
	cancel   context.CancelFunc

	mu sync.Mutex
	// changed is signalled when the head of the queue got its reply, when room
	// was made, when reading ended, and when the connection was closed.
	changed *sync.Cond
	// queue holds the requests without a written reply, oldest first.
	queue    []*pending
	reserved int64 // bytes of the queue: costs, and replies that are not written yet
	readEnd  bool  // no more requests will come
	closed   bool
}

// pending is a request on its way to a reply.
type pending struct {
	room  reservation
	ready bool
	reply *wire.Reply // nil for a request that gets none
	held  int64       // bytes that the reply holds
}

func newConn(s *Server, listener string, nc net.Conn) *Conn {
	c := &Conn{server: s, listener: listener, nc: nc}
	c.changed = sync.NewCond(&c.mu)
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	return c
}

// Listener is the name of the listener that the client came through.
func (c *Conn) Listener() string { return c.listener }

// RemoteAddr is the client's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Context ends when the connection is closed or the server begins to stop.
func (c *Conn) Context() context.Context { return c.ctx }

// Close cuts the connection. Replies that were not written are dropped.
func (c *Conn) Close() { c.close() }

// run serves the connection until it is closed and both its goroutines ended.
func (c *Conn) run() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.writeLoop()
	}()
	err := c.readLoop()
	if err == nil {
		c.endReading() // answer what is pending, then close
	} else {
		if errors.Is(err, wire.ErrMalformed) {
			c.server.cfg.Log.Warn("closing a connection", "client", c.RemoteAddr().String(), "listener", c.listener, "err", err)
		}
		c.close()
	}
	<-written
	c.close()
}

// drain makes the reader stop, so that the connection ends when all pending
// requests are answered.
func (c *Conn) drain() { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) }

func (c *Conn) endReading() {
	c.mu.Lock()
	c.readEnd = true
	c.changed.Broadcast()
	c.mu.Unlock()
}

// close cuts the connection and drops what is pending.
func (c *Conn) close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	// Which of them have their replies is settled here: one that gets its
	// reply from now on is discarded by complete.
	dropped := slices.DeleteFunc(c.queue, func(p *pending) bool { return !p.ready })
	c.queue = nil
	c.changed.Broadcast()
	c.mu.Unlock()

	c.cancel()
	_ = c.nc.Close() // the client is gone or unwanted; there is nobody to tell
	for _, p := range dropped {
		c.discard(p)
	}
}

// discard ends a request whose reply nobody will get.
func (c *Conn) discard(p *pending) {
	if p.reply != nil {
		_ = p.reply.Close() // nothing was promised about it
	}
	p.room.release()
}

// readLoop reads frames and hands them over. It returns nil when the server is
// stopping, so that replies still go out, and else why the connection is over:
// a client that closes it does not wait for replies, as Kafka has it too.
func (c *Conn) readLoop() error {
	in := bufio.NewReaderSize(c.nc, readBufferBytes)
	for {
		frame, room, err := c.readFrame(in)
		if err != nil {
			if c.server.ctx.Err() != nil {
				return nil
			}
			return err
		}
		p := &pending{room: room}
		if !c.enqueue(p) {
			room.release()
			return net.ErrClosed
		}
		if err := c.server.cfg.Handle(c, frame, func(r *wire.Reply) { c.complete(p, r) }); err != nil {
			c.complete(p, nil)
			return err
		}
	}
}

// readFrame waits for a frame, reserves its cost and reads it. io.EOF means
// that the client closed the connection where no frame had begun.
func (c *Conn) readFrame(in *bufio.Reader) (frame []byte, room reservation, err error) {
	if err := c.awaitFrame(in); err != nil {
		return nil, room, err
	}
	c.setReadDeadline(c.server.cfg.FrameTimeout)
	var head [4 + wire.PrefixLen]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, room, partial(err)
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	if size < wire.PrefixLen {
		return nil, room, fmt.Errorf("%w: a frame of %d bytes", wire.ErrMalformed, size)
	}
	key, _ := wire.Peek(head[4:])
	if err := c.server.cfg.Limits.Check(key, size); err != nil {
		return nil, room, err
	}
	if room, err = c.reserve(wire.Cost(key, size)); err != nil {
		return nil, room, err
	}
	c.setReadDeadline(c.server.cfg.FrameTimeout + time.Duration(size>>20)*time.Second)
	frame = make([]byte, size)
	copy(frame, head[4:])
	if _, err := io.ReadFull(in, frame[wire.PrefixLen:]); err != nil {
		room.release()
		return nil, room, partial(err)
	}
	return frame, room, nil
}

// awaitFrame waits for the first byte of a frame. Idle time counts only while
// no reply is owed.
func (c *Conn) awaitFrame(in *bufio.Reader) error {
	for {
		c.setReadDeadline(c.server.cfg.IdleTimeout)
		_, err := in.Peek(1)
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.server.ctx.Err() != nil {
			return err
		}
		c.mu.Lock()
		idle := len(c.queue) == 0
		c.mu.Unlock()
		if idle {
			return err
		}
	}
}

// setReadDeadline sets the deadline, unless the server is stopping: then the
// one that drain set must stand. The check comes after, as drain may run in
// between.
func (c *Conn) setReadDeadline(d time.Duration) {
	_ = c.nc.SetReadDeadline(time.Now().Add(d)) // fails on a closed connection only, and then reading does too
	if c.server.ctx.Err() != nil {
		c.drain()
	}
}

// partial turns the errors of a frame that was begun into what they mean.
func partial(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSlow
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the connection ended within a frame", wire.ErrMalformed)
	}
	return err
}

// reserve waits until the connection and then the server have room for cost
// bytes, or fails when the connection is closed.
func (c *Conn) reserve(cost int64) (reservation, error) {
	cfg := &c.server.cfg
	c.mu.Lock()
	for !c.closed && len(c.queue) > 0 && (c.reserved+cost > cfg.InFlightPerConn || len(c.queue) >= cfg.RequestsPerConn) {
		c.changed.Wait()
	}
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return reservation{}, net.ErrClosed
	}
	return c.server.reserve(c.ctx, cost)
}

// enqueue gives a request its place in the order of replies.
func (c *Conn) enqueue(p *pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.queue = append(c.queue, p)
	c.reserved += p.room.bytes
	return true
}

// complete gives a request its reply.
func (c *Conn) complete(p *pending, r *wire.Reply) {
	c.mu.Lock()
	if p.ready {
		c.mu.Unlock()
		panic("server: a request was answered twice")
	}
	p.ready, p.reply = true, r
	if r != nil {
		// A client that asks and does not read is held up by its own replies.
		p.held = int64(r.Held())
		c.reserved += p.held
	}
	closed := c.closed
	if !closed && c.queue[0] == p {
		c.changed.Broadcast()
	}
	c.mu.Unlock()
	if closed {
		c.discard(p)
	}
}

// writeLoop writes replies in order until the connection is closed, or reading
// ended and nothing is pending.
func (c *Conn) writeLoop() {
	for p := c.next(true); p != nil; p = c.next(true) {
		if err := c.writeReady(p); err != nil {
			level := slog.LevelDebug // most often the client has gone
			if errors.Is(err, wire.ErrReplyTooLarge) {
				level = slog.LevelError
			}
			c.server.cfg.Log.Log(context.Background(), level, "writing a reply failed", "client", c.RemoteAddr().String(), "err", err)
			c.close()
			return
		}
	}
}

// writeReady sends p and the replies that are ready after it. The buffer is on
// loan for that time only, since most of many connections are quiet.
func (c *Conn) writeReady(p *pending) error {
	out, ok := c.server.writers.Get().(*bufio.Writer)
	if !ok {
		out = bufio.NewWriterSize(nil, writeBufferBytes)
	}
	out.Reset(c.nc)
	defer func() {
		out.Reset(nil)
		c.server.writers.Put(out)
	}()
	for ; p != nil; p = c.next(false) {
		if err := c.write(out, p); err != nil {
			return err
		}
	}
	return out.Flush()
}

// next takes the oldest request if it has its reply. With wait it waits for
// that, and returns nil only when nothing more will come.
func (c *Conn) next(wait bool) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.closed {
			return nil
		}
		if len(c.queue) > 0 && c.queue[0].ready {
			p := c.queue[0]
			c.queue[0] = nil
			c.queue = c.queue[1:]
			return p
		}
		if !wait || c.readEnd && len(c.queue) == 0 {
			return nil
		}
		c.changed.Wait()
	}
}

// write sends one reply and ends its request.
func (c *Conn) write(out io.Writer, p *pending) error {
	var err error
	if p.reply != nil {
		_ = c.nc.SetWriteDeadline(time.Now().Add(c.server.cfg.IdleTimeout))
		_, err = p.reply.WriteTo(out)
		err = errors.Join(err, p.reply.Close())
	}
	p.room.release()
	c.mu.Lock()
	c.reserved -= p.room.bytes + p.held
	c.changed.Broadcast()
	c.mu.Unlock()
	return err
}
