package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/broker"
	"github.com/millrace/millrace/broker/brokertest"
)

// start starts a broker and stops it when the test ends.
func start(t *testing.T, cfg broker.Config) (*broker.Broker, error) {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	b, err := broker.New(t.Context(), cfg)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { stop(t, b) })
	return b, nil
}

func stop(t *testing.T, b *broker.Broker) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Run(ended); err != nil {
		t.Errorf("stopping the broker: %v", err)
	}
}

func TestStartErrorsSayWhatAndWhatToDo(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	running, err := start(t, broker.Config{Disk: broker.OnDisk(folder), Settings: map[string]string{"node.id": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()

	for name, test := range map[string]struct {
		cfg  broker.Config
		is   error
		says string
	}{
		"port taken":             {broker.Config{Disk: broker.InMemory(), Listen: taken.Addr().String()}, broker.ErrAddressInUse, taken.Addr().String()},
		"folder in use":          {broker.Config{Disk: broker.OnDisk(folder)}, broker.ErrFolderInUse, folder},
		"unknown setting":        {broker.Config{Disk: broker.InMemory(), Settings: map[string]string{"log.retention.hour": "1"}}, nil, "log.retention.hours"},
		"bad value":              {broker.Config{Disk: broker.InMemory(), Settings: map[string]string{"num.partitions": "none"}}, nil, "num.partitions"},
		"no disk":                {broker.Config{}, nil, "Disk"},
		"two addresses":          {broker.Config{Disk: broker.InMemory(), Listen: "127.0.0.1:0", Settings: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"}}, nil, "listeners"},
		"no address for clients": {broker.Config{Disk: broker.InMemory(), Listen: "0.0.0.0:0"}, nil, "advertised.listeners"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := start(t, test.cfg)
			if err == nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got error %v, want one that is %v and says %q", err, test.is, test.says)
			}
		})
	}
	if _, port, _ := net.SplitHostPort(running.Addr()); port == "0" {
		t.Errorf("port 0 is reported as %s", running.Addr())
	}
}

func TestFolderOfAnotherNodeIsRefused(t *testing.T) {
	folder := t.TempDir()
	b, err := broker.New(t.Context(), broker.Config{Disk: broker.OnDisk(folder), Listen: "127.0.0.1:0", Settings: map[string]string{"node.id": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	id := b.ClusterID()
	stop(t, b)
	for name, cfg := range map[string]broker.Config{
		"node":    {Settings: map[string]string{"node.id": "2"}},
		"cluster": {ClusterID: "another"},
	} {
		cfg.Disk = broker.OnDisk(folder)
		if _, err := start(t, cfg); !errors.Is(err, broker.ErrOtherNode) {
			t.Errorf("another %s: got error %v", name, err)
		}
	}
	again, err := start(t, broker.Config{Disk: broker.OnDisk(folder), ClusterID: id})
	if err != nil {
		t.Fatalf("a refused start harmed the folder: %v", err)
	}
	if again.ClusterID() != id {
		t.Errorf("the cluster id changed from %s to %s", id, again.ClusterID())
	}
}

func TestFolderOfANewerFormatIsRefused(t *testing.T) {
	folder := t.TempDir()
	b, err := broker.New(t.Context(), broker.Config{Disk: broker.OnDisk(folder), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, b)
	meta := filepath.Join(folder, "meta.properties")
	text, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(text), "version=", "version=9", 1)
	if err := os.WriteFile(meta, []byte(newer), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, broker.Config{Disk: broker.OnDisk(folder)}); !errors.Is(err, broker.ErrNewerFormat) || !strings.Contains(err.Error(), meta) {
		t.Errorf("got error %v", err)
	}
}

func TestListenersHaveAddressesOfTheirOwn(t *testing.T) {
	b, err := broker.New(t.Context(), broker.Config{Disk: broker.InMemory(), Log: slog.New(slog.DiscardHandler), Settings: map[string]string{
		"listeners":            "PLAINTEXT://127.0.0.1:0,OUTSIDE://0.0.0.0:0",
		"advertised.listeners": "OUTSIDE://logs.example.com:9092",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, b)
	all := b.Addrs()
	if all["OUTSIDE"] != "logs.example.com:9092" || all["PLAINTEXT"] != b.Addr() || !strings.HasPrefix(b.Addr(), "127.0.0.1:") {
		t.Errorf("clients are told %v", all)
	}
}

func TestMemoryOutlivesItsBroker(t *testing.T) {
	disk := broker.InMemory()
	var ids []string
	for range 2 {
		b, err := broker.New(t.Context(), broker.Config{Disk: disk, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, b.ClusterID())
		stop(t, b)
	}
	if ids[0] != ids[1] {
		t.Errorf("the second broker is of cluster %s, the first of %s", ids[1], ids[0])
	}
}

// TestAdvertisedAddressThatLeadsElsewhereIsSaid lets clients be told an address
// where nobody listens, and one where another cluster does.
func TestAdvertisedAddressThatLeadsElsewhereIsSaid(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	other := brokertest.Start(t)
	for name, test := range map[string]struct {
		advertise, says string
	}{
		"nobody":          {nobody.Addr().String(), "cannot reach itself"},
		"another cluster": {other.Addr(), "another cluster answers"},
	} {
		t.Run(name, func(t *testing.T) {
			log := make(logLines, 100)
			b, err := broker.New(t.Context(), broker.Config{
				Disk: broker.InMemory(), Listen: "127.0.0.1:0", Advertise: test.advertise,
				Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- b.Run(ctx) }()
			select {
			case line := <-log:
				if !strings.Contains(line, test.says) || !strings.Contains(line, test.advertise) {
					t.Errorf("the log says %q", line)
				}
			case <-time.After(10 * time.Second):
				t.Error("the log says nothing")
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// logLines passes log lines on.
type logLines chan string

func (l logLines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestNewGivesUpWhenItsContextEnds(t *testing.T) {
	disk := broker.InMemory()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := broker.New(ended, broker.Config{Disk: disk, Listen: "127.0.0.1:0"}); !errors.Is(err, context.Canceled) {
		t.Errorf("New with a context that has ended: %v", err)
	}
	b, err := broker.New(t.Context(), broker.Config{Disk: disk, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("after New had given up: %v", err)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Errorf("Close of a broker that never ran: %v", err)
		}
	}
}
