package connect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/millrace/millrace/connect/config"
	"github.com/millrace/millrace/sdk/connector"
)

// Names returns the connectors' names in order; never nil.
func (w *Worker) Names() []string {
	return append([]string{}, w.configs.names()...)
}

// Info describes a connector.
func (w *Worker) Info(ctx context.Context, name string) (Info, error) {
	c, ok := w.configs.get(name)
	if !ok {
		return Info{}, notFound(name)
	}
	info := Info{Name: name, Config: c.settings, Tasks: []TaskID{}}
	if cl, err := w.class(ctx, c.settings[config.Class]); err == nil {
		info.Type = string(cl.kind)
		info.Config = config.Redact(c.settings, cl.kind, cl.fields)
	} else {
		// Without its plugin nobody knows which settings are secret.
		info.Config = map[string]string{config.Name: name, config.Class: c.settings[config.Class]}
	}
	for _, t := range w.tasks(name) {
		info.Tasks = append(info.Tasks, TaskID{name, t.number})
	}
	return info, nil
}

// Status tells what a connector and its tasks are doing.
func (w *Worker) Status(ctx context.Context, name string) (ConnectorStatus, error) {
	c, ok := w.configs.get(name)
	if !ok {
		return ConnectorStatus{}, notFound(name)
	}
	status := ConnectorStatus{Name: name, Connector: w.statuses.get(connectorKey(name)), Tasks: []TaskStatus{}}
	if cl, err := w.class(ctx, c.settings[config.Class]); err == nil {
		status.Type = string(cl.kind)
	}
	for _, t := range w.tasks(name) {
		status.Tasks = append(status.Tasks, t.status())
	}
	return status, nil
}

func notFound(name string) error { return fmt.Errorf("connector %s: %w", name, ErrNotFound) }

func (w *Worker) tasks(name string) []*task {
	w.mu.Lock()
	r := w.runners[name]
	w.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.taskList()
}

// changeTimeout bounds the storing of a change.
const changeTimeout = 30 * time.Second

// change has one change at a time look at what is there and store what is new:
// of two creations of one name, one must fail. store gets a context that is
// bounded by [changeTimeout].
func (w *Worker) change(ctx context.Context, store func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	select {
	case w.changing <- struct{}{}:
		defer func() { <-w.changing }()
	case <-w.stopping:
		return ErrStopping
	case <-ctx.Done():
		return fmt.Errorf("waiting for another change: %w", ctx.Err())
	}
	if w.isStopping() {
		return ErrStopping
	}
	err := store(ctx)
	if err != nil && w.isStopping() {
		err = fmt.Errorf("%w: %w", ErrStopping, err)
	}
	return err
}

func (w *Worker) isStopping() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
	}
}

// Create adds a connector that begins as target says. It returns when its
// configuration is stored; the tasks start after that.
func (w *Worker) Create(ctx context.Context, name string, settings map[string]string, target TargetState) (Info, error) {
	if _, ok := w.configs.get(name); ok {
		return Info{}, fmt.Errorf("connector %s %w", name, ErrExists)
	}
	settings, err := w.checkWhole(ctx, name, settings, nil)
	if err != nil {
		return Info{}, err
	}
	err = w.change(ctx, func(ctx context.Context) error {
		if _, ok := w.configs.get(name); ok {
			return fmt.Errorf("connector %s %w", name, ErrExists)
		}
		return w.configs.create(ctx, name, settings, target)
	})
	if err != nil {
		return Info{}, err
	}
	return w.Info(ctx, name)
}

// Put adds a connector or changes its configuration. It returns when that is
// stored; the tasks start, or start anew, after that. A configuration that is
// the same as before changes nothing.
func (w *Worker) Put(ctx context.Context, name string, settings map[string]string) (info Info, created bool, err error) {
	old, _ := w.configs.get(name)
	if settings, err = w.checkWhole(ctx, name, settings, old.settings); err != nil {
		return Info{}, false, err
	}
	err = w.change(ctx, func(ctx context.Context) error {
		old, existed := w.configs.get(name)
		created = !existed
		switch {
		case created:
			return w.configs.create(ctx, name, settings, TargetRunning)
		case maps.Equal(old.settings, settings):
			return nil
		}
		return w.configs.putConfig(ctx, name, settings)
	})
	if err != nil {
		return Info{}, false, err
	}
	info, err = w.Info(ctx, name)
	return info, created, err
}

