package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/wire"
)

// harness is a server on loopback whose requests the test answers by hand.
type harness struct {
	*Server
	t        *testing.T
	addr     string
	requests chan request
	log      *logBuffer
}

// request is what the handler got.
type request struct {
	conn  *Conn
	head  wire.Header
	frame []byte
	done  func(*wire.Reply)
}

func (r request) answer() { r.done(wire.NewReply(r.head, false)) }

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

func newHarness(t *testing.T, change func(*Config)) *harness {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, addr: l.Addr().String(), requests: make(chan request, 1000), log: &logBuffer{}}
	cfg := Config{
		Listeners: []Listener{{Name: "PLAINTEXT", Listener: l}},
		Log:       slog.New(slog.NewTextHandler(h.log, nil)),
		Handle: func(c *Conn, frame []byte, done func(*wire.Reply)) error {
			head, _, err := wire.ParseHeader(frame)
			if err != nil {
				return err
			}
			h.requests <- request{c, head, frame, done}
			return nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	if h.Server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	h.Start()
	t.Cleanup(h.Kill)
	return h
}

// client is one connection to the harness.
type client struct {
	t *testing.T
	net.Conn
}

func (h *harness) dial() *client {
	h.t.Helper()
	c, err := net.Dial("tcp", h.addr)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		h.t.Fatal(err)
	}
	return &client{h.t, c}
}

// frameOf is a Heartbeat request, whose frame is padded to at least size.
func frameOf(correlation int32, size int) []byte {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = strings.Repeat("g", max(0, size-20))
	return kmsg.NewRequestFormatter().AppendRequest(nil, req, correlation)
}

func (c *client) send(frame []byte) {
	c.t.Helper()
	if _, err := c.Write(frame); err != nil {
		c.t.Fatalf("sending a frame: %v", err)
	}
}

// reply reads one reply and returns its correlation id.
func (c *client) reply() int32 {
	c.t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		c.t.Fatalf("reading a reply: %v", err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		c.t.Fatalf("reading a reply: %v", err)
	}
	return int32(binary.BigEndian.Uint32(body))
}

// wantClosed waits for the server to close the connection without another byte.
func (c *client) wantClosed() {
	c.t.Helper()
	n, err := c.Read(make([]byte, 1))
	var timeout net.Error
	if n != 0 || err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatalf("the connection was not closed: read %d bytes, %v", n, err)
	}
}

func TestRepliesLeaveInRequestOrder(t *testing.T) {
	h := newHarness(t, nil)
	c := h.dial()
	const n = 20
	for i := range int32(n) {
		c.send(frameOf(i, 0))
	}
	var got []request
	for range n {
		got = append(got, <-h.requests)
	}
	for i := n - 1; i >= 0; i-- { // answered in the opposite order
		if i == 7 {
			got[i].done(nil) // a request that gets no reply leaves no gap
			continue
		}
		got[i].answer()
	}
	for i := range int32(n) {
		if i == 7 {
			continue
		}
		if id := c.reply(); id != i {
			t.Fatalf("reply %d came where %d was due", id, i)
		}
	}
}

func TestBadFrameClosesOnlyItsConnection(t *testing.T) {
	oversized := binary.BigEndian.AppendUint32(nil, 64<<20)
	oversized = append(oversized, frameOf(0, 0)[4:]...)
	cases := map[string][]byte{
		"negative length":     {0xff, 0xff, 0xff, 0xff, 0, 12, 0, 0},
		"zero length":         {0, 0, 0, 0, 0, 0, 0, 0},
		"oversized":           oversized,
		"shorter than header": {0, 0, 0, 5, 0, 12, 0, 0, 0},
		"HTTP":                []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
	}
	for name, bytes := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			good, bad := h.dial(), h.dial()
			good.send(frameOf(1, 0))
			r := <-h.requests
			bad.send(bytes)
			bad.wantClosed()
			r.answer()
			good.reply()
			good.send(frameOf(2, 0))
			(<-h.requests).answer()
			good.reply()
			if lines := h.log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "malformed") {
				t.Errorf("want one log line that says malformed, got:\n%s", strings.Join(lines, "\n"))
			}
		})
	}
}

