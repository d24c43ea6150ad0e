package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/connect"
	"github.com/millrace/millrace/connect/rest"
)

// workerFlags describe a Connect worker on the command line.
type workerFlags struct {
	listen     string
	pluginDirs []string
	stateDir   string
	interval   time.Duration
}

func (f *workerFlags) addFlags(flags *pflag.FlagSet, stateDir string) {
	flags.StringVar(&f.listen, "connect-listen", "127.0.0.1:8083", "host:port of the REST API; port 0 takes any free one")
	flags.StringArrayVar(&f.pluginDirs, "plugin-dir", nil, pluginDirHelp)
	flags.StringVar(&f.stateDir, "connect-state", stateDir, "folder for the caches of connectors on this machine")
	flags.DurationVar(&f.interval, "commit-interval", time.Second, "how often positions and offsets are stored")
}

// workerNode is a Connect worker with its REST API.
type workerNode struct {
	worker   *connect.Worker
	listener net.Listener
	server   *http.Server
}

// startWorker opens the worker and its API's address. Call run afterwards.
func startWorker(ctx context.Context, s *session, f workerFlags, client []kgo.Opt) (*workerNode, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the REST API cannot listen on %s: another program does; stop it, or choose another address with --connect-listen", f.listen)
	} else if err != nil {
		return nil, fmt.Errorf("the REST API cannot listen on %s: %w", f.listen, err)
	}
	h, err := newHost(s, f.pluginDirs)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	worker, err := connect.New(ctx, connect.Config{
		Client: client, Host: h, ID: workerID(listener.Addr()), StateDir: f.stateDir, CommitInterval: f.interval, Log: s.logger(),
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	handler := rest.Handler(worker, currentVersion().Version, s.logger())
	return &workerNode{worker, listener, &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}}, nil
}

// workerID names a worker as Kafka Connect does, by host and port.
func workerID(addr net.Addr) string {
	_, port, _ := net.SplitHostPort(addr.String())
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	return net.JoinHostPort(name, port)
}

// address is that of the REST API, as a URL.
func (n *workerNode) address() string { return "http://" + n.listener.Addr().String() }

// run serves until ctx ends, and returns when all tasks have stopped.
func (n *workerNode) run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- n.server.Serve(n.listener) }()
	err := n.worker.Run(ctx)
	err = errors.Join(err, n.server.Close())
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}
