package connector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/millrace/millrace/sdk/connector/protocol"
)

// server is the plugin's side of the protocol: it turns calls into those of
// the author's source or sink. The host makes one call at a time, Ack apart;
// the semaphores hold it to that.
type server struct {
	protocol.UnimplementedConnectorServer

	plugin Plugin
	stderr *os.File            // where the task's log goes; go-plugin replaces os.Stderr
	exit   func(reason string) // ends the process

	live     chan struct{} // closed once the host has opened the Live stream
	liveOnce sync.Once

	calls semaphore // held by each call to the author's code but Ack
	acks  semaphore // held by Ack, and by Open and Close

	mu     sync.Mutex
	isOpen bool // between Open and Close

	// The rest is guarded by calls, and source also by acks.
	source Source
	sink   Sink
	reads  *sourceReads
	writes *Decoder
}

func newServer(p Plugin, stderr *os.File, exit func(reason string)) *server {
	return &server{
		plugin: p, stderr: stderr, exit: exit,
		live: make(chan struct{}), calls: newSemaphore(), acks: newSemaphore(),
	}
}

// semaphore is a lock whose waiters can give up.
type semaphore chan struct{}

func newSemaphore() semaphore { return make(semaphore, 1) }

func (s semaphore) acquire(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s semaphore) release() { <-s }

func (s *server) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.isOpen
}

func (s *server) setOpen(open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isOpen = open
}

// make returns a new source or sink and its fields.
func (s *server) make(kind protocol.Kind) (made any, fields []Field, err error) {
	switch {
	case kind == protocol.Kind_KIND_SOURCE && s.plugin.NewSource != nil:
		return s.plugin.NewSource(), s.plugin.Spec.Source, nil
	case kind == protocol.Kind_KIND_SINK && s.plugin.NewSink != nil:
		return s.plugin.NewSink(), s.plugin.Spec.Sink, nil
	case kind == protocol.Kind_KIND_SOURCE:
		return nil, nil, Problemf("", "the connector %q has no source", s.plugin.Name)
	}
	return nil, nil, Problemf("", "the connector %q has no sink", s.plugin.Name)
}

// Describe implements the protocol.
func (s *server) Describe(context.Context, *protocol.DescribeRequest) (*protocol.DescribeResponse, error) {
	var spec bytes.Buffer
	if err := WriteManifest(&spec, s.plugin); err != nil {
		return nil, err
	}
	return &protocol.DescribeResponse{Name: s.plugin.Name, Version: s.plugin.Version, SpecJson: spec.Bytes()}, nil
}

// Validate implements the protocol.
func (s *server) Validate(ctx context.Context, req *protocol.ValidateRequest) (*protocol.ValidateResponse, error) {
	err := func() error {
		if err := s.calls.acquire(ctx); err != nil {
			return err
		}
		defer s.calls.release()
		made, fields, err := s.make(req.GetKind())
		if err != nil {
			return err
		}
		settings, err := NewSettings(fields, req.GetSettings())
		if err != nil {
			return err
		}
		if v, ok := made.(Validator); ok {
			return v.Validate(ctx, settings)
		}
		return nil
	}()
	return &protocol.ValidateResponse{Outcome: outcomeOf(ctx, err)}, nil
}

// Split implements the protocol.
func (s *server) Split(ctx context.Context, req *protocol.SplitRequest) (*protocol.SplitResponse, error) {
	var res protocol.SplitResponse
	tasks, err := s.split(ctx, req)
	for _, t := range tasks {
		res.Tasks = append(res.Tasks, &protocol.SplitResponse_Task{Settings: t})
	}
	res.Outcome = outcomeOf(ctx, err)
	return &res, nil
}

