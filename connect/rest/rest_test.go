package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/connect"
	"github.com/millrace/millrace/sdk/connector"
)

// fakeWorker answers from a map; what a real worker does is tested with it.
type fakeWorker struct {
	configs map[string]map[string]string
	targets map[string]connect.TargetState
	restart []string
}

func (f *fakeWorker) ClusterID(context.Context) (string, error) { return "cluster", nil }

func (f *fakeWorker) Names() []string {
	names := []string{}
	for name := range f.configs {
		names = append(names, name)
	}
	return names
}

func (f *fakeWorker) find(name string) error {
	if f.configs[name] == nil {
		return fmt.Errorf("connector %s: %w", name, connect.ErrNotFound)
	}
	return nil
}

func (f *fakeWorker) Info(_ context.Context, name string) (connect.Info, error) {
	return connect.Info{Name: name, Config: f.configs[name], Tasks: []connect.TaskID{{Connector: name}}, Type: "source"}, f.find(name)
}

func (f *fakeWorker) Status(_ context.Context, name string) (connect.ConnectorStatus, error) {
	running := connect.Status{State: connect.Running, WorkerID: "w"}
	return connect.ConnectorStatus{Name: name, Connector: running, Tasks: []connect.TaskStatus{{Status: running}}, Type: "source"}, f.find(name)
}

func (f *fakeWorker) Create(ctx context.Context, name string, settings map[string]string, target connect.TargetState) (connect.Info, error) {
	if f.configs[name] != nil {
		return connect.Info{}, fmt.Errorf("connector %s %w", name, connect.ErrExists)
	}
	f.targets[name] = target
	info, _, err := f.Put(ctx, name, settings)
	return info, err
}

func (f *fakeWorker) Put(ctx context.Context, name string, settings map[string]string) (connect.Info, bool, error) {
	if settings["connector.class"] == "" {
		return connect.Info{}, false, &connect.ConfigError{Connector: name, Problems: []connector.Problem{{Setting: "connector.class", Message: "it is missing"}}}
	}
	created := f.configs[name] == nil
	f.configs[name] = settings
	info, err := f.Info(ctx, name)
	return info, created, err
}

func (f *fakeWorker) Delete(_ context.Context, name string) error {
	err := f.find(name)
	delete(f.configs, name)
	return err
}

func (f *fakeWorker) SetTarget(_ context.Context, name string, target connect.TargetState) error {
	f.targets[name] = target
	return f.find(name)
}

func (f *fakeWorker) Restart(_ context.Context, name string, _ bool) error {
	f.restart = append(f.restart, name)
	return f.find(name)
}

func (f *fakeWorker) RestartTask(_ context.Context, name string, task int) error {
	f.restart = append(f.restart, fmt.Sprint(name, "/", task))
	return f.find(name)
}

func (f *fakeWorker) Plugins(context.Context) ([]connect.Plugin, error) {
	return []connect.Plugin{{Class: "file-source", Type: "source", Version: "1"}}, nil
}

func (f *fakeWorker) Validate(_ context.Context, class string, _ map[string]string) (connect.Validation, error) {
	return connect.Validation{Name: class, Groups: []string{}, Configs: []connect.ValidationSetting{}}, nil
}