func TestConnectionLimitHoldsReadingBack(t *testing.T) {
	size := len(frameOf(0, 0)) - 4
	h := newHarness(t, func(c *Config) { c.InFlightPerConn = 3 * wire.Cost(int16(kmsg.Heartbeat), size) })
	c := h.dial()
	for i := range int32(5) {
		c.send(frameOf(i, 0))
	}
	first := []request{<-h.requests, <-h.requests, <-h.requests}
	other := h.dial() // is not held back
	other.send(frameOf(100, 0))
	(<-h.requests).answer()
	other.reply()
	if len(h.requests) != 0 {
		t.Fatal("more requests were taken in than the connection may have in flight")
	}
	first[0].answer()
	c.reply()
	(<-h.requests).answer()
}

func TestClientThatDoesNotReadIsHeldBack(t *testing.T) {
	const replyBytes, limit = 1 << 20, 8 << 20
	h := newHarness(t, func(c *Config) {
		c.InFlightPerConn = limit
		c.Handle = func(_ *Conn, frame []byte, done func(*wire.Reply)) error {
			head, _, err := wire.ParseHeader(frame)
			reply := wire.NewReply(head, false)
			reply.Append(func(b []byte) []byte { return append(b, make([]byte, replyBytes)...) })
			done(reply)
			return err
		}
	})
	c := h.dial()
	const requests = 100
	for i := range int32(requests) {
		c.send(frameOf(i, 0))
	}
	other := h.dial() // is served meanwhile
	other.send(frameOf(7, 0))
	other.reply()
	for _, conn := range h.all() {
		conn.mu.Lock()
		if conn.reserved > limit+2*replyBytes {
			t.Errorf("a connection holds %d bytes, the limit is %d", conn.reserved, limit)
		}
		conn.mu.Unlock()
	}
	for i := range int32(requests) {
		if id := c.reply(); id != i {
			t.Fatalf("reply %d came where %d was due", id, i)
		}
	}
}

func TestTotalLimitHoldsEveryoneBack(t *testing.T) {
	size := len(frameOf(0, 0)) - 4
	h := newHarness(t, func(c *Config) { c.InFlightTotal = 2 * wire.Cost(int16(kmsg.Heartbeat), size) })
	var held []request
	for range 2 {
		h.dial().send(frameOf(1, 0))
		held = append(held, <-h.requests)
	}
	third := h.dial()
	third.send(frameOf(3, 0))
	if h.large.TryAcquire(1) {
		t.Fatal("there is room left")
	}
	held[0].conn.close() // a client that goes away frees what it held once it is answered
	held[0].answer()
	(<-h.requests).answer()
	third.reply()
}

func TestLargeFramesThatComeSlowlyHoldNoSmallOnesBack(t *testing.T) {
	h := newHarness(t, nil)
	for range 20 {
		head := binary.BigEndian.AppendUint32(nil, 90<<20)
		head = binary.BigEndian.AppendUint16(head, uint16(kmsg.Produce))
		h.dial().send(append(head, 0, 9, 0, 0)) // and not a byte more
	}
	for deadline := time.Now().Add(5 * time.Second); h.large.TryAcquire(1); {
		h.large.Release(1)
		if time.Now().After(deadline) {
			t.Fatal("the large frames got no room")
		}
		time.Sleep(time.Millisecond) // a poll with a deadline
	}
	c := h.dial()
	c.send(frameOf(1, 0))
	(<-h.requests).answer()
	c.reply()
}

func TestRequestLargerThanTheLimitsGoesAlone(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.InFlightPerConn, c.InFlightTotal = 100, 300 })
	c := h.dial()
	c.send(frameOf(1, 1000))
	(<-h.requests).answer()
	c.reply()
}

func TestIdleConnectionIsClosedUnlessAReplyIsOwed(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.IdleTimeout = 50 * time.Millisecond })
	idle, waiting := h.dial(), h.dial()
	waiting.send(frameOf(1, 0))
	r := <-h.requests
	idle.wantClosed()
	r.answer()
	waiting.reply()
	waiting.wantClosed()
}

func TestStalledFrameIsCutOff(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.FrameTimeout = 50 * time.Millisecond })
	c := h.dial()
	c.send(frameOf(1, 100)[:40])
	c.wantClosed()
	if !h.small.TryAcquire(h.small.bytes) || !h.large.TryAcquire(h.large.bytes) {
		t.Error("the stalled frame still holds memory")
	}
}

