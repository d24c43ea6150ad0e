package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/millrace/millrace/sdk/connector"
	"github.com/millrace/millrace/sdk/connector/protocol"
)

// task is what sources and sinks have in common.
type task struct {
	host    *Host
	cfg     TaskConfig
	kind    protocol.Kind
	command []string
	log     *slog.Logger
	hide    *redactor
	super   *supervisor

	mu      sync.Mutex
	taken   map[string]string // position of the last record taken over, by source partition
	reading int               // generation whose records may be taken over

	closing  sync.Once
	closeErr error
}

// open checks a task's configuration and begins its supervision.
func (h *Host) open(cfg TaskConfig, kind Kind) (*task, error) {
	info, err := h.Plugin(context.Background(), cfg.Plugin)
	if err != nil {
		return nil, err
	}
	fields, err := info.fields(kind)
	if err != nil {
		return nil, err
	}
	if err := joined(connector.Check(fields, cfg.Settings)); err != nil {
		return nil, err
	}
	if cfg.Connector == "" {
		return nil, errors.New("the connector has no name")
	}
	if stat, err := os.Stat(cfg.StateDir); err != nil {
		return nil, fmt.Errorf("looking at the task's state folder: %w", err)
	} else if !stat.IsDir() {
		return nil, fmt.Errorf("the task's state folder %s is not a folder", cfg.StateDir)
	}
	t := &task{
		host: h, cfg: cfg, kind: kind.wire(), command: h.commandOf(info),
		log:   h.cfg.Log.With("connector", cfg.Connector, "task", cfg.Task),
		hide:  newRedactor(fields, cfg.Settings),
		taken: maps.Clone(cfg.Resume),
	}
	if t.taken == nil {
		t.taken = make(map[string]string)
	}
	t.super = newSupervisor(h.cfg.Backoff, t.launch, t.statusChanged)
	return t, nil
}

func (t *task) begin() { t.super.step(event{kind: begin}, nil) }

// Status returns the task's status.
func (t *task) Status() Status { return t.super.status() }

// statusChanged tells whoever wants to know, or else the log.
func (t *task) statusChanged(s Status) {
	switch {
	case t.cfg.OnStatus != nil:
		t.cfg.OnStatus(s)
	case s.State == BackingOff:
		t.log.Warn("the connector's process will be restarted", "cause", s.Err)
	case s.State == Running && s.Err != nil:
		t.log.Warn("the connector retries", "cause", s.Err)
	case s.State == Failed:
		t.log.Error("the connector failed", "cause", s.Err)
	}
}

// launch implements supervisor.launch.
func (t *task) launch(ctx context.Context, generation int) (*session, error) {
	output := &outputLog{log: t.log, hide: t.hide}
	p, err := startProcess(ctx, t.command, t.host.cfg.StartTimeout, output)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	// From here on what an older process has read is not taken over any more,
	// or this one would read it again.
	t.reading = generation
	resume := maps.Clone(t.taken)
	t.mu.Unlock()
	res, err := p.client.Open(ctx, &protocol.OpenRequest{
		Kind: t.kind, Connector: t.cfg.Connector, Task: uint32(t.cfg.Task),
		Settings: t.cfg.Settings, Resume: resume, Topics: t.cfg.Topics, StateDir: t.cfg.StateDir,
		BatchBytes: uint32(t.host.cfg.BatchBytes), LogLevel: t.host.cfg.LogLevel.String(),
	})
	if err != nil {
		err = p.transportError("opening the connector", err)
		p.kill()
		return nil, err
	}
	if err := errorOf(t.hide.hideIn(res.GetOutcome())); err != nil {
		p.shutdown()
		return nil, &openRefused{cause: err}
	}
	s := newSession(generation, p, t.host.cfg.StopTimeout)
	s.flushes, s.acks = res.GetFlushes(), res.GetAcks()
	if t.kind == protocol.Kind_KIND_SOURCE {
		s.pump.Go(func() { t.pump(s) })
	}
	return s, nil
}

// Close ends the task and its process, and waits for that: it interrupts Read,
// Write and Flush, has the connector close, and kills the process if that
// takes longer than StopTimeout or ctx allows. It works in every state, also
// while the process starts. It does not flush. The error is what the connector
// said; the task is closed in any case. Closing again returns the same.
func (t *task) Close(ctx context.Context) error {
	t.closing.Do(func() {
		if s := t.super.stop(); s != nil {
			t.closeErr = s.end(ctx)
		}
		t.super.wait()
	})
	return t.closeErr
}

// retryPause spaces the retries that a connector asks for: doubling, up to a
// minute.
type retryPause struct{ last time.Duration }

func (r *retryPause) wait(ctx context.Context, after time.Duration) error {
	const first, longest = time.Second, time.Minute
	switch {
	case r.last > 0:
		r.last = min(max(2*r.last, after), longest)
	case after > 0:
		r.last = after
	default:
		r.last = first
	}
	timer := time.NewTimer(r.last)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// joined returns problems as an error, or nil.
func joined(problems []connector.Problem) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

func (k Kind) wire() protocol.Kind {
	if k == KindSink {
		return protocol.Kind_KIND_SINK
	}
	return protocol.Kind_KIND_SOURCE
}
