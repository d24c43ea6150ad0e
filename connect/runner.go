package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"

	"github.com/millrace/millrace/connect/config"
)

// runner runs one connector with one configuration. A changed configuration is
// a new runner.
type runner struct {
	worker   *Worker
	name     string
	settings map[string]string
	gate     *gate
	log      *slog.Logger

	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	tasks []*task
}

// startRunner starts a connector; ctx bounds its life.
func startRunner(ctx context.Context, w *Worker, name string, c connectorConfig) *runner {
	ctx, cancel := context.WithCancel(ctx)
	r := &runner{
		worker: w, name: name, settings: c.settings,
		gate: newGate(c.target == TargetPaused), log: w.cfg.Log.With("connector", name),
		cancel: cancel, done: make(chan struct{}),
	}
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r
}

// run splits the work and runs the tasks until ctx ends.
func (r *runner) run(ctx context.Context) {
	tasks, err := r.split(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.log.Error("connector failed to start", "err", err)
			r.report(Failed, err)
		}
		<-ctx.Done()
		return
	}
	r.mu.Lock()
	r.tasks = tasks
	r.mu.Unlock()
	r.worker.statuses.update(connectorKey(r.name), func(Status) Status { return newStatus(r.activeState(), nil) })
	var running sync.WaitGroup
	for _, t := range tasks {
		running.Go(func() { t.loop(ctx) })
	}
	running.Wait()
	r.report(Unassigned, nil)
}

func (r *runner) activeState() State {
	if r.gate.isPaused() {
		return Paused
	}
	return Running
}

func (r *runner) report(state State, cause error) {
	r.worker.statuses.set(connectorKey(r.name), state, cause)
}

// split checks the configuration once more (it may come from a topic that
// others write to) and asks the plugin for its tasks.
func (r *runner) split(ctx context.Context) ([]*task, error) {
	p, err := r.worker.checkConfig(ctx, r.settings)
	if err != nil {
		return nil, err
	}
	most, err := strconv.Atoi(r.settings[config.TasksMax])
	if err != nil {
		most = 1 // the default; anything else has not passed the check
	}
	shares, err := p.split(ctx, config.Own(r.settings, p.kind), most)
	if err != nil {
		return nil, fmt.Errorf("splitting the work into tasks: %w", err)
	}
	if len(shares) == 0 {
		return nil, errors.New("splitting the work into tasks: the plugin made none")
	}
	tasks := make([]*task, len(shares))
	for i, share := range shares {
		settings := maps.Clone(r.settings)
		maps.Copy(settings, share)
		tasks[i] = &task{
			worker: r.worker, connector: r.name, number: i, class: p, settings: settings,
			gate: r.gate, log: r.log.With("task", i), restart: make(chan struct{}, 1),
		}
	}
	return tasks, nil
}

// setPaused pauses or resumes, and reports it.
func (r *runner) setPaused(paused bool) {
	if !r.gate.set(paused) {
		return
	}
	r.worker.statuses.update(connectorKey(r.name), func(s Status) Status {
		if s.State == Running || s.State == Paused { // not one that failed to start
			s.State = r.activeState()
		}
		return s
	})
	for _, t := range r.taskList() {
		t.reportGate()
	}
}

func (r *runner) taskList() []*task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks
}
