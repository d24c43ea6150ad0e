package host

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/millrace/millrace/sdk/connector"
	"github.com/millrace/millrace/sdk/connector/protocol"
)

// Validate checks a connector's settings against the plugin's spec, and runs
// the plugin for what only its own code can tell. It returns all that is wrong
// with single settings at once; what the connector's Validate says comes when
// nothing else is. The error says that it could not be found out; it wraps
// ctx.Err() if ctx ended first.
func (h *Host) Validate(ctx context.Context, plugin string, kind Kind, settings map[string]string) ([]connector.Problem, error) {
	info, err := h.Plugin(ctx, plugin)
	if err != nil {
		return nil, err
	}
	fields, err := info.fields(kind)
	if err != nil {
		return nil, err
	}
	problems := connector.Check(fields, settings)
	if len(problems) > 0 && info.Path == "" {
		return problems, nil // a bundled plugin's fields have their Check functions here
	}
	var outcome *protocol.Outcome
	hide := newRedactor(fields, settings)
	err = h.ask(ctx, info, hide, func(client protocol.ConnectorClient) error {
		res, err := client.Validate(ctx, &protocol.ValidateRequest{Kind: kind.wire(), Settings: settings})
		outcome = hide.hideIn(res.GetOutcome())
		return err
	})
	switch {
	case err != nil && len(problems) > 0:
		return problems, nil // which is worth more than that the plugin did not answer
	case err != nil:
		return nil, fmt.Errorf("validating settings of plugin %q: %w", plugin, err)
	}
	if err = errorOf(outcome); err == nil {
		return problems, nil
	}
	if complete := connector.Problems(err); len(complete) > 0 {
		return complete, nil
	}
	return append(problems, connector.Problem{Message: err.Error()}), nil
}

// Split has the plugin divide a connector's work among at most max tasks, and
// returns the complete settings of each. An error for which settings are to
// blame wraps connector.Problem.
func (h *Host) Split(ctx context.Context, plugin string, kind Kind, settings map[string]string, max int) ([]map[string]string, error) {
	info, err := h.Plugin(ctx, plugin)
	if err != nil {
		return nil, err
	}
	fields, err := info.fields(kind)
	if err != nil {
		return nil, err
	}
	if err := joined(connector.Check(fields, settings)); err != nil {
		return nil, err
	}
	var res *protocol.SplitResponse
	hide := newRedactor(fields, settings)
	err = h.ask(ctx, info, hide, func(client protocol.ConnectorClient) (err error) {
		res, err = client.Split(ctx, &protocol.SplitRequest{Kind: kind.wire(), Settings: settings, MaxTasks: uint32(max)})
		return err
	})
	if err == nil {
		err = errorOf(hide.hideIn(res.GetOutcome()))
	}
	if err != nil {
		return nil, fmt.Errorf("splitting the work of plugin %q: %w", plugin, err)
	}
	var tasks []map[string]string
	for _, t := range res.GetTasks() {
		complete := maps.Clone(settings)
		if complete == nil {
			complete = make(map[string]string)
		}
		maps.Copy(complete, t.GetSettings())
		if err := joined(connector.Check(fields, complete)); err != nil {
			// The user is not to blame, so this wraps no Problem.
			return nil, fmt.Errorf("splitting the work of plugin %q: its Split gave task %d settings that its spec does not allow: %s", plugin, len(tasks), hide.text(err.Error()))
		}
		tasks = append(tasks, complete)
	}
	return tasks, nil
}

// askAttempts is how often a question is put before a process that dies over
// it is taken to be at fault.
const askAttempts = 3

// ask runs the plugin for one question. A process that dies (someone killed it,
// the machine was short of memory) is started again: questions change nothing.
func (h *Host) ask(ctx context.Context, info Info, hide *redactor, question func(protocol.ConnectorClient) error) (err error) {
	for range askAttempts {
		if err = h.askOnce(ctx, info, hide, question); err == nil || ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		h.cfg.Log.Debug("a plugin died over a question", "plugin", info.Name, "err", err)
	}
	return err
}

func (h *Host) askOnce(ctx context.Context, info Info, hide *redactor, question func(protocol.ConnectorClient) error) error {
	output := &outputLog{log: h.cfg.Log.With("plugin", info.Name), hide: hide}
	p, err := startProcess(ctx, h.commandOf(info), h.cfg.StartTimeout, output)
	if err != nil {
		return err
	}
	if err := question(p.client); err != nil {
		err = p.transportError("asking the plugin", err)
		p.kill()
		return err
	}
	p.shutdown()
	return nil
}
