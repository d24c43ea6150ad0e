// Package broker is a Kafka-compatible log broker that runs within any Go
// program, the millrace binary among them.
//
//	b, err := broker.New(ctx, broker.Config{
//		Disk:   broker.OnDisk("/var/lib/millrace"),
//		Listen: "127.0.0.1:9092",
//	})
//	if err != nil {
//		return err // says what is wrong and what to do
//	}
//	return b.Run(ctx) // serves until ctx ends, then stops cleanly
//
// [New] does everything that can go wrong: it reads the settings, binds the
// addresses, locks the data folder, recovers the logs and elects a leader of
// the metadata. [Broker.Run] serves. In tests, package brokertest does both.
package broker

// This package is assembly only. What a broker does is in broker/internal:
// server reads and writes frames, api answers requests, cluster holds the
// metadata, logs and partition the records, group the consumer groups.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millrace/millrace/broker/internal/api"
	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/group"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/logs"
	"github.com/millrace/millrace/broker/internal/server"
	"github.com/millrace/millrace/broker/internal/settings"
	"github.com/millrace/millrace/broker/internal/wire"
)

const (
	// stopGrace is how long replies may take to go out when a broker stops.
	stopGrace = 2 * time.Second
	// registerTimeout is how long a start waits for the metadata to take the
	// broker in, which a full disk holds up.
	registerTimeout = 30 * time.Second
)

// Broker is one broker, from [New] to the end of [Broker.Run].
type Broker struct {
	log       *slog.Logger
	settings  *settings.Broker
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	listeners []server.Listener
	endpoints []cluster.Endpoint

	folder      *logs.Folder // nil once logs has taken it over
	node        *cluster.Node
	logs        *logs.Manager
	groups      *group.Coordinator
	applier     *applier
	unsubscribe func()
	service     *api.Service
	server      *server.Server
	closed      sync.Once
}

// New starts a broker up to the point where it can serve. Its addresses are
// bound when New returns, and connections to them wait until [Broker.Run]. ctx
// bounds the start only: when it ends, New gives up between two steps and
// returns its error. Whoever got a broker calls Run, or Close.
//
// Errors that a user can do something about satisfy errors.Is with
// [ErrAddressInUse], [ErrFolderInUse], [ErrOtherNode] or [ErrNewerFormat], or
// name the setting that is wrong.
func New(ctx context.Context, cfg Config) (*Broker, error) {
	cfg, parsed, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{log: cfg.Log, settings: parsed, dial: cfg.DialFunc}
	for _, start := range []func(context.Context, Config) error{b.listen, b.openFolder, b.openMetadata, b.openGroups, b.openLogs, b.applyMetadata, b.openServer} {
		err := ctx.Err()
		if err == nil {
			err = start(ctx, cfg)
		}
		if err != nil {
			return nil, errors.Join(startError(err), b.close(context.Background()))
		}
	}
	return b, nil
}

// Run serves until ctx ends and then stops cleanly: replies that are due go
// out, logs are flushed and closed, and nil is returned. It also stops, with an
// error, when the cluster's metadata cannot be written any more: records could
// still be, but no topic made and no leader known for sure. It must be called
// once.
func (b *Broker) Run(ctx context.Context) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	b.server.Start()
	var checks sync.WaitGroup
	checks.Go(func() { b.checkAdvertised(serving) })
	var failure error
	select {
	case <-ctx.Done():
	case <-b.node.Failed():
		failure = fmt.Errorf("the cluster's metadata stopped: %w", b.node.Err())
	}
	stop()
	checks.Wait()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	return errors.Join(failure, b.close(grace))
}

// Addr is the host:port that clients are told for the first listener.
func (b *Broker) Addr() string { return address(b.endpoints[0]) }

// Addrs are the host:port of all listeners, by their names, such as PLAINTEXT.
func (b *Broker) Addrs() map[string]string {
	all := make(map[string]string)
	for _, e := range b.endpoints {
		all[e.Listener] = address(e)
	}
	return all
}

