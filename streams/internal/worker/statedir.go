package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace/millrace/streams/internal/assign"
	"github.com/millrace/millrace/streams/internal/task"
	"github.com/millrace/millrace/streams/state"
)

// stateDir is the folder of an application on this machine (docs/format/streams-group.md).
type stateDir struct {
	path    string
	lock    io.Closer
	process assign.ProcessID

	mu sync.Mutex
	// held has the folders that a task of this process has open; the channel is closed when it lets go.
	held map[task.ID]chan struct{}
	// progress is how far each task's folder was when it was last closed or committed.
	progress map[task.ID]int64
	// settled is when tasks were last given to this process, or taken from it.
	settled time.Time
}

// cleanupDelay is how long a folder is kept whose task runs elsewhere: Kafka Streams' state.cleanup.delay.ms. A task that
// comes back within it need not be restored from the start.
const cleanupDelay = 10 * time.Minute

func openStateDir(path string) (*stateDir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("making the state folder: %w", err)
	}
	lock, err := state.LockFolder(path)
	if err != nil {
		return nil, fmt.Errorf("state folder %s is used by another process of this job: give each process a StateDir of its own: %w", path, err)
	}
	d := &stateDir{path: path, lock: lock, held: map[task.ID]chan struct{}{}, progress: map[task.ID]int64{}}
	if d.process, err = processID(filepath.Join(path, "process-id")); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// processID reads the id of this process, which outlives it, or makes one.
func processID(path string) (assign.ProcessID, error) {
	var id assign.ProcessID
	text, err := os.ReadFile(path)
	if err == nil {
		if n, derr := hex.Decode(id[:], trimNewline(text)); derr == nil && n == len(id) {
			return id, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return id, fmt.Errorf("reading the process id: %w", err)
	}
	if _, err := rand.Read(id[:]); err != nil {
		return id, fmt.Errorf("making a process id: %w", err)
	}
	if err := os.WriteFile(path, append(hex.AppendEncode(nil, id[:]), '\n'), 0o644); err != nil {
		return id, fmt.Errorf("writing the process id: %w", err)
	}
	return id, nil
}

// trimNewline cuts the line after the id, and anything longer than an id.
func trimNewline(b []byte) []byte {
	return b[:min(len(b), 2*len(assign.ProcessID{}))]
}

func (d *stateDir) Close() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("unlocking state folder %s: %w", d.path, err)
	}
	return nil
}

func (d *stateDir) taskDir(id task.ID) string { return filepath.Join(d.path, id.String()) }

// scan reads how far the folders of the job's tasks are. One that cannot be read counts as empty here; opening it will
// say why.
func (d *stateDir) scan(tasks []task.ID, log *slog.Logger) {
	for _, id := range tasks {
		if _, err := os.Stat(d.taskDir(id)); err != nil {
			continue
		}
		c, err := state.ReadCheckpoint(d.taskDir(id))
		if err != nil {
			log.Warn("cannot read a task's folder yet", "task", id, "err", err)
			continue
		}
		d.setProgress(id, c)
	}
}

func (d *stateDir) setProgress(id task.ID, c state.Checkpoint) {
	var sum int64
	for _, p := range c.Changelogs {
		sum += p.Next
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress[id] = sum
}

// known returns how far every task's folder is.
func (d *stateDir) known() map[task.ID]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[task.ID]int64, len(d.progress))
	for id, p := range d.progress {
		out[id] = p
	}
	return out
}

// hold waits until no other task of this process has the folder: a thread that lost the task may still be closing it.
func (d *stateDir) hold(ctx context.Context, id task.ID) error {
	for {
		d.mu.Lock()
		busy, ok := d.held[id]
		if !ok {
			d.held[id] = make(chan struct{})
			d.mu.Unlock()
			return nil
		}
		d.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *stateDir) release(id task.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.held[id])
	delete(d.held, id)
}

// moved notes that tasks came or went.
func (d *stateDir) moved(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = now
}

// clean removes the folders of tasks that have been elsewhere for the delay. It is to be called only while the group works:
// a process that merely cannot reach it gets its tasks back. Nor does it remove while tasks still move.
func (d *stateDir) clean(now time.Time, log *slog.Logger) {
	d.mu.Lock()
	var idle []task.ID
	if now.Sub(d.settled) > cleanupDelay {
		for id := range d.progress {
			if _, busy := d.held[id]; !busy {
				idle = append(idle, id)
				d.held[id] = make(chan struct{})
			}
		}
	}
	d.mu.Unlock()
	for _, id := range idle {
		log.Info("removing the state of a task that is elsewhere", "task", id, "after", cleanupDelay)
		if err := os.RemoveAll(d.taskDir(id)); err != nil {
			log.Warn("cannot remove the state of a task that is elsewhere", "task", id, "err", err)
		}
		d.mu.Lock()
		delete(d.progress, id)
		d.mu.Unlock()
		d.release(id)
	}
}
