package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millrace/millrace/sdk/connector/protocol"
)

// process is a plugin's process, with a connection to it.
type process struct {
	pid    int
	client protocol.ConnectorClient
	exited <-chan struct{} // closed when the process has ended

	runner   *cmdRunner
	plugin   *plugin.Client
	stopLive context.CancelFunc
}

// startProcess runs a command that serves a plugin and connects to it. When
// ctx ends before that is done, it kills the process and returns ctx.Err().
// Lines that the process prints go to output.
func startProcess(ctx context.Context, command []string, timeout time.Duration, output *outputLog) (*process, error) {
	run := newCmdRunner(command, output)
	stopKilling := context.AfterFunc(ctx, run.killGroup)
	defer stopKilling()
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  protocol.Handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{protocol.Version: {protocol.PluginKey: &clientPlugin{}}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		StartTimeout:     timeout,
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, socketDir string) (runner.Runner, error) {
			run.env, run.socketDir = cmd.Env, socketDir
			return run, nil
		},
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(protocol.MaxMessageBytes), grpc.MaxCallSendMsgSize(protocol.MaxMessageBytes))},
		SyncStdout: output.writer(), SyncStderr: output.writer(),
		Logger: hclog.NewNullLogger(),
	})
	p, err := connect(ctx, client, run, timeout)
	if err != nil {
		run.killGroup()
		client.Kill()
		run.waitEnd()
		_ = os.RemoveAll(run.socketDir) // go-plugin leaves it if nothing was started
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, run.explain(err)
	}
	return p, nil
}

// connect waits for the handshake and opens the Live stream.
func connect(ctx context.Context, client *plugin.Client, run *cmdRunner, timeout time.Duration) (*process, error) {
	dispenser, err := client.Client()
	if err != nil {
		return nil, err
	}
	made, err := dispenser.Dispense(protocol.PluginKey)
	if err != nil {
		return nil, err
	}
	p := &process{
		pid: run.pid(), client: made.(protocol.ConnectorClient), exited: run.exited,
		runner: run, plugin: client,
	}
	// The stream lives as long as the process, not as long as the launch.
	live, stopLive := context.WithCancel(context.WithoutCancel(ctx))
	p.stopLive = stopLive
	stream, err := p.client.Live(live, &protocol.LiveRequest{})
	if err == nil {
		late := time.AfterFunc(timeout, stopLive)
		_, err = stream.Recv()
		late.Stop()
	}
	if err != nil {
		stopLive()
		return nil, fmt.Errorf("opening the lifetime stream: %w", err)
	}
	return p, nil
}

// kill ends the process at once, with all that it started, and waits for it.
func (p *process) kill() {
	p.runner.killGroup()
	p.plugin.Kill()
	p.stopLive()
	p.runner.waitEnd()
}

// shutdown asks the process to end, and kills it if it does not within two
// seconds (go-plugin's patience).
func (p *process) shutdown() {
	p.plugin.Kill()
	p.stopLive()
	p.runner.killGroup()
	p.runner.waitEnd()
}

// exitError says how the process ended, once it has.
func (p *process) exitError() error {
	<-p.runner.ended // so that its last words are known
	text, byItself := p.runner.exitText()
	if panicked := p.runner.output.panicked(); panicked != "" {
		text += ": " + panicked
	} else if last := p.runner.output.lastLines(1); last != "" && byItself {
		text += "; its last output was: " + last
	}
	return fmt.Errorf("the connector's process %d ended: %s", p.pid, text)
}

// transportError explains a call that got no answer: the process died, or the
// connection broke.
func (p *process) transportError(doing string, err error) error {
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return fmt.Errorf("%s: %w", doing, context.DeadlineExceeded)
	case codes.Canceled:
		return fmt.Errorf("%s: %w", doing, context.Canceled)
	default:
		select {
		case <-p.exited:
			return fmt.Errorf("%s: %w", doing, p.exitError())
		case <-time.After(exitGrace): // the connection breaks a moment before the process has ended
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// exitGrace is how long a broken connection waits for an explanation.
const exitGrace = 200 * time.Millisecond

// clientPlugin is what go-plugin wants to have of a client.
type clientPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (*clientPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("a host is no plugin")
}

func (*clientPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return protocol.NewConnectorClient(conn), nil
}

// cmdRunner runs a plugin's command for go-plugin. Unlike go-plugin's own it
// can be killed while go-plugin waits for the handshake, it kills the whole
// process group, and it notices the end of the process even if a grandchild
// holds its pipes open.
type cmdRunner struct {
	command []string
	output  *outputLog
	exited  chan struct{} // closed when the process has ended
	ended   chan struct{} // closed when all that it printed has been read as well

	env       []string // set by go-plugin before Start
	socketDir string   // likewise

	mu     sync.Mutex
	cmd    *exec.Cmd  // nil until started
	killed bool       // before or after it was started
	reaped bool       // its number may belong to another process now
	exit   string     // how it ended, once exited is closed
	exits  bool       // it ended by itself, rather than by a signal
	stdout *eofReader // our end
}

func newCmdRunner(command []string, output *outputLog) *cmdRunner {
	return &cmdRunner{command: command, output: output, exited: make(chan struct{}), ended: make(chan struct{})}
}

// Start implements runner.Runner.
func (r *cmdRunner) Start(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		return errors.New("the start was given up")
	}
	stdoutOurs, stdoutTheirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe for the plugin's output: %w", err)
	}
	stderrOurs, stderrTheirs, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("making a pipe for the plugin's errors: %w", err), stdoutOurs.Close(), stdoutTheirs.Close())
	}
	cmd := exec.Command(r.command[0], r.command[1:]...)
	cmd.Env = r.env
	cmd.Stdout, cmd.Stderr = stdoutTheirs, stderrTheirs
	ownGroup(cmd)
	err = cmd.Start()
	_ = stdoutTheirs.Close() // the child has copies
	_ = stderrTheirs.Close()
	if err != nil {
		return errors.Join(fmt.Errorf("running %s: %w", r.command[0], err), stdoutOurs.Close(), stderrOurs.Close())
	}
	r.cmd, r.stdout = cmd, &eofReader{ReadCloser: stdoutOurs, eof: make(chan struct{})}
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		r.output.copyFrom(stderrOurs)
	}()
	go r.reap(stderrOurs, logged)
	return nil
}