// ClusterID is the id of the cluster that the broker belongs to.
func (b *Broker) ClusterID() string { return b.node.Image().ClusterID() }

func address(e cluster.Endpoint) string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }

// listen binds the addresses and finds out what clients are to be told.
func (b *Broker) listen(ctx context.Context, cfg Config) error {
	for _, l := range b.settings.Listeners {
		at := net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
		nl, err := cfg.ListenFunc(ctx, "tcp", at)
		if err != nil {
			return fmt.Errorf("listening on %s: %w", at, err)
		}
		b.listeners = append(b.listeners, server.Listener{Name: l.Name, Listener: nl})
		e, err := advertised(b.settings, l, nl.Addr())
		if err != nil {
			return err
		}
		b.endpoints = append(b.endpoints, e)
	}
	return nil
}

// advertised returns the address that clients of a listener are told: what the
// settings say, or else where it is bound.
func advertised(s *settings.Broker, l settings.Listener, bound net.Addr) (cluster.Endpoint, error) {
	for _, a := range s.Advertised {
		if a.Name == l.Name {
			return cluster.Endpoint{Listener: a.Name, Host: a.Host, Port: a.Port}, nil
		}
	}
	_, text, err := net.SplitHostPort(bound.String())
	if err != nil {
		return cluster.Endpoint{}, fmt.Errorf("reading the address of listener %s: %w", l.Name, err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return cluster.Endpoint{}, fmt.Errorf("reading the port of listener %s: %w", l.Name, err)
	}
	if l.Host == "" || net.ParseIP(l.Host).IsUnspecified() {
		return cluster.Endpoint{}, fmt.Errorf("the listener %s listens on all interfaces, so clients must be told an address: set advertised.listeners=%s://<host>:%d", l, l.Name, port)
	}
	return cluster.Endpoint{Listener: l.Name, Host: l.Host, Port: int32(port)}, nil
}

func (b *Broker) openFolder(ctx context.Context, cfg Config) (err error) {
	b.folder, err = logs.OpenFolder(cfg.Disk.fs, cfg.Disk.dir, b.id())
	return err
}

func (b *Broker) id() ident.BrokerID { return ident.BrokerID(b.settings.NodeID) }

// openMetadata starts the metadata, whose cluster must be that of the folder.
func (b *Broker) openMetadata(ctx context.Context, cfg Config) (err error) {
	want := cfg.ClusterID
	// The mark on the folder is made after the metadata.
	id, used := b.folder.ClusterID()
	if used {
		if want != "" && want != id {
			return b.folder.SetClusterID(want) // which says what differs
		}
		want = id
	}
	b.node, err = cluster.Open(cluster.Config{
		FS:        cfg.Disk.fs,
		Dir:       path.Join(cfg.Disk.dir, "metadata"),
		Broker:    b.id(),
		ClusterID: want,
		Used:      used,
		Settings:  b.settings,
		Now:       cfg.Now,
		Rand:      cfg.Rand,
		Log:       cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("opening the cluster's metadata: %w", err)
	}
	return b.folder.SetClusterID(b.node.Image().ClusterID())
}

func (b *Broker) openLogs(ctx context.Context, cfg Config) (err error) {
	b.applier = &applier{
		self: b.id(), settings: b.settings, node: b.node, groups: b.groups, codecs: batch.NewCodecs(), now: cfg.Now, log: cfg.Log,
	}
	b.logs, err = logs.Open(logs.Config{
		Folder:             b.folder,
		Codecs:             b.applier.codecs,
		RetentionInterval:  b.settings.RetentionCheckInterval,
		CheckpointInterval: b.settings.CheckpointInterval,
		Now:                cfg.Now,
		Jitter:             rand.N[time.Duration],
		Logger:             cfg.Log,
		Failed:             b.applier.failed,
		Recovered:          b.applier.recovered,
	})
	if err != nil {
		return fmt.Errorf("opening the logs: %w", err)
	}
	b.folder = nil
	return nil
}

func (b *Broker) openGroups(ctx context.Context, cfg Config) (err error) {
	b.groups, err = group.New(group.Config{
		SessionMin:             b.settings.GroupMinSessionTimeout,
		SessionMax:             b.settings.GroupMaxSessionTimeout,
		InitialDelay:           b.settings.GroupInitialRebalanceDelay,
		MembersMax:             int(b.settings.GroupMaxSize),
		OffsetMetadataBytesMax: int(b.settings.OffsetMetadataMaxBytes),
		OffsetsRetention:       b.settings.OffsetsRetention,
		OffsetsCheckInterval:   b.settings.OffsetsRetentionCheck,
		NewID:                  uuid.NewString,
		Now:                    cfg.Now,
		Log:                    cfg.Log,
	})
	return err
}

// applyMetadata opens the partitions that the metadata gives to this broker,
// keeps to it from then on, and makes the broker known.
func (b *Broker) applyMetadata(ctx context.Context, cfg Config) error {
	b.applier.logs = b.logs
	b.unsubscribe = b.node.Subscribe(b.applier.apply)
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	if _, err := b.node.RegisterBroker(ctx, b.endpoints); err != nil {
		return fmt.Errorf("registering the broker: %w", err)
	}
	return nil
}

func (b *Broker) openServer(ctx context.Context, cfg Config) (err error) {
	b.service = api.New(api.Deps{
		BrokerID: b.id(), Cluster: b.node, Logs: b.logs, Groups: b.groups,
		Settings: b.settings, Now: cfg.Now, Log: cfg.Log,
	})
	idle := b.settings.MaxIdle
	if idle < 0 {
		idle = 1<<63 - 1 // for ever
	}
	b.server, err = server.New(server.Config{
		Listeners:     b.listeners,
		Handle:        b.handle(cfg.Now),
		Log:           cfg.Log,
		Limits:        wire.Limits{Produce: int(b.settings.MaxRequestBytes)},
		InFlightTotal: b.settings.MaxQueuedBytes,
		IdleTimeout:   idle,
	})
	return err
}

// handle passes frames from the server to the service.
func (b *Broker) handle(now func() time.Time) server.Handler {
	return func(c *server.Conn, frame []byte, done func(*wire.Reply)) error {
		return b.service.Handle(&api.Request{
			Listener:   c.Listener(),
			ClientAddr: c.RemoteAddr(),
			Principal:  api.Anonymous,
			Arrived:    now(),
			Context:    c.Context(),
			Disconnect: c.Close,
		}, frame, done)
	}
}

// close gives back what was opened, in the opposite order. Replies may go out
// until grace ends.
func (b *Broker) close(grace context.Context) (err error) {
	b.closed.Do(func() { err = b.closeParts(grace) })
	return err
}

// Close gives back what New took, for a broker whose Run is never called.
// After Run it does nothing.
func (b *Broker) Close() error { return b.close(context.Background()) }

func (b *Broker) closeParts(grace context.Context) error {
	var errs []error
	if b.server != nil {
		b.server.Drain()
	}
	if b.groups != nil {
		b.groups.Close() // answers the members that wait for each other
	}
	if b.server != nil {
		b.server.Stop(grace)
	} else {
		for _, l := range b.listeners {
			errs = append(errs, l.Close())
		}
	}
	if b.service != nil {
		b.service.Close()
	}
	if b.unsubscribe != nil {
		b.unsubscribe()
	}
	if b.logs != nil {
		errs = append(errs, b.logs.Close())
	}
	if b.folder != nil {
		errs = append(errs, b.folder.Close())
	}
	if b.node != nil {
		errs = append(errs, b.node.Close())
	}
	return errors.Join(errs...)
}
