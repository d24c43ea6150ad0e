// Package rest serves a Connect worker over HTTP, with the paths, bodies and
// status codes of Kafka Connect's REST API, so that its tools work unchanged.
// docs/compatibility.md lists the paths that are not there yet.
package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/millrace/millrace/connect"
)

// bodyBytesMax bounds the body of a request.
const bodyBytesMax = 4 << 20

// Worker is what the API serves; a [connect.Worker] is one.
type Worker interface {
	ClusterID(ctx context.Context) (string, error)
	Names() []string
	Info(ctx context.Context, name string) (connect.Info, error)
	Status(ctx context.Context, name string) (connect.ConnectorStatus, error)
	Create(ctx context.Context, name string, settings map[string]string, target connect.TargetState) (connect.Info, error)
	Put(ctx context.Context, name string, settings map[string]string) (info connect.Info, created bool, err error)
	Delete(ctx context.Context, name string) error
	SetTarget(ctx context.Context, name string, target connect.TargetState) error
	Restart(ctx context.Context, name string, onlyFailed bool) error
	RestartTask(ctx context.Context, name string, task int) error
	Plugins(ctx context.Context) ([]connect.Plugin, error)
	Validate(ctx context.Context, class string, settings map[string]string) (connect.Validation, error)
}

// Handler returns the API of a worker. version is what GET / reports.
func Handler(w Worker, version string, log *slog.Logger) http.Handler {
	a := &api{worker: w, version: version, log: log}
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(*http.Request) (reply, error){
		"GET /{$}":                                       a.root,
		"GET /connectors":                                a.list,
		"POST /connectors":                               a.create,
		"GET /connectors/{name}":                         a.info,
		"DELETE /connectors/{name}":                      a.delete,
		"GET /connectors/{name}/config":                  a.config,
		"PATCH /connectors/{name}/config":                a.patchConfig,
		"PUT /connectors/{name}/config":                  a.putConfig,
		"GET /connectors/{name}/status":                  a.status,
		"GET /connectors/{name}/tasks":                   a.tasks,
		"GET /connectors/{name}/tasks/{task}/status":     a.taskStatus,
		"POST /connectors/{name}/tasks/{task}/restart":   a.restartTask,
		"POST /connectors/{name}/restart":                a.restart,
		"PUT /connectors/{name}/pause":                   a.target(connect.TargetPaused, http.StatusAccepted),
		"PUT /connectors/{name}/resume":                  a.target(connect.TargetRunning, http.StatusAccepted),
		"PUT /connectors/{name}/stop":                    a.target(connect.TargetStopped, http.StatusNoContent),
		"GET /connector-plugins":                         a.plugins,
		"GET /connector-plugins/{class}/config":          a.pluginConfig,
		"PUT /connector-plugins/{class}/config/validate": a.validate,
	} {
		mux.Handle(pattern, a.handler(handle))
	}
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		if allowed := methodsFor(mux, r); len(allowed) > 0 {
			rw.Header().Set("Allow", strings.Join(allowed, ", "))
			a.fail(rw, r, httpError{http.StatusMethodNotAllowed, "HTTP 405 Method Not Allowed: " + r.Method + " " + r.URL.Path})
			return
		}
		a.fail(rw, r, httpError{http.StatusNotFound, "HTTP 404 Not Found: " + r.Method + " " + r.URL.Path})
	})
	return mux
}

// methodsFor lists the methods with which the path of a request would be served.
func methodsFor(mux *http.ServeMux, r *http.Request) []string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "/" {
			methods = append(methods, method)
		}
	}
	return methods
}

type api struct {
	worker  Worker
	version string
	log     *slog.Logger
}

// reply is a status code and a body; a nil body is none.
type reply struct {
	code int
	body any
}

func ok(body any) reply { return reply{http.StatusOK, body} }

// httpError is an error with a status code of its own.
type httpError struct {
	code    int
	message string
}

func (e httpError) Error() string { return e.message }

func (a *api) handler(handle func(*http.Request) (reply, error)) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(rw, r.Body, bodyBytesMax)
		rep, err := handle(r)
		if err != nil {
			a.fail(rw, r, err)
			return
		}
		a.write(rw, rep)
	})
}