// reap ends when the process has, and all that it printed was read and, if it
// was to standard error, logged. A grandchild that left the group may keep the
// pipes open; it is given a second.
func (r *cmdRunner) reap(stderr io.Closer, logged <-chan struct{}) {
	err := r.cmd.Wait()
	r.mu.Lock()
	r.reaped, r.exit, r.exits = true, "exit status 0", r.cmd.ProcessState.Exited()
	if err != nil {
		r.exit = err.Error()
	}
	killGroup(r.cmd) // children that are left
	r.mu.Unlock()
	close(r.exited)

	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	for _, pipe := range []struct {
		io.Closer
		end <-chan struct{}
	}{{r.stdout, r.stdout.eof}, {stderr, logged}} {
		select {
		case <-pipe.end:
		case <-patience.C:
			patience.Reset(0)
		}
		_ = pipe.Close()
	}
	<-logged // which its end, or closing it, brings about
	_ = os.RemoveAll(r.socketDir)
	close(r.ended)
}

// eofReader tells when its end was reached.
type eofReader struct {
	io.ReadCloser
	eof  chan struct{}
	once sync.Once
}

func (r *eofReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil {
		r.once.Do(func() { close(r.eof) })
	}
	return n, err
}

// killGroup kills the process and its children, also if it is yet to start.
func (r *cmdRunner) killGroup() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.cmd != nil && !r.reaped {
		killGroup(r.cmd)
	}
}

// waitEnd returns when the process, if there ever was one, has ended and what
// it had printed is logged.
func (r *cmdRunner) waitEnd() {
	r.mu.Lock()
	started := r.cmd != nil
	r.mu.Unlock()
	if started {
		<-r.ended
		r.output.flush()
	}
}

// exitText says how the process ended, and whether it did so by itself.
func (r *cmdRunner) exitText() (text string, byItself bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exit, r.exits
}

func (r *cmdRunner) pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return 0
	}
	return r.cmd.Process.Pid
}

// explain makes an error of a failed start worth reading.
func (r *cmdRunner) explain(err error) error {
	text := err.Error()
	if printed, ok := printedEarly(text); ok {
		return fmt.Errorf("starting %s: it printed %q to standard output before it called connector.Serve, which must come first", r.command[0], printed)
	}
	if strings.HasPrefix(text, unknownLine) {
		text = "it ended without having called connector.Serve"
	}
	if last := r.output.lastLines(recentLines); last != "" {
		text += "; its last output was: " + last
	}
	return fmt.Errorf("starting %s: %s", strings.Join(r.command, " "), text)
}

// What go-plugin's errors begin with if the plugin's first line is not the
// handshake, or if something stands before it on its line.
const (
	unknownLine  = "Unrecognized remote plugin message: "
	badFirstPart = `error parsing core protocol version: strconv.Atoi: parsing "`
)

// printedEarly finds in go-plugin's error what a plugin printed in place of the
// handshake.
func printedEarly(text string) (printed string, ok bool) {
	if rest, ok := strings.CutPrefix(text, unknownLine); ok {
		line, _, _ := strings.Cut(rest, "\n")
		return line, line != ""
	}
	if rest, ok := strings.CutPrefix(text, badFirstPart); ok {
		line, _, _ := strings.Cut(rest, `": invalid syntax`)
		return strings.TrimSuffix(line, strconv.Itoa(plugin.CoreProtocolVersion)), true
	}
	return "", false
}

// Wait implements runner.Runner.
func (r *cmdRunner) Wait(context.Context) error {
	<-r.exited
	return nil
}

// Kill implements runner.Runner.
func (r *cmdRunner) Kill(context.Context) error {
	r.killGroup()
	return nil
}

// Stdout implements runner.Runner.
func (r *cmdRunner) Stdout() io.ReadCloser { return r.stdout }

// Stderr implements runner.Runner: go-plugin gets nothing, as the host reads
// standard error itself.
func (r *cmdRunner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (r *cmdRunner) Name() string { return r.command[0] }

// ID implements runner.Runner.
func (r *cmdRunner) ID() string { return strconv.Itoa(r.pid()) }

// Diagnose implements runner.Runner.
func (r *cmdRunner) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner.
func (r *cmdRunner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin implements runner.Runner.
func (r *cmdRunner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
