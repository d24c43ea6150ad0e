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
}

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