func TestPathsAndStatusCodes(t *testing.T) {
	worker := &fakeWorker{configs: map[string]map[string]string{}, targets: map[string]connect.TargetState{}}
	server := httptest.NewServer(Handler(worker, "1.0", slog.New(slog.NewTextHandler(t.Output(), nil))))
	defer server.Close()
	steps := []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"GET", "/", "", 200, `"kafka_cluster_id":"cluster"`},
		{"GET", "/connectors", "", 200, `[]`},
		{"POST", "/connectors", `{"name":"a b","config":{"connector.class":"x"}}`, 201, `"name":"a b"`},
		{"POST", "/connectors", `{"name":"a b","config":{"connector.class":"x"}}`, 409, `"error_code":409`},
		{"POST", "/connectors", `{"name":"c","config":{"name":"d"}}`, 400, `\"d\"`},
		{"POST", "/connectors", `{"name":"c","config":{}}`, 400, `connector.class: it is missing`},
		{"POST", "/connectors", `{"name":"c","initial_state":"ASLEEP","config":{}}`, 400, `ASLEEP`},
		{"POST", "/connectors", `{`, 400, `not the JSON`},
		{"GET", "/connectors", "", 200, `["a b"]`},
		{"GET", "/connectors?expand=status&expand=info", "", 200, `"status":{"name":"a b"`},
		{"GET", "/connectors?expand=all", "", 400, `expand=all`},
		{"GET", "/connectors/a%20b", "", 200, `"type":"source"`},
		{"GET", "/connectors/a%20b/config", "", 200, `"connector.class":"x"`},
		{"GET", "/connectors/a%20b/status", "", 200, `"state":"RUNNING"`},
		{"GET", "/connectors/a%20b/tasks", "", 200, `"task":0`},
		{"GET", "/connectors/a%20b/tasks/0/status", "", 200, `"id":0`},
		{"GET", "/connectors/a%20b/tasks/1/status", "", 404, `task 1`},
		{"GET", "/connectors/a%20b/tasks/x/status", "", 404, `not the number`},
		{"PUT", "/connectors/a%20b/config", `{"connector.class":"y"}`, 200, `"connector.class":"y"`},
		{"PUT", "/connectors/new/config", `{"connector.class":"y"}`, 201, `"name":"new"`},
		{"PUT", "/connectors/new/config", `{"connector.class":"y","name":"other"}`, 400, `other`},
		{"PUT", "/connectors/new/config", `{"connector.class":"y","tasks.max":2,"follow":false,"gone":null}`, 200, `"follow":"false","name":"new","tasks.max":"2"`},
		{"PUT", "/connectors/new/config", `{"connector.class":["y"]}`, 400, `setting connector.class`},
		{"PATCH", "/connectors/new/config", `{"follow":null,"tasks.max":"3"}`, 200, `{"connector.class":"y","name":"new","tasks.max":"3"}`},
		{"PATCH", "/connectors/none/config", `{}`, 404, `not found`},
		{"PUT", "/connectors/new/pause", "", 202, ""},
		{"PUT", "/connectors/new/resume", "", 202, ""},
		{"PUT", "/connectors/new/stop", "", 204, ""},
		{"POST", "/connectors/new/restart", "", 204, ""},
		{"POST", "/connectors/new/restart?includeTasks=true", "", 202, `"state":"RUNNING"`},
		{"POST", "/connectors/new/tasks/0/restart", "", 204, ""},
		{"GET", "/connector-plugins", "", 200, `"class":"file-source"`},
		{"GET", "/connector-plugins/file-source/config", "", 200, `[]`},
		{"PUT", "/connector-plugins/file-source/config/validate", `{}`, 200, `"error_count":0`},
		{"DELETE", "/connectors/new", "", 204, ""},
		{"DELETE", "/connectors/new", "", 404, `not found`},
		{"POST", "/connectors", `{"name":"` + strings.Repeat("x", bodyBytesMax) + `"}`, 413, `larger than`},
		{"DELETE", "/connectors", "", 405, `"error_code":405`},
		{"GET", "/connectors/a/pause", "", 405, `Method Not Allowed`},
		{"GET", "/nowhere", "", 404, `"error_code":404`},
	}
	for _, s := range steps {
		req, err := http.NewRequest(s.method, server.URL+s.path, strings.NewReader(s.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != s.code || !bytes.Contains(body, []byte(s.says)) {
			t.Errorf("%s %s: %d %s; want %d with %s", s.method, s.path, resp.StatusCode, body, s.code, s.says)
		}
		if len(body) > 0 && !json.Valid(body) {
			t.Errorf("%s %s: the body is not JSON: %s", s.method, s.path, body)
		}
	}
	if worker.targets["new"] != connect.TargetStopped || strings.Join(worker.restart, ",") != "new,new,new/0" {
		t.Errorf("the worker was asked for %v, %v", worker.targets, worker.restart)
	}
}
