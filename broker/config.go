package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"time"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/settings"
)

// Config describes a broker. Only Disk is required.
type Config struct {
	// Disk is where the data lies: [OnDisk] or [InMemory].
	Disk Disk
	// Settings are Apache Kafka's broker settings by their own names, such as
	// "log.retention.hours", and the few of Millrace's own. A missing one has
	// its default; an unknown one is an error that names the nearest known.
	// The map is copied.
	Settings map[string]string
	// Listen is short for the setting listeners=PLAINTEXT://<Listen>: the
	// host:port to listen on. Port 0 means any free port. Empty leaves it to
	// the setting, whose default is 127.0.0.1:9092.
	Listen string
	// Advertise is short for advertised.listeners=PLAINTEXT://<Advertise>:
	// the host:port that clients are told to connect to. Empty leaves it to
	// the setting, whose default is where the broker listens.
	Advertise string
	// ClusterID is the id that the cluster must have. A new cluster takes it;
	// if it is empty, a random one.
	ClusterID string
	// Log receives what happens. Nil means [slog.Default].
	Log *slog.Logger
	// Now is the wall clock. Nil means [time.Now].
	Now func() time.Time
	// Rand is the source of random ids; it must be safe for concurrent use.
	// Nil means [crypto/rand.Reader].
	Rand io.Reader
	// ListenFunc opens listening sockets. Nil means those of package net.
	ListenFunc func(ctx context.Context, network, address string) (net.Listener, error)
	// DialFunc opens connections. Nil means those of package net.
	DialFunc func(ctx context.Context, network, address string) (net.Conn, error)
}

// withDefaults fills in what is missing and reads the settings.
func (c Config) withDefaults() (Config, *settings.Broker, error) {
	if c.Disk.fs == nil {
		return c, nil, errors.New("broker: Config.Disk is missing; use OnDisk or InMemory")
	}
	all := maps.Clone(c.Settings)
	if all == nil {
		all = make(map[string]string)
	}
	for _, short := range []struct{ field, setting, value string }{
		{"Listen", "listeners", c.Listen},
		{"Advertise", "advertised.listeners", c.Advertise},
	} {
		if short.value == "" {
			continue
		}
		if _, both := all[short.setting]; both {
			return c, nil, fmt.Errorf("broker: Config.%s and the setting %s are both given; give one", short.field, short.setting)
		}
		all[short.setting] = "PLAINTEXT://" + short.value
	}
	parsed, err := settings.NewBroker(all)
	if err != nil {
		return c, nil, fmt.Errorf("reading the broker's settings: %w", err)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.ListenFunc == nil {
		c.ListenFunc = new(net.ListenConfig).Listen
	}
	if c.DialFunc == nil {
		c.DialFunc = new(net.Dialer).DialContext
	}
	return c, parsed, nil
}

// Disk is where a broker keeps its data. One broker at a time may use it.
type Disk struct {
	fs  disk.FS
	dir string
}

// OnDisk keeps the data in a folder, which is made if it is missing.
func OnDisk(dir string) Disk { return Disk{disk.Real{}, dir} }

// InMemory keeps the data in memory for as long as the Disk itself lives: a
// broker that is started again with the same Disk finds what the last one
// left.
func InMemory() Disk { return Disk{disk.NewMemory(time.Now), "data"} }

// DiskOf keeps the data in a folder of any file system. It is for the broker's
// own tests, as no other package can name the type.
func DiskOf(fs disk.FS, dir string) Disk { return Disk{fs, dir} }