func (s *server) split(ctx context.Context, req *protocol.SplitRequest) ([]map[string]string, error) {
	if err := s.calls.acquire(ctx); err != nil {
		return nil, err
	}
	defer s.calls.release()
	made, fields, err := s.make(req.GetKind())
	if err != nil {
		return nil, err
	}
	settings, err := NewSettings(fields, req.GetSettings())
	if err != nil {
		return nil, err
	}
	most := int(req.GetMaxTasks())
	splitter, ok := made.(Splitter)
	if !ok {
		if req.GetKind() == protocol.Kind_KIND_SOURCE {
			most = 1
		}
		return make([]map[string]string, most), nil
	}
	tasks, err := splitter.Split(ctx, settings, most)
	if err == nil && (len(tasks) < 1 || len(tasks) > most) {
		return nil, fmt.Errorf("the connector split its work into %d tasks, when at least 1 and at most %d were wanted", len(tasks), most)
	}
	return tasks, err
}

// Open implements the protocol.
func (s *server) Open(ctx context.Context, req *protocol.OpenRequest) (*protocol.OpenResponse, error) {
	err := s.open(ctx, req)
	_, flushes := s.sink.(Flusher)
	_, acks := s.source.(Acker)
	return &protocol.OpenResponse{Outcome: outcomeOf(ctx, err), Flushes: flushes, Acks: acks}, nil
}

func (s *server) open(ctx context.Context, req *protocol.OpenRequest) error {
	if err := s.calls.acquire(ctx); err != nil {
		return err
	}
	defer s.calls.release()
	if err := s.acks.acquire(ctx); err != nil {
		return err
	}
	defer s.acks.release()
	if !s.isIdle() || s.source != nil || s.sink != nil {
		return errors.New("the host opened the task twice")
	}
	made, fields, err := s.make(req.GetKind())
	if err != nil {
		return err
	}
	settings, err := NewSettings(fields, req.GetSettings())
	if err != nil {
		return err
	}
	task := Task{
		Connector: req.GetConnector(), Number: int(req.GetTask()), Settings: settings,
		StateDir: req.GetStateDir(), Log: newTaskLogger(s.stderr, req.GetLogLevel()),
	}
	s.setOpen(true)
	switch made := made.(type) {
	case Source:
		task.Resume = req.GetResume()
		if err = made.Open(ctx, task); err == nil {
			s.source, s.reads = made, newSourceReads(made, int(req.GetBatchBytes()))
		}
	case Sink:
		task.Topics = req.GetTopics()
		if err = made.Open(ctx, task); err == nil {
			s.sink, s.writes = made, NewDecoder()
		}
	}
	if err != nil {
		s.setOpen(false)
	}
	return err
}

// Read implements the protocol.
func (s *server) Read(ctx context.Context, _ *protocol.ReadRequest) (*protocol.ReadResponse, error) {
	if err := s.calls.acquire(ctx); err != nil {
		return &protocol.ReadResponse{Outcome: outcomeOf(ctx, err)}, nil
	}
	defer s.calls.release()
	if s.source == nil {
		return &protocol.ReadResponse{Outcome: outcomeOf(ctx, errNotOpen)}, nil
	}
	frame, err := s.reads.next(ctx)
	res := &protocol.ReadResponse{Outcome: outcomeOf(ctx, err), Batch: frame}
	if p, ok := s.source.(Progresser); ok {
		progress := p.Progress()
		res.Progress = &protocol.Progress{Done: progress.Done, Total: progress.Total, Unit: progress.Unit}
	}
	return res, nil
}

var errNotOpen = errors.New("the host has not opened such a task, or has closed it")

// sourceReads cuts what a source reads into frames of the wanted size.
type sourceReads struct {
	source     Source
	batch      Batch
	begin      int   // index of the first record that has not been sent
	then       error // what the source returned with the batch: nil, io.EOF or a Retry
	encoder    *Encoder
	limitBytes int
}

func newSourceReads(source Source, limitBytes int) *sourceReads {
	r := &sourceReads{source: source, encoder: NewEncoder(), limitBytes: limitBytes}
	r.batch.SetLimit(limitBytes)
	return r
}

