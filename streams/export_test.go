package streams

import "github.com/millrace/millrace/streams/internal/worker"

// The steps of a commit, for tests that crash at one of them.
const (
	BeforeFlush   = worker.BeforeFlush
	BeforeState   = worker.BeforeState
	BeforeOffsets = worker.BeforeOffsets
	AfterOffsets  = worker.AfterOffsets
)

// CommitStep is a point of a commit.
type CommitStep = worker.CommitStep

// InterruptCommits returns cfg with commits that fail as f says.
func InterruptCommits(cfg Config, f func(CommitStep) error) Config {
	cfg.interrupt = f
	return cfg
}
