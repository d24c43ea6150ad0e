package broker_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker"
	"github.com/millrace/millrace/broker/brokertest"
)

// The test binary runs itself as the broker that is to be killed.
const (
	childFolder = "MILLRACE_TEST_BROKER_FOLDER"
	childListen = "MILLRACE_TEST_BROKER_LISTEN"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(childFolder); folder != "" {
		if err := runChild(folder, os.Getenv(childListen)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild runs a broker until standard input ends, which it does when the
// test does, however that ends. Its first line of output is the address.
func runChild(folder, listen string) error {
	b, err := broker.New(context.Background(), broker.Config{
		Disk:   broker.OnDisk(folder),
		Listen: listen,
		Log:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	fmt.Println(b.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is what matters
		cancel()
	}()
	return b.Run(ctx)
}

// child is a broker in a process of its own.
type child struct {
	t      *testing.T
	folder string
	listen string
	cmd    *exec.Cmd
	stdin  io.Closer
}

func newChild(t *testing.T) *child {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // the port is free again, and hardly anyone takes it
	c := &child{t: t, folder: t.TempDir(), listen: l.Addr().String()}
	t.Cleanup(c.kill)
	return c
}

// start returns when the broker listens.
func (c *child) start() {
	c.t.Helper()
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), childFolder+"="+c.folder, childListen+"="+c.listen)
	c.cmd.Stderr = c.t.Output()
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		c.t.Fatalf("the broker did not start: %v", err)
	}
	if got := strings.TrimSpace(line); got != c.listen {
		c.t.Fatalf("the broker listens on %s, not on %s", got, c.listen)
	}
}

// kill ends the process with SIGKILL.
func (c *child) kill() {
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Kill() // it may have ended by itself
	_ = c.cmd.Wait()         // "signal: killed" is what was asked for
	_ = c.stdin.Close()
	c.cmd = nil
}

// load is an idempotent producer that numbers its records by partition.
type load struct {
	client *kgo.Client
	next   []uint64       // by partition
	acked  []atomic.Int64 // how many, by partition
	total  atomic.Int64
	failed atomic.Pointer[error]
}

// run produces until ctx ends and then waits for all acknowledgements.
func (l *load) run(ctx context.Context) {
	for p := 0; ctx.Err() == nil; p = (p + 1) % len(l.next) {
		n := l.next[p]
		l.next[p]++
		r := &kgo.Record{Topic: "load", Partition: int32(p), Value: binary.BigEndian.AppendUint64(nil, n)}
		l.client.Produce(context.Background(), r, func(r *kgo.Record, err error) {
			if err == nil && uint64(r.Offset) != n {
				err = fmt.Errorf("record %d of partition %d was acknowledged at offset %d", n, r.Partition, r.Offset)
			}
			if err != nil {
				l.failed.CompareAndSwap(nil, &err)
				return
			}
			l.acked[r.Partition].Add(1)
			l.total.Add(1)
		})
	}
}

// await waits until so many records were acknowledged.
func (l *load) await(t *testing.T, n int64) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for l.total.Load() < n {
		if err := l.failed.Load(); err != nil {
			t.Fatalf("producing: %v", *err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %d records were acknowledged, want %d", l.total.Load(), n)
		}
		time.Sleep(time.Millisecond) // a poll with a deadline
	}
}

// TestKilledBrokerKeepsWhatItAcknowledged kills the broker's process under
// load, some times, and then reads everything. MILLRACE_KILLS and
// MILLRACE_SEED set the number of kills and their moments.
func TestKilledBrokerKeepsWhatItAcknowledged(t *testing.T) {
	c := newChild(t)
	c.start()
	crashUnderLoad(t, c.listen, func(*rand.Rand) {
		c.kill()
		c.start()
	})
}

// TestPowerCutsKeepWhatWasAcknowledged does the same with a disk that loses,
// keeps or tears what had not been flushed.
func TestPowerCutsKeepWhatWasAcknowledged(t *testing.T) {
	c := brokertest.Start(t)
	crashUnderLoad(t, c.Addr(), func(random *rand.Rand) {
		c.CutPower(random.Uint64())
		c.Start()
	})
}

// crashUnderLoad produces all the while that a broker crashes and comes back
// several times, then waits until everything was acknowledged, and checks that
// the log holds each record once and in order.
func crashUnderLoad(t *testing.T, address string, crash func(*rand.Rand)) {
	t.Helper()
	const partitions = 3
	crashes := int(envNumber(t, "MILLRACE_KILLS", 3))
	seed := envNumber(t, "MILLRACE_SEED", time.Now().UnixNano())
	t.Logf("%d crashes, MILLRACE_SEED=%d", crashes, seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))

	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(2000), kgo.StopProducerOnDataLossDetected(),
		kgo.ProducerBatchMaxBytes(8<<10), kgo.MetadataMinAge(20*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	createTopic(t, client, "load", partitions, nil)

	l := &load{client: client, next: make([]uint64, partitions), acked: make([]atomic.Int64, partitions)}
	ctx, stop := context.WithCancel(t.Context())
	var producing sync.WaitGroup
	producing.Go(func() { l.run(ctx) })
	defer producing.Wait()
	defer stop()
	for range crashes {
		l.await(t, l.total.Load()+random.Int64N(4000)+1)
		crash(random)
	}
	l.await(t, l.total.Load()+1)
	stop()
	producing.Wait()
	if err := client.Flush(testContext(t)); err != nil {
		t.Fatalf("waiting for the last acknowledgements: %v", err)
	}
	l.await(t, 0) // for errors
	t.Logf("%d records were acknowledged", l.total.Load())
	for p := range partitions {
		if got, want := l.acked[p].Load(), int64(l.next[p]); got != want {
			t.Errorf("partition %d: %d records acknowledged of %d", p, got, want)
		}
	}
	l.verify(t, address)
}

// verify reads each partition to its end: the numbers from 0 on, each once.
func (l *load) verify(t *testing.T, address string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics("load"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	seen := make([]uint64, len(l.next))
	for left := l.total.Load(); left > 0; {
		fetches := client.PollFetches(testContext(t))
		for _, e := range fetches.Errors() {
			t.Fatalf("reading %s-%d: %v", e.Topic, e.Partition, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if got, want := binary.BigEndian.Uint64(r.Value), seen[r.Partition]; got != want {
				t.Fatalf("partition %d offset %d holds record %d, want %d", r.Partition, r.Offset, got, want)
			}
			seen[r.Partition]++
			left--
		})
	}
	ends := dialAddress(t, address)
	for p, n := range seen {
		if end := ends.logEnd("load", int32(p)); end != int64(n) {
			t.Errorf("partition %d ends at offset %d after %d records", p, end, n)
		}
	}
}

func envNumber(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is not a number: %v", name, err)
	}
	return n
}
