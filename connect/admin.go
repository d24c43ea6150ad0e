package connect

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/millrace/millrace/connect/config"
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
		info.Config = config.Redact(c.settings, cl.fields)
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

// Create adds a connector. It returns when its configuration is stored; the
// tasks start after that.
func (w *Worker) Create(ctx context.Context, name string, settings map[string]string) (Info, error) {
	if err := config.CheckName(name); err != nil {
		return Info{}, configError(name, err)
	}
	if _, ok := w.configs.get(name); ok {
		return Info{}, fmt.Errorf("connector %s %w", name, ErrExists)
	}
	info, _, err := w.Put(ctx, name, settings)
	return info, err
}

// Put adds a connector or changes its configuration. It returns when that is
// stored; the tasks start, or start anew, after that. A configuration that is
// the same as before changes nothing.
func (w *Worker) Put(ctx context.Context, name string, settings map[string]string) (info Info, created bool, err error) {
	if err := config.CheckName(name); err != nil {
		return Info{}, false, configError(name, err)
	}
	old, existed := w.configs.get(name)
	settings = config.Unredact(settings, old.settings)
	settings[config.Name] = name
	cl, err := w.checkConfig(ctx, settings)
	if err != nil {
		return Info{}, false, err
	}
	if err := cl.validate(ctx, config.Own(settings, cl.kind)); err != nil {
		return Info{}, false, configError(name, err)
	}
	if !existed || !maps.Equal(old.settings, settings) {
		if err := w.configs.putConfig(ctx, name, settings); err != nil {
			return Info{}, false, fmt.Errorf("storing the configuration of %s: %w", name, err)
		}
	}
	info, err = w.Info(ctx, name)
	return info, !existed, err
}

// Delete ends a connector and forgets its configuration. The positions of a
// source, and the offsets of a sink, are kept: a connector of the same name
// goes on where this one was.
func (w *Worker) Delete(ctx context.Context, name string) error {
	if _, ok := w.configs.get(name); !ok {
		return notFound(name)
	}
	if err := w.configs.remove(ctx, name); err != nil {
		return fmt.Errorf("deleting connector %s: %w", name, err)
	}
	if w.tasks(name) == nil {
		w.statuses.forget(name) // it did not run, so nothing ends
	}
	return nil
}

// SetTarget pauses, resumes or stops a connector. It returns when that is
// stored.
func (w *Worker) SetTarget(ctx context.Context, name string, target TargetState) error {
	if _, ok := w.configs.get(name); !ok {
		return notFound(name)
	}
	if err := w.configs.putTarget(ctx, name, target); err != nil {
		return fmt.Errorf("changing the state of connector %s: %w", name, err)
	}
	return nil
}

// Restart starts a connector anew, all its tasks included.
func (w *Worker) Restart(_ context.Context, name string) error {
	if _, ok := w.configs.get(name); !ok {
		return notFound(name)
	}
	w.mu.Lock()
	r := w.runners[name]
	w.mu.Unlock()
	if r != nil {
		r.cancel() // the loop of Run starts another one when this has ended
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
	settings = maps.Clone(settings)
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