// checkWhole checks all that can be checked before a configuration is stored,
// and returns it as it is to be stored: with the secrets of old where it has
// them hidden.
func (w *Worker) checkWhole(ctx context.Context, name string, settings, old map[string]string) (map[string]string, error) {
	if err := config.CheckName(name); err != nil {
		return nil, configError(name, err)
	}
	settings = config.Unredact(settings, old)
	settings[config.Name] = name
	cl, err := w.checkConfig(ctx, settings)
	if err != nil {
		return nil, err
	}
	if err := cl.validate(ctx, config.Own(settings, cl.kind)); err != nil {
		return nil, configError(name, err)
	}
	return settings, nil
}

// Delete ends a connector and forgets its configuration. The positions of a
// source, and the offsets of a sink, are kept: a connector of the same name
// goes on where this one was.
func (w *Worker) Delete(ctx context.Context, name string) error {
	err := w.changeExisting(ctx, name, func(ctx context.Context) error { return w.configs.remove(ctx, name) })
	if err == nil && w.tasks(name) == nil {
		w.statuses.forget(name) // it did not run, so nothing ends
	}
	return err
}

// SetTarget pauses, resumes or stops a connector. It returns when that is
// stored.
func (w *Worker) SetTarget(ctx context.Context, name string, target TargetState) error {
	return w.changeExisting(ctx, name, func(ctx context.Context) error { return w.configs.putTarget(ctx, name, target) })
}

func (w *Worker) changeExisting(ctx context.Context, name string, store func(context.Context) error) error {
	return w.change(ctx, func(ctx context.Context) error {
		if _, ok := w.configs.get(name); !ok {
			return notFound(name)
		}
		if err := store(ctx); err != nil {
			return fmt.Errorf("changing connector %s: %w", name, err)
		}
		return nil
	})
}

// Restart starts a connector anew: all of it, or, if onlyFailed, what has
// failed.
func (w *Worker) Restart(_ context.Context, name string, onlyFailed bool) error {
	if _, ok := w.configs.get(name); !ok {
		return notFound(name)
	}
	if w.isStopping() {
		return ErrStopping
	}
	w.mu.Lock()
	r := w.runners[name]
	w.mu.Unlock()
	switch {
	case r == nil:
	case !onlyFailed || w.statuses.get(connectorKey(name)).State == Failed:
		r.cancel() // the loop of Run starts another one when this has ended
	default:
		for _, t := range r.taskList() {
			if t.status().State == Failed {
				t.requestRestart()
			}
		}
	}
	return nil
}

// RestartTask starts one task anew.
func (w *Worker) RestartTask(_ context.Context, name string, number int) error {
	if _, ok := w.configs.get(name); !ok {
		return notFound(name)
	}
	for _, t := range w.tasks(name) {
		if t.number == number {
			t.requestRestart()
			return nil
		}
	}
	return fmt.Errorf("task %d of connector %s: %w", number, name, ErrNotFound)
}

// Validate checks a configuration without storing it, setting by setting.
func (w *Worker) Validate(ctx context.Context, className string, settings map[string]string) (Validation, error) {
	cl, err := w.class(ctx, className)
	if err != nil {
		return Validation{}, configError(settings[config.Name], err)
	}
	if given := settings[config.Class]; given != "" && given != className {
		if other, err := w.class(ctx, given); err != nil || other.name != cl.name || other.kind != cl.kind {
			return Validation{}, configError(settings[config.Name], connector.Problemf(config.Class, "%q is given, and %q is to be validated", given, className))
		}
	}
	old, _ := w.configs.get(settings[config.Name])
	settings = config.Unredact(settings, old.settings)
	settings[config.Class] = className
	problems := cl.problems(settings)
	if len(problems) == 0 {
		err := cl.validate(ctx, config.Own(settings, cl.kind))
		var invalid *ConfigError
		if err = configError(settings[config.Name], err); errors.As(err, &invalid) {
			problems = invalid.Problems
		} else if err != nil {
			return Validation{}, err
		}
	}
	return validation(className, cl, settings, problems), nil
}
