package cluster

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// machine is the state machine that raft drives: it replaces the image, and
// leaves all deciding to [Image.apply].
type machine struct {
	image   atomic.Pointer[Image]
	changed func()      // called after the image was replaced
	failed  func(error) // called when a command cannot be read
	broken  bool        // such a command was met: nothing is applied any more
}

// Apply implements raft.FSM. It returns an outcome.
func (m *machine) Apply(entry *raft.Log) any {
	if m.broken {
		return outcome{err: ErrClosed}
	}
	c, at, err := decodeCommand(entry.Data)
	if err != nil {
		err = fmt.Errorf("entry %d of the metadata log: %w", entry.Index, err)
		m.broken = true
		m.failed(err)
		return outcome{err: err}
	}
	next, out := m.image.Load().apply(c, moment{index: entry.Index, time: at})
	m.image.Store(next)
	m.changed()
	return out
}

// Snapshot implements raft.FSM.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if m.broken {
		return nil, ErrClosed
	}
	return frozenImage{m.image.Load()}, nil
}

// Restore implements raft.FSM.
func (m *machine) Restore(from io.ReadCloser) error {
	b, err := io.ReadAll(from)
	if err != nil {
		return fmt.Errorf("reading the metadata snapshot: %w", err)
	}
	image, err := decodeImage(b)
	if errors.Is(err, ErrNewerFormat) {
		m.failed(err) // raft would say only that it found no snapshot
	}
	if err != nil {
		return err
	}
	m.image.Store(image)
	m.changed()
	return nil
}

// frozenImage is an image that raft stores. Images never change.
type frozenImage struct{ image *Image }

// Persist implements raft.FSMSnapshot.
func (f frozenImage) Persist(sink raft.SnapshotSink) error {
	if _, err := sink.Write(f.image.encode()); err != nil {
		_ = sink.Cancel() // the write's error says what is wrong
		return fmt.Errorf("writing the metadata snapshot: %w", err)
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (frozenImage) Release() {}