func (a *api) write(rw http.ResponseWriter, rep reply) {
	if rep.body == nil {
		rw.WriteHeader(rep.code)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(rep.code)
	enc := json.NewEncoder(rw)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(rep.body) // the client has gone: there is nobody to tell
}

// fail answers with Kafka Connect's error body.
func (a *api) fail(rw http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusInternalServerError
	var (
		own     httpError
		invalid *connect.ConfigError
	)
	switch {
	case errors.As(err, &own):
		code = own.code
	case errors.As(err, &invalid):
		code = http.StatusBadRequest
	case errors.Is(err, connect.ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, connect.ErrExists):
		code = http.StatusConflict
	case errors.Is(err, connect.ErrStopping):
		code = http.StatusServiceUnavailable
	default:
		a.log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	a.write(rw, reply{code, map[string]any{"error_code": code, "message": err.Error()}})
}

// decode reads a JSON body strictly enough that mistakes are named.
func decode(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", bodyBytesMax)}
		}
		return httpError{http.StatusBadRequest, fmt.Sprintf("the body is not the JSON that was expected: %v", err)}
	}
	return nil
}

func (a *api) root(r *http.Request) (reply, error) {
	id, err := a.worker.ClusterID(r.Context())
	return ok(map[string]string{"version": a.version, "commit": "", "kafka_cluster_id": id}), err
}

// list answers with names, or with what ?expand=status and ?expand=info ask for.
func (a *api) list(r *http.Request) (reply, error) {
	names, expand := a.worker.Names(), r.URL.Query()["expand"]
	if len(expand) == 0 {
		return ok(names), nil
	}
	all := map[string]map[string]any{}
	for _, name := range names {
		entry := map[string]any{}
		for _, part := range expand {
			var err error
			switch part {
			case "status":
				entry["status"], err = a.worker.Status(r.Context(), name)
			case "info":
				entry["info"], err = a.worker.Info(r.Context(), name)
			default:
				return reply{}, httpError{http.StatusBadRequest, "expand=" + part + ": expected status or info"}
			}
			if errors.Is(err, connect.ErrNotFound) {
				continue // deleted since it was listed
			} else if err != nil {
				return reply{}, err
			}
		}
		all[name] = entry
	}
	return ok(all), nil
}

func (a *api) create(r *http.Request) (reply, error) {
	var body struct {
		Name   string   `json:"name"`
		Config settings `json:"config"`
		// InitialState is RUNNING, PAUSED or STOPPED (KIP-980).
		InitialState string `json:"initial_state"`
	}
	if err := decode(r, &body); err != nil {
		return reply{}, err
	}
	if named := body.Config["name"]; named != nil && *named != body.Name {
		return reply{}, httpError{http.StatusBadRequest, fmt.Sprintf("the connector is called %q in the body and %q in its config", body.Name, *named)}
	}
	targets := map[string]connect.TargetState{"": connect.TargetRunning, "RUNNING": connect.TargetRunning,
		"PAUSED": connect.TargetPaused, "STOPPED": connect.TargetStopped}
	target, ok := targets[strings.ToUpper(body.InitialState)]
	if !ok {
		return reply{}, httpError{http.StatusBadRequest, fmt.Sprintf("initial_state is %q: expected RUNNING, PAUSED or STOPPED", body.InitialState)}
	}
	config := body.Config.texts()
	config["name"] = body.Name
	info, err := a.worker.Create(r.Context(), body.Name, config, target)
	return reply{http.StatusCreated, info}, err
}

func (a *api) info(r *http.Request) (reply, error) {
	info, err := a.worker.Info(r.Context(), r.PathValue("name"))
	return ok(info), err
}

func (a *api) config(r *http.Request) (reply, error) {
	info, err := a.worker.Info(r.Context(), r.PathValue("name"))
	return ok(info.Config), err
}

func (a *api) putConfig(r *http.Request) (reply, error) {
	var given settings
	if err := decode(r, &given); err != nil {
		return reply{}, err
	}
	return a.store(r, given.texts())
}

// patchConfig changes some settings; a null takes one away (KIP-477).
func (a *api) patchConfig(r *http.Request) (reply, error) {
	var given settings
	if err := decode(r, &given); err != nil {
		return reply{}, err
	}
	info, err := a.worker.Info(r.Context(), r.PathValue("name"))
	if err != nil {
		return reply{}, err
	}
	config := maps.Clone(info.Config) // hidden secrets are put back by the worker
	for name, value := range given {
		if value == nil {
			delete(config, name)
		} else {
			config[name] = *value
		}
	}
	return a.store(r, config)
}

