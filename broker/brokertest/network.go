package brokertest

import (
	"net"
	"sync"
)

// port is a TCP port that outlives the brokers behind it, so that a broker
// that is started again is found where it was, and no other program takes its
// place meanwhile. Without a broker, connections are reset at once.
type port struct {
	net.Listener
	done chan struct{} // closed when no more connections will be accepted

	mu   sync.Mutex
	link *link // nil while no broker is there
}

func openPort(address string) (*port, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &port{Listener: l, done: make(chan struct{})}
	go p.accept()
	return p, nil
}

func (p *port) accept() {
	defer close(p.done)
	for {
		c, err := p.Accept()
		if err != nil {
			return // closed
		}
		p.mu.Lock()
		l := p.link
		p.mu.Unlock()
		if l == nil || !l.deliver(c) {
			refuse(c)
		}
	}
}

// refuse resets a connection instead of ending it in good order: that is as
// near to a refused one as can be, and clients try again, while some take an
// orderly end before the first reply for a demand to authenticate.
func refuse(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed one
	}
	_ = c.Close() // what matters is that it is closed
}

// attach returns what a new broker listens on.
func (p *port) attach() *link {
	l := &link{port: p, arrivals: make(chan net.Conn), closed: make(chan struct{}), conns: make(map[net.Conn]bool)}
	p.mu.Lock()
	p.link = l
	p.mu.Unlock()
	return l
}

// close ends the port.
func (p *port) close() {
	_ = p.Listener.Close() // nothing is lost with a listening socket
	<-p.done
}

// link is the listener of one broker.
type link struct {
	*port
	arrivals chan net.Conn
	closed   chan struct{}
	once     sync.Once

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func (l *link) deliver(c net.Conn) bool {
	select {
	case l.arrivals <- c:
		return true
	case <-l.closed:
		return false
	}
}

// Accept implements [net.Listener].
func (l *link) Accept() (net.Conn, error) {
	select {
	case c := <-l.arrivals:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.cut {
			refuse(c) // the broker is dead
			return nil, net.ErrClosed
		}
		l.conns[c] = true
		return &linkConn{c, l}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *link) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.port.mu.Lock()
		defer l.port.mu.Unlock()
		if l.port.link == l {
			l.port.link = nil
		}
	})
	return nil
}

// kill closes the listener and all its connections: from now on no byte of the
// broker reaches a client.
func (l *link) kill() {
	_ = l.Close() // never fails
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		refuse(c)
	}
}

type linkConn struct {
	net.Conn
	link *link
}

func (c *linkConn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c.Conn)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
