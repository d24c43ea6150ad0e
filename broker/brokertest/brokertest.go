// Package brokertest runs a real broker within a Go test.
//
//	func TestMyPipeline(t *testing.T) {
//		cluster := brokertest.Start(t)
//		cluster.CreateTopic("orders", 3)
//		client, err := kgo.NewClient(cluster.ClientOptions()...)
//		…
//	}
//
// The broker is the one that the millrace binary runs, on a disk in memory and
// a free port of 127.0.0.1. It is ready when [Start] returns, some milliseconds
// later, and is stopped when the test ends. What it logs is shown if the test
// fails.
//
// A test of failures stops and starts it as it likes: [Cluster.Restart] stops
// cleanly, [Cluster.Kill] does not. The address stays the same, so clients
// find it again.
package brokertest

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker"
	"github.com/millrace/millrace/broker/internal/disk"
)

// Option changes what [Start] starts.
type Option func(*options)

type options struct {
	settings map[string]string
	dir      string
	log      slog.Handler
}

// Setting sets one of the broker's settings, by Kafka's name for it.
func Setting(name, value string) Option {
	return func(o *options) { o.settings[name] = value }
}

// Folder keeps the data in a folder on disk, such as t.TempDir(), instead of
// in memory.
func Folder(dir string) Option { return func(o *options) { o.dir = dir } }

// LogTo sends the broker's log to a handler instead of the test's output, from
// level info on. A fuzz test needs it, as its output may not be written to by
// others while the target runs.
func LogTo(h slog.Handler) Option { return func(o *options) { o.log = h } }

// testSettings are what is different in tests unless a [Setting] says
// otherwise: a group does not wait three seconds for its second member, and
// __consumer_offsets does not need 50 logs.
func testSettings() map[string]string {
	return map[string]string{
		"group.initial.rebalance.delay.ms": "0",
		"offsets.topic.num.partitions":     "4",
	}
}

// Cluster is a running broker. Its methods fail the test when something goes
// wrong. They may be called from any goroutine, but those that start and stop
// only one at a time.
type Cluster struct {
	t    testing.TB
	opts options
	port *port

	memory  *disk.Memory // nil on a real folder
	faults  *disk.Faults // over memory, or the real folder
	running *run         // nil while stopped
}

// run is one life of the broker.
type run struct {
	broker *broker.Broker
	link   *link
	stop   context.CancelFunc
	ended  chan error
}

// Start starts a broker and returns when it can be used. It is stopped, and
// its data in memory dropped, when the test and its subtests have ended.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	log := &testLog{t: t}
	c := &Cluster{t: t, opts: options{
		settings: testSettings(),
		log:      slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}),
	}}
	for _, o := range opts {
		o(&c.opts)
	}
	p, err := openPort("127.0.0.1:0")
	if err != nil {
		t.Fatalf("brokertest: opening a port: %v", err)
	}
	c.port = p
	t.Cleanup(func() {
		c.Stop()
		p.close()
		log.end()
	})
	if c.opts.dir == "" {
		c.memory = disk.NewMemory(time.Now)
	}
	c.Start()
	return c
}

// ClientOptions returns the options with which a client finds the broker, and
// notices within milliseconds that it was started again: kgo's defaults are
// made for clusters, and wait for seconds.
func (c *Cluster) ClientOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(c.Addr()),
		kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
	}
}

// Addr is the broker's host:port. It does not change when the broker is
// started again.
func (c *Cluster) Addr() string { return c.port.Addr().String() }

// Restart stops the broker cleanly and starts it on the same disk.
func (c *Cluster) Restart() {
	c.t.Helper()
	c.Stop()
	c.Start()
}

// Start starts the broker after [Cluster.Stop], [Cluster.Kill] or
// [Cluster.CutPower], on the same disk. It does nothing if it runs.
func (c *Cluster) Start() {
	c.t.Helper()
	if c.running != nil {
		return
	}
	c.faults = disk.WithFaults(disk.Real{})
	folder := c.opts.dir
	if c.memory != nil {
		c.faults, folder = disk.WithFaults(c.memory), "data"
	}
	l := c.port.attach()
	b, err := broker.New(context.Background(), broker.Config{
		Disk:     broker.DiskOf(c.faults, folder),
		Settings: maps.Clone(c.opts.settings),
		Listen:   c.Addr(),
		Log:      slog.New(c.opts.log),
		ListenFunc: func(context.Context, string, string) (net.Listener, error) {
			return l, nil
		},
	})
	if err != nil {
		_ = l.Close() // never fails
		c.t.Fatalf("brokertest: starting the broker: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{broker: b, link: l, stop: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- b.Run(ctx) }()
	c.running = r
}

// Stop stops the broker cleanly. It does nothing if none runs.
func (c *Cluster) Stop() {
	c.t.Helper()
	if c.running == nil {
		return
	}
	c.running.stop()
	err := <-c.running.ended
	c.running = nil
	if err != nil {
		c.t.Errorf("brokertest: stopping the broker: %v", err)
	}
}

// Kill ends the broker as SIGKILL does: in the middle of whatever it does, with
// everything kept that it had written, flushed to disk or not.
func (c *Cluster) Kill() {
	c.t.Helper()
	c.crash(disk.KeepAll)
}

// CutPower ends the broker as a loss of power does: of what it had not flushed
// to disk, the seed decides which parts survive. The disk must be in memory.
func (c *Cluster) CutPower(seed uint64) {
	c.t.Helper()
	if c.memory == nil {
		c.t.Fatal("brokertest: CutPower needs the disk in memory")
	}
	c.crash(rand.New(rand.NewPCG(seed, 0)).IntN)
}

// crash cuts the network before the disk, so that nothing is acknowledged that
// the disk does not have, and then clears away what is left of the broker.
func (c *Cluster) crash(pick disk.Pick) {
	c.t.Helper()
	if c.running == nil {
		return
	}
	c.running.link.kill()
	if c.memory != nil {
		c.memory = c.memory.Crash(pick)
	} else {
		c.faults.CrashAt(0)
	}
	c.running.stop()
	<-c.running.ended // with whatever error: the disk is gone
	c.running = nil
}

// Faults makes the disk of the running broker fail on demand, until the broker
// is started again. It is for the broker's own tests, as no other package can
// name the type.
func (c *Cluster) Faults() *disk.Faults { return c.faults }

// testLog hands the broker's log to the test, which shows it on failure.
type testLog struct {
	t testing.TB

	mu    sync.Mutex
	ended bool // a test that ended must not be logged to
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.t.Logf("broker: %s", bytes.TrimSuffix(p, []byte("\n")))
	}
	return len(p), nil
}

func (l *testLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}
