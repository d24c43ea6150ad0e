package connector

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/millrace/millrace/sdk/connector/protocol"
)

// Serve runs the plugin until its host is done with it or has died, and then
// returns. Call it first thing in main. A host starts the executable; run by
// hand, it explains itself on standard error and exits with 1 (asked for
// --help, on standard output and with 0). With the single argument "spec" it
// prints the plugin's manifest as JSON and returns.
//
// Serve takes standard output over: what is printed from then on goes to the
// host's log, as standard error does. Anything printed to standard output
// before is an error, which the host reports with what was printed.
//
// When the host dies, even by SIGKILL, Serve ends the process within two
// seconds, without calling Close. Interrupt and SIGTERM are ignored, as it is
// for the host to stop its plugins.
//
// If the plugin is not well formed (see [Plugin.Check]), Serve says so on
// standard error and ends the process with exit code 1.
func Serve(p Plugin) {
	if err := p.Check(); err != nil {
		fmt.Fprintf(os.Stderr, "The connector %q is not well formed:\n%v\n", p.Name, err)
		os.Exit(1)
	}
	handshake := protocol.Handshake()
	if os.Getenv(handshake.MagicCookieKey) != handshake.MagicCookieValue {
		serveByHand(p, os.Args[1:])
		return
	}

	ignored := make(chan os.Signal, 1) // go-plugin sees to the interrupt
	signal.Notify(ignored, syscall.SIGTERM)
	defer signal.Stop(ignored)

	server := newServer(p, os.Stderr, func(reason string) {
		if dir := os.Getenv(plugin.EnvUnixSocketDir); dir != "" {
			_ = os.RemoveAll(dir) // the host that made it for us cannot
		}
		fmt.Fprintf(os.Stderr, "connector %s ends itself: %s\n", p.Name, reason)
		os.Exit(1)
	})
	stopWatching := server.watchParent(os.Getppid)
	defer stopWatching()
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: map[int]plugin.PluginSet{protocol.Version: {protocol.PluginKey: &grpcPlugin{server: server}}},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(options,
				grpc.MaxRecvMsgSize(protocol.MaxMessageBytes), grpc.MaxSendMsgSize(protocol.MaxMessageBytes))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Name: "go-plugin", Level: hclog.Warn, Output: os.Stderr}),
	})
}

// serveByHand is Serve when no host started the executable.
func serveByHand(p Plugin, args []string) {
	if len(args) == 1 && args[0] == "spec" {
		if err := WriteManifest(os.Stdout, p); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	help := fmt.Sprintf("This is the connector %q, version %s, a plugin of Millrace Connect.\n"+
		"It is not run by hand: put it into a plugin folder of a Connect worker under the name\n"+
		"millrace-plugin-%s, and create a connector with connector.class=%s. To see its\n"+
		"settings, give it the argument \"spec\".\n", p.Name, p.Version, p.Name, p.class())
	if len(args) == 1 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help") {
		fmt.Print(help)
		return
	}
	fmt.Fprint(os.Stderr, help)
	os.Exit(1)
}

// class is what users write to choose the connector.
func (p Plugin) class() string {
	if p.NewSink == nil || p.NewSource == nil {
		return p.Name
	}
	return p.Name + "-source or " + p.Name + "-sink"
}

// grpcPlugin is what go-plugin wants to have of the server.
type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	server *server
}

func (g *grpcPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	protocol.RegisterConnectorServer(s, g.server)
	return nil
}

func (g *grpcPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("a plugin is no client")
}

const parentPoll = 200 * time.Millisecond

// watchParent ends the process when the host dies before it has opened the
// Live stream, which takes over from then on. Without it, a host killed at
// that moment would leave an orphan.
func (s *server) watchParent(parent func() int) (stop func()) {
	done := make(chan struct{})
	first := parent()
	go func() {
		tick := time.NewTicker(parentPoll)
		defer tick.Stop()
		deadline := time.NewTimer(protocol.LiveDeadline)
		defer deadline.Stop()
		for {
			select {
			case <-done:
				return
			case <-s.live:
				return
			case <-tick.C:
				if parent() != first {
					s.exit("the host died while the plugin was starting")
				}
			case <-deadline.C:
				s.exit("no host has connected")
			}
		}
	}()
	return func() { close(done) }
}

// Live ends the process when the stream ends: the host is gone. A host that
// stops its plugin in good order calls Close first, and has the process end by
// go-plugin's way of doing so.
func (s *server) Live(_ *protocol.LiveRequest, stream grpc.ServerStreamingServer[protocol.LiveResponse]) error {
	if err := stream.Send(&protocol.LiveResponse{}); err != nil {
		return err
	}
	s.liveOnce.Do(func() { close(s.live) })
	<-stream.Context().Done()
	if s.isIdle() {
		// In good order the process ends when Serve and main return.
		time.AfterFunc(time.Second, func() { s.exit("its host has gone") })
		return nil
	}
	s.exit("its host has gone")
	return nil
}

// newTaskLogger returns a logger whose lines the host takes apart again.
func newTaskLogger(to *os.File, level string) *slog.Logger {
	var lowest slog.Level
	if err := lowest.UnmarshalText([]byte(level)); err != nil {
		lowest = slog.LevelInfo
	}
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: lowest}))
}
