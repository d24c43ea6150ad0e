package connector

import "log/slog"

// Task is what a [Source] or [Sink] is opened with.
type Task struct {
	// Connector is the name that the user gave to the connector.
	Connector string

	// Number tells the tasks of one connector apart; it counts from 0.
	Number int

	// Settings are those of this task, checked against the spec, with its
	// defaults filled in.
	Settings Settings

	// Resume says where to go on, for a source: for each source partition
	// that it has produced records of, the position of the last one that
	// was taken over. Begin behind it. A source partition that is not in
	// the map begins at its beginning. It is nil for a sink.
	Resume map[string]string

	// Topics are those whose records a sink will be given. Partitions may
	// come and go without notice. It is nil for a source.
	Topics []string

	// StateDir is a folder of this task's own for caches and the like. It
	// exists. It survives restarts on one machine, but the task may be moved
	// to another machine, where it starts empty; what must not be lost
	// belongs in the positions of records.
	StateDir string

	// Log is where to log to; its lines reach the host's log with the
	// connector's name and task on them. It is never nil. Do not log the
	// values of secret settings.
	Log *slog.Logger
}