func TestStopLetsRepliesOutAndRefusesNewConnections(t *testing.T) {
	h := newHarness(t, nil)
	c, quiet := h.dial(), h.dial()
	c.send(frameOf(1, 0))
	r := <-h.requests
	context.AfterFunc(r.conn.Context(), r.answer) // as a parked long poll does
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	h.Stop(ctx)
	if ctx.Err() != nil {
		t.Fatal("stopping took until the deadline")
	}
	c.reply()
	c.wantClosed()
	quiet.wantClosed()
	if _, err := net.Dial("tcp", h.addr); err == nil {
		t.Error("the listener still accepts")
	}
}

func TestStopGivesUpOnReplies(t *testing.T) {
	h := newHarness(t, nil)
	c := h.dial()
	c.send(frameOf(1, 0))
	r := <-h.requests
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	h.Stop(ctx)
	c.wantClosed()
	r.answer() // late, and harmless
}

func TestConnectionsBeyondTheLimitAreClosed(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Connections = 2 })
	a, b := h.dial(), h.dial()
	for _, c := range []*client{a, b} {
		c.send(frameOf(1, 0))
		(<-h.requests).answer()
		c.reply()
	}
	h.dial().wantClosed()
	a.Close()
	for deadline := time.Now().Add(5 * time.Second); ; {
		c := h.dial()
		if _, err := c.Write(frameOf(1, 0)); err == nil {
			select {
			case r := <-h.requests:
				r.answer()
				c.reply()
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no connection was accepted after one had ended")
		}
	}
}

// closeCounter is a run of bytes that counts how often it is closed.
type closeCounter struct {
	mu     sync.Mutex
	closed int
}

func (*closeCounter) Len() int { return 1 << 20 }
func (*closeCounter) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(make([]byte, 1<<20))
	return int64(n), err
}
func (c *closeCounter) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
	return nil
}

func TestRunsAreClosedOnceWhateverHappens(t *testing.T) {
	for _, when := range []string{"written", "client gone before the reply", "client gone while it is pending"} {
		t.Run(when, func(t *testing.T) {
			h := newHarness(t, nil)
			c := h.dial()
			var runs []*closeCounter
			for i := range int32(3) {
				c.send(frameOf(i, 0))
			}
			got := []request{<-h.requests, <-h.requests, <-h.requests}
			answer := func(r request) {
				run := &closeCounter{}
				runs = append(runs, run)
				reply := wire.NewReply(r.head, false)
				reply.AppendRun(run)
				r.done(reply)
			}
			switch when {
			case "written":
				for _, r := range got {
					answer(r)
				}
				for range got {
					c.reply()
				}
			case "client gone before the reply":
				got[0].conn.close()
				for _, r := range got {
					answer(r)
				}
			default:
				answer(got[2])
				answer(got[1])
				got[0].conn.close()
				answer(got[0])
			}
			h.Kill()
			for i, run := range runs {
				if run.closed != 1 {
					t.Errorf("run %d was closed %d times", i, run.closed)
				}
			}
		})
	}
}

func TestQuietConnectionTakesLittleMemory(t *testing.T) {
	h := newHarness(t, nil)
	const conns, bytesMax = 500, 20 << 10
	used := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	before := used()
	for range conns {
		c := h.dial()
		c.send(frameOf(1, 0))
		(<-h.requests).answer()
		c.reply()
	}
	if each := (used() - before) / conns; each > bytesMax {
		t.Errorf("a quiet connection takes %d bytes, want at most %d", each, bytesMax)
	}
}

func TestManyConnections(t *testing.T) {
	h := newHarness(t, nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case r := <-h.requests:
				r.answer()
			case <-stop:
				return
			}
		}
	}()
	var wg sync.WaitGroup
	for range 300 {
		c := h.dial()
		wg.Go(func() {
			for i := range int32(20) {
				if _, err := c.Write(frameOf(i, 0)); err != nil {
					t.Error(err)
					return
				}
			}
			for i := range int32(20) {
				var reply [8]byte
				if _, err := io.ReadFull(c, reply[:]); err != nil {
					t.Error(err)
					return
				}
				if id := int32(binary.BigEndian.Uint32(reply[4:])); id != i {
					t.Error(fmt.Errorf("reply %d came where %d was due", id, i))
					return
				}
			}
		})
	}
	wg.Wait()
}