func (a *api) store(r *http.Request, config map[string]string) (reply, error) {
	name := r.PathValue("name")
	if named := config["name"]; named != "" && named != name {
		return reply{}, httpError{http.StatusBadRequest, fmt.Sprintf("the connector is called %q in the path and %q in its config", name, named)}
	}
	config["name"] = name
	info, created, err := a.worker.Put(r.Context(), name, config)
	if created {
		return reply{http.StatusCreated, info}, err
	}
	return ok(info), err
}

func (a *api) delete(r *http.Request) (reply, error) {
	return reply{code: http.StatusNoContent}, a.worker.Delete(r.Context(), r.PathValue("name"))
}

func (a *api) status(r *http.Request) (reply, error) {
	status, err := a.worker.Status(r.Context(), r.PathValue("name"))
	return ok(status), err
}

// tasks answers with Kafka Connect's list of task configurations. A task here
// has the connector's configuration.
func (a *api) tasks(r *http.Request) (reply, error) {
	info, err := a.worker.Info(r.Context(), r.PathValue("name"))
	tasks := []map[string]any{}
	for _, id := range info.Tasks {
		tasks = append(tasks, map[string]any{"id": id, "config": info.Config})
	}
	return ok(tasks), err
}

func (a *api) taskStatus(r *http.Request) (reply, error) {
	task, err := taskNumber(r)
	if err != nil {
		return reply{}, err
	}
	status, err := a.worker.Status(r.Context(), r.PathValue("name"))
	if err != nil {
		return reply{}, err
	}
	for _, t := range status.Tasks {
		if t.ID == task {
			return ok(t), nil
		}
	}
	return reply{}, fmt.Errorf("task %d of connector %s: %w", task, status.Name, connect.ErrNotFound)
}

func taskNumber(r *http.Request) (int, error) {
	text, _ := url.PathUnescape(r.PathValue("task"))
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, httpError{http.StatusNotFound, fmt.Sprintf("%q is not the number of a task", text)}
	}
	return n, nil
}

// restart starts the connector and its tasks anew, or with ?onlyFailed=true
// what has failed of them. A connector has no process of its own, so there is
// nothing to restart without its tasks; but ?includeTasks=true and onlyFailed
// are answered with the status, as Kafka Connect does (KIP-745).
func (a *api) restart(r *http.Request) (reply, error) {
	name, query := r.PathValue("name"), r.URL.Query()
	onlyFailed := query.Get("onlyFailed") == "true"
	err := a.worker.Restart(r.Context(), name, onlyFailed)
	if err != nil || !onlyFailed && query.Get("includeTasks") != "true" {
		return reply{code: http.StatusNoContent}, err
	}
	status, err := a.worker.Status(r.Context(), name)
	return reply{http.StatusAccepted, status}, err
}

func (a *api) restartTask(r *http.Request) (reply, error) {
	task, err := taskNumber(r)
	if err != nil {
		return reply{}, err
	}
	return reply{code: http.StatusNoContent}, a.worker.RestartTask(r.Context(), r.PathValue("name"), task)
}

func (a *api) target(target connect.TargetState, code int) func(*http.Request) (reply, error) {
	return func(r *http.Request) (reply, error) {
		return reply{code: code}, a.worker.SetTarget(r.Context(), r.PathValue("name"), target)
	}
}

func (a *api) plugins(r *http.Request) (reply, error) {
	plugins, err := a.worker.Plugins(r.Context())
	return ok(plugins), err
}

func (a *api) validate(r *http.Request) (reply, error) {
	var given settings
	if err := decode(r, &given); err != nil {
		return reply{}, err
	}
	validation, err := a.worker.Validate(r.Context(), r.PathValue("class"), given.texts())
	return ok(validation), err
}

// pluginConfig lists the settings of a connector class (KIP-769).
func (a *api) pluginConfig(r *http.Request) (reply, error) {
	validation, err := a.worker.Validate(r.Context(), r.PathValue("class"), map[string]string{})
	definitions := []connect.SettingDefinition{}
	for _, c := range validation.Configs {
		definitions = append(definitions, c.Definition)
	}
	return ok(definitions), err
}