// next returns the next frame. The error is nil, or one of Read's; with io.EOF
// and Retry there may be a frame as well.
func (r *sourceReads) next(ctx context.Context) (frame []byte, err error) {
	if r.begin == r.batch.Len() {
		if err := r.fill(ctx); err != nil {
			return nil, err
		}
	}
	if r.begin < r.batch.Len() {
		if frame, r.begin, err = r.encoder.Encode(&r.batch, r.begin, r.limitBytes); err != nil {
			return nil, err
		}
	}
	if r.begin < r.batch.Len() {
		return frame, nil
	}
	then := r.then
	if then != io.EOF { // the end stays the end
		r.then = nil
	}
	return frame, then
}

// fill reads the next batch. It returns with records, with r.then set, or with
// an error.
func (r *sourceReads) fill(ctx context.Context) error {
	r.batch.Reset()
	r.begin = 0
	for r.then == nil && r.batch.Len() == 0 {
		err := r.source.Read(ctx, &r.batch)
		if err == nil {
			if ctx.Err() != nil && r.batch.Len() == 0 {
				return ctx.Err()
			}
			continue
		}
		if _, ok := errors.AsType[*RetryError](err); !ok && err != io.EOF {
			r.batch.Reset()
			return err
		}
		r.then = err
	}
	return nil
}

// Ack implements the protocol.
func (s *server) Ack(ctx context.Context, req *protocol.AckRequest) (*protocol.AckResponse, error) {
	if err := s.acks.acquire(ctx); err != nil {
		return &protocol.AckResponse{Outcome: outcomeOf(ctx, err)}, nil
	}
	defer s.acks.release()
	acker, ok := s.source.(Acker)
	if !ok {
		return &protocol.AckResponse{Outcome: unsupported("the connector takes no Ack")}, nil
	}
	return &protocol.AckResponse{Outcome: outcomeOf(ctx, acker.Ack(ctx, req.GetPositions()))}, nil
}

// Write implements the protocol.
func (s *server) Write(ctx context.Context, req *protocol.WriteRequest) (*protocol.WriteResponse, error) {
	err := func() error {
		if err := s.calls.acquire(ctx); err != nil {
			return err
		}
		defer s.calls.release()
		if s.sink == nil {
			return errNotOpen
		}
		var batch Batch
		if err := s.writes.Decode(req.GetBatch(), &batch); err != nil {
			return err
		}
		err := s.sink.Write(ctx, &batch)
		if bad, ok := errors.AsType[RecordErrors](err); ok {
			for index := range bad {
				if index < 0 || index >= batch.Len() {
					return fmt.Errorf("the connector says that record %d is bad, but the batch has %d records", index, batch.Len())
				}
			}
		}
		return err
	}()
	return &protocol.WriteResponse{Outcome: outcomeOf(ctx, err)}, nil
}

// Flush implements the protocol.
func (s *server) Flush(ctx context.Context, _ *protocol.FlushRequest) (*protocol.FlushResponse, error) {
	if err := s.calls.acquire(ctx); err != nil {
		return &protocol.FlushResponse{Outcome: outcomeOf(ctx, err)}, nil
	}
	defer s.calls.release()
	flusher, ok := s.sink.(Flusher)
	if !ok {
		return &protocol.FlushResponse{Outcome: unsupported("the connector takes no Flush")}, nil
	}
	return &protocol.FlushResponse{Outcome: outcomeOf(ctx, flusher.Flush(ctx))}, nil
}

// Close implements the protocol. It waits for the call that is being made,
// which the host has cancelled.
func (s *server) Close(ctx context.Context, _ *protocol.CloseRequest) (*protocol.CloseResponse, error) {
	err := func() error {
		if err := s.calls.acquire(ctx); err != nil {
			return err
		}
		defer s.calls.release()
		if err := s.acks.acquire(ctx); err != nil {
			return err
		}
		defer s.acks.release()
		defer s.setOpen(false)
		source, sink := s.source, s.sink
		s.source, s.sink = nil, nil
		switch {
		case source != nil:
			return source.Close(ctx)
		case sink != nil:
			return sink.Close(ctx)
		}
		return nil
	}()
	return &protocol.CloseResponse{Outcome: outcomeOf(ctx, err)}, nil
}
