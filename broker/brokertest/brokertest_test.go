package brokertest_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker/brokertest"
)

// ping fails unless a broker answers at the address within seconds.
func ping(t *testing.T, c *brokertest.Cluster) {
	t.Helper()
	client, err := kgo.NewClient(c.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		t.Fatalf("no answer: %v", err)
	}
}

func TestBrokerKeepsItsAddress(t *testing.T) {
	c := brokertest.Start(t)
	address := c.Addr()
	ping(t, c)
	for name, again := range map[string]func(){
		"restart":       c.Restart,
		"kill":          func() { c.Kill(); c.Start() },
		"power cut":     func() { c.CutPower(7); c.Start() },
		"started twice": c.Start,
	} {
		again()
		if c.Addr() != address {
			t.Errorf("%s: the address changed from %s to %s", name, address, c.Addr())
		}
		ping(t, c)
	}
}

func TestStoppedBrokerHangsUp(t *testing.T) {
	c := brokertest.Start(t)
	c.Stop()
	conn, err := net.Dial("tcp", c.Addr())
	if err != nil {
		return // refused is as good
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection was not closed: %v", err)
	}
}

// TestNothingIsLeftBehind starts and stops brokers and waits until there are
// no more goroutines than before.
func TestNothingIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("brokers", func(t *testing.T) {
		for range 3 {
			c := brokertest.Start(t, brokertest.LogTo(slog.DiscardHandler))
			ping(t, c)
			c.Kill()
			c.Start()
		}
	})
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(time.Millisecond) // a poll with a deadline
	}
}
