package connector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

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
	isOpen bool   // between Open and Close
	doing  string // the call that holds calls, or the last one that did

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

// begin waits for the calls to the author's code that are under way, and
// returns what ends the one that begins now.
func (s *server) begin(ctx context.Context, call string) (end func(), err error) {
	if err := s.calls.acquire(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doing = call
	return s.calls.release, nil
}

func (s *server) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doing
}

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
		if source := s.plugin.NewSource(); source != nil {
			return source, s.plugin.Spec.Source, nil
		}
		return nil, nil, errors.New("the plugin's NewSource returned nil")
	case kind == protocol.Kind_KIND_SINK && s.plugin.NewSink != nil:
		if sink := s.plugin.NewSink(); sink != nil {
			return sink, s.plugin.Spec.Sink, nil
		}
		return nil, nil, errors.New("the plugin's NewSink returned nil")
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
		end, err := s.begin(ctx, "Validate")
		if err != nil {
			return err
		}
		defer end()
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
	end, err := s.begin(ctx, "Split")
	if err != nil {
		return nil, err
	}
	defer end()
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
	end, err := s.begin(ctx, "Open")
	if err != nil {
		return err
	}
	defer end()
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
	// By the kind, not by the type: one type may be both.
	if req.GetKind() == protocol.Kind_KIND_SOURCE {
		source := made.(Source)
		task.Resume = req.GetResume()
		if err = source.Open(ctx, task); err == nil {
			s.source, s.reads = source, newSourceReads(source, task.Log, int(req.GetBatchBytes()))
		}
	} else {
		sink := made.(Sink)
		task.Topics = req.GetTopics()
		if err = sink.Open(ctx, task); err == nil {
			s.sink, s.writes = sink, NewDecoder()
		}
	}
	if err != nil {
		s.setOpen(false)
	}
	return err
}

// Read implements the protocol.
func (s *server) Read(ctx context.Context, _ *protocol.ReadRequest) (*protocol.ReadResponse, error) {
	end, err := s.begin(ctx, "Read")
	if err != nil {
		return &protocol.ReadResponse{Outcome: outcomeOf(ctx, err)}, nil
	}
	defer end()
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
	log        *slog.Logger
	batch      Batch
	begin      int   // index of the first record that has not been sent
	then       error // what the source returned with the batch: nil, io.EOF or a Retry
	encoder    *Encoder
	limitBytes int
}

func newSourceReads(source Source, log *slog.Logger, limitBytes int) *sourceReads {
	r := &sourceReads{source: source, log: log, encoder: NewEncoder(), limitBytes: limitBytes}
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

// A Read that returns with nothing emptyReads times in a row within emptyTime
// keeps a processor busy, which is hardly meant.
const (
	emptyReads = 10_000
	emptyTime  = 10 * time.Second
)

// fill reads the next batch. It returns with records, with r.then set, or with
// an error.
func (r *sourceReads) fill(ctx context.Context) error {
	r.batch.Reset()
	r.begin = 0
	begun := time.Now()
	for empty := 1; r.then == nil && r.batch.Len() == 0; empty++ {
		err := r.source.Read(ctx, &r.batch)
		if err == nil {
			if ctx.Err() != nil && r.batch.Len() == 0 {
				return ctx.Err()
			}
			if empty == emptyReads && time.Since(begun) < emptyTime {
				r.log.Warn("Read returns without records again and again, which keeps a processor busy; it should wait until there is one", "times", empty)
			}
			continue
		}
		if _, ok := errors.AsType[*RetryError](err); !ok && err != io.EOF {
			r.batch.Reset()
			return err
		}
		r.then = err
	}
	return r.checkOrigins()
}

// checkOrigins refuses records that the task could not resume behind.
func (r *sourceReads) checkOrigins() error {
	for i, record := range r.batch.Rows() {
		if record.Origin.Position == "" {
			r.batch.Reset()
			return fmt.Errorf("record %d of those that Read returned has no Origin.Position, so the task could not resume behind it", i)
		}
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
		end, err := s.begin(ctx, "Write")
		if err != nil {
			return err
		}
		defer end()
		if s.sink == nil {
			return errNotOpen
		}
		var batch Batch
		if err := s.writes.Decode(req.GetBatch(), &batch); err != nil {
			return err
		}
		err = s.sink.Write(ctx, &batch)
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
	end, err := s.begin(ctx, "Flush")
	if err != nil {
		return &protocol.FlushResponse{Outcome: outcomeOf(ctx, err)}, nil
	}
	defer end()
	flusher, ok := s.sink.(Flusher)
	if !ok {
		return &protocol.FlushResponse{Outcome: unsupported("the connector takes no Flush")}, nil
	}
	return &protocol.FlushResponse{Outcome: outcomeOf(ctx, flusher.Flush(ctx))}, nil
}

// Close implements the protocol. It waits for the call that is being made,
// which the host has cancelled.
func (s *server) Close(ctx context.Context, _ *protocol.CloseRequest) (*protocol.CloseResponse, error) {
	if err := s.waitForCalls(ctx); err != nil {
		// The host need not wait until its own patience ends, and hears why.
		return &protocol.CloseResponse{Outcome: &protocol.Outcome{Code: protocol.Outcome_CANCELLED, Message: err.Error()}}, nil
	}
	defer s.calls.release()
	defer s.acks.release()
	defer s.setOpen(false)
	source, sink := s.source, s.sink
	s.source, s.sink = nil, nil
	var err error
	switch {
	case source != nil:
		err = source.Close(ctx)
	case sink != nil:
		err = sink.Close(ctx)
	}
	return &protocol.CloseResponse{Outcome: outcomeOf(ctx, err)}, nil
}

// waitForCalls takes both semaphores. Its patience ends a moment before that of
// ctx; after an error the process is of no more use.
func (s *server) waitForCalls(ctx context.Context) error {
	begun := time.Now()
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*9/10)
		defer cancel()
	}
	for _, wait := range []struct {
		until semaphore
		call  string
	}{{s.calls, s.current()}, {s.acks, "Ack"}} {
		if wait.until.acquire(ctx) != nil {
			return fmt.Errorf("%s, whose context had ended, did not return within %v", wait.call, time.Since(begun).Round(10*time.Millisecond))
		}
	}
	return nil
}
