package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLogger passes raft's log on to ours. What raft calls information, such as
// each election, and what it warns of, such as the election at each start of a
// lone voter, is detail for an operator; its errors are repeated while they last
// and are told once by the node, so they are warnings.
func raftLogger(log *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Off, Output: io.Discard})
	l.RegisterSink(raftSink{log})
	return l
}

type raftSink struct{ log *slog.Logger }

// Accept implements hclog.SinkAdapter.
func (s raftSink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	if level >= hclog.Error {
		to = slog.LevelWarn
	}
	if s.log.Enabled(context.Background(), to) {
		s.log.Log(context.Background(), to, "raft: "+msg, plainArgs(args)...)
	}
}

// plainArgs formats what hclog would format.
func plainArgs(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			out[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	return out
}
