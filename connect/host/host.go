package host

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// Config says where plugins are and how they are run.
type Config struct {
	// Bundled are the plugins that the program itself serves.
	Bundled []connector.Plugin

	// BundledCommand returns the command, program first, that serves a
	// bundled plugin. nil means this executable with the arguments "plugin",
	// "serve" and the name.
	BundledCommand func(name string) []string

	// Dirs are the folders in which executables called millrace-plugin-<name>
	// are looked for. If a name is there more than once, the first folder
	// has it, and bundled plugins come before all. A folder that does not
	// exist is as good as an empty one.
	Dirs []string

	// Log gets the host's own lines, and those of the plugins with the
	// connector's name and task on them. It is required.
	Log *slog.Logger

	// LogLevel is the lowest level that plugins are asked to log at.
	LogLevel slog.Level

	// BatchBytes is the size at which batches are cut; 0 means 1 MiB. A
	// single larger record passes.
	BatchBytes int

	// StartTimeout bounds the time from starting a process until it answers;
	// 0 means 30 s. Opening the task comes after that and is not bounded.
	StartTimeout time.Duration

	// StopTimeout bounds the time that a task is given to close, before its
	// process is killed; 0 means 5 s.
	StopTimeout time.Duration

	// Backoff says how restarts are spaced.
	Backoff Backoff
}

// Backoff spaces the restarts of a process that died or could not be started.
type Backoff struct {
	// First is the pause before the first restart, which doubles with each
	// further one, until a record has passed; 0 means 200 ms.
	First time.Duration
	// Longest bounds the pause; 0 means 30 s.
	Longest time.Duration
	// Attempts is how many times in a row a process may die without a record
	// having passed, before the task fails; 0 means 8.
	Attempts int
}

func (c Config) withDefaults() Config {
	setDefault(&c.StartTimeout, 30*time.Second)
	setDefault(&c.StopTimeout, 5*time.Second)
	setDefault(&c.Backoff.First, 200*time.Millisecond)
	setDefault(&c.Backoff.Longest, 30*time.Second)
	setDefault(&c.Backoff.Attempts, 8)
	setDefault(&c.BatchBytes, 1<<20)
	return c
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

func (c Config) validate() error {
	switch {
	case c.Log == nil:
		return errors.New("making a plugin host: it has no logger")
	case c.BatchBytes < 0, c.StartTimeout < 0, c.StopTimeout < 0:
		return errors.New("making a plugin host: a size or time is negative")
	case c.Backoff.First < 0, c.Backoff.Longest < c.Backoff.First, c.Backoff.Attempts < 0:
		return errors.New("making a plugin host: the back-off is negative, or its first pause longer than its longest")
	}
	return nil
}

// Host finds and runs plugins. Its methods may be called by any goroutine.
type Host struct {
	cfg     Config
	command func(name string) []string
	found   *finder
}

// New returns a host. It starts nothing.
func New(cfg Config) (*Host, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	command := cfg.BundledCommand
	if command == nil {
		self, err := os.Executable()
		if err != nil {
			return nil, errors.Join(errors.New("making a plugin host: cannot tell where this program is"), err)
		}
		command = func(name string) []string { return []string{self, "plugin", "serve", name} }
	}
	return &Host{cfg: cfg, command: command, found: newFinder(cfg)}, nil
}

// Kind tells sources from sinks.
type Kind int

const (
	// KindSource is a source.
	KindSource Kind = iota
	// KindSink is a sink.
	KindSink
)

// String returns "source" or "sink".
func (k Kind) String() string {
	if k == KindSink {
		return "sink"
	}
	return "source"
}

// ErrUnknownPlugin is wrapped by errors about a plugin that is not to be found.
var ErrUnknownPlugin = errors.New("no such plugin")

// ErrClosed is returned by calls on a task after its Close.
var ErrClosed = errors.New("the task is closed")

// ErrRewind is returned by Write and Flush of a [Sink] whose process died
// after it had accepted records that were not flushed. They are lost. The
// caller goes back to the offsets of its last successful Flush (or to where it
// began) and writes from there; this error is returned once for each loss.
var ErrRewind = errors.New("the connector died with records that were not flushed")

// State is the state of a task.
type State int

const (
	// Starting: the process is being started, or the connector opens.
	Starting State = iota
	// Running: the connector is open. A source whose Read has returned io.EOF
	// stays so until it is closed.
	Running
	// BackingOff: the process died or could not be started, and will be
	// started again after a pause. Status.Err says why.
	BackingOff
	// Failed: the connector reported an error that it cannot go on from, or
	// the process died too often. It is final. Status.Err says why.
	Failed
	// Stopped: the task was closed.
	Stopped
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Starting:
		return "starting"
	case Running:
		return "running"
	case BackingOff:
		return "backing off"
	case Failed:
		return "failed"
	}
	return "stopped"
}

// Status is what is known of a task at one moment.
type Status struct {
	State State
	// Err is the cause of BackingOff, of the Starting after it, and of Failed,
	// and while Running that of a retry which is going on; nil otherwise.
	// Secrets are hidden in it.
	Err error
	// PID is the process's id while it runs, and otherwise 0.
	PID int
	// Restarts counts how often the process was started again.
	Restarts int
	// Progress is what a source last said, if HasProgress.
	Progress    connector.Progress
	HasProgress bool
}

// TaskConfig describes a task to open.
type TaskConfig struct {
	// Plugin is the plugin's name, such as "file".
	Plugin string
	// Connector is the connector's name, which must not be empty, and Task the
	// task's number, from 0.
	Connector string
	Task      int
	// Settings are the connector's own settings, without those of the
	// runtime, as [Host.Split] returned them or as the user gave them.
	Settings map[string]string
	// Resume holds, for a source, the stored position of each source
	// partition.
	Resume map[string]string
	// Topics are those that a sink gets records of.
	Topics []string
	// StateDir is the task's own folder, for sources and sinks alike; it must
	// exist.
	StateDir string
	// OnStatus, if not nil, is called after each change of the status but
	// those of progress alone, in their order, never twice at a time. It must
	// not block and not call the task. If it is nil, the host logs what went
	// wrong.
	OnStatus func(Status)
}
