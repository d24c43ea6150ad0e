package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// startTimeout is how long a broker may take before it counts as broken.
const startTimeout = 30 * time.Second

// measure starts brokers in each case.
func measure(s starter, root string, runs int) ([]Result, error) {
	fresh := 0
	newFolder := func() string {
		fresh++
		return filepath.Join(root, strconv.Itoa(fresh))
	}
	used := newFolder()
	if err := s.fill(used); err != nil {
		return nil, fmt.Errorf("filling a folder: %w", err)
	}
	var results []Result
	for _, c := range []struct {
		name   string
		folder func() string
		end    os.Signal
	}{
		{"new", newFolder, syscall.SIGTERM},
		{"existing", func() string { return used }, syscall.SIGTERM},
		{"killed before", func() string { return used }, syscall.SIGKILL},
	} {
		var times []time.Duration
		for range runs {
			took, b, err := s.start(c.folder())
			if err != nil {
				return nil, fmt.Errorf("case %s: %w", c.name, err)
			}
			times = append(times, took)
			if err := b.stop(c.end); err != nil {
				return nil, fmt.Errorf("case %s: %w", c.name, err)
			}
		}
		results = append(results, summarize(c.name, times))
	}
	return results, nil
}

// starter starts brokers as processes.
type starter struct {
	binary string // empty: this program
	log    io.Writer
}

// process is a broker that runs.
type process struct {
	cmd     *exec.Cmd
	address string
}

// start returns when the broker answers Metadata, with the time since before
// its process was started.
func (s starter) start(folder string) (time.Duration, *process, error) {
	address, err := freeAddress()
	if err != nil {
		return 0, nil, err
	}
	var cmd *exec.Cmd
	if s.binary == "" {
		self, err := os.Executable()
		if err != nil {
			return 0, nil, err
		}
		cmd = exec.Command(self)
		cmd.Env = append(os.Environ(), envFolder+"="+folder, envListen+"="+address)
	} else {
		cmd = exec.Command(s.binary, "broker", "--data", folder, "--listen", address)
	}
	cmd.Stderr = s.log
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	for {
		err := askMetadata(address)
		if err == nil {
			return time.Since(began), &process{cmd, address}, nil
		}
		if time.Since(began) > startTimeout {
			_ = cmd.Process.Kill() // it is broken anyway
			return 0, nil, fmt.Errorf("the broker did not answer within %v: %w", startTimeout, err)
		}
		time.Sleep(500 * time.Microsecond)
	}
}

// stop ends the broker with a signal and waits for it.
func (p *process) stop(with os.Signal) error {
	if err := p.cmd.Process.Signal(with); err != nil {
		return err
	}
	if err := p.cmd.Wait(); err != nil && with == syscall.SIGTERM {
		return fmt.Errorf("stopping the broker: %w", err)
	}
	return nil
}

// fill makes a folder that has been used: two topics and 100,000 records.
func (s starter) fill(folder string) error {
	_, b, err := s.start(folder)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.address))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := kadm.NewClient(client).CreateTopics(ctx, 4, 1, nil, "views", "visits"); err != nil {
		return err
	}
	var failed error
	for i := range 100_000 {
		topic := "views"
		if i%2 == 1 {
			topic = "visits"
		}
		client.Produce(ctx, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "record %d", i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err // promises run one at a time
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	client.Close()
	if failed != nil {
		return failed
	}
	return b.stop(syscall.SIGTERM)
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// askMetadata sends one Metadata request and reads the whole reply.
func askMetadata(address string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(startTimeout)); err != nil {
		return err
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	if _, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
		return err
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, frame); err != nil {
		return err
	}
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	if err := resp.ReadFrom(frame[5:]); err != nil { // after correlation id and tags
		return err
	}
	if len(resp.Brokers) == 0 {
		return fmt.Errorf("the metadata names no broker")
	}
	return nil
}
