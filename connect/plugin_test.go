package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// TestMain runs the test binary as a plugin when a host starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "plugin" && os.Args[2] == "serve" {
		for _, p := range testPlugins() {
			if p.Name == os.Args[3] {
				connector.Serve(p)
				return
			}
		}
		fmt.Fprintf(os.Stderr, "no test plugin %q\n", os.Args[3])
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func testPlugins() []connector.Plugin {
	pid := connector.Field{Name: "pid.file", Type: connector.String, Doc: "where to write the process's id"}
	return []connector.Plugin{{
		Name: "numbers", Version: "1.0.0",
		Spec: connector.Spec{Doc: "counts from 0, for ever or to an end", Source: []connector.Field{pid,
			{Name: "count", Type: connector.Integer, Default: "0", Doc: "how many; 0 means no end"},
			{Name: "password", Type: connector.String, Secret: true, Doc: "a secret"},
			{Name: "bad.every", Type: connector.Integer, Doc: "every so many a record that no converter can write; 0 means none"},
		}},
		NewSource: func() connector.Source { return &numbers{} },
	}, {
		Name: "lines", Version: "1.0.0",
		Spec: connector.Spec{Doc: "appends values to a file", Sink: []connector.Field{pid,
			{Name: "path", Type: connector.String, Required: true, Doc: "the file"},
			{Name: "refuse", Type: connector.String, Doc: "a value that it refuses"},
		}},
		NewSink: func() connector.Sink { return &lines{} },
	}, {
		Name: "buffer", Version: "1.0.0",
		Spec: connector.Spec{Doc: "appends values to a file when it is told to flush", Sink: []connector.Field{
			{Name: "path", Type: connector.String, Required: true, Doc: "the file; what was accepted goes to a file called so with .accepted behind it"},
			{Name: "die.at", Type: connector.String, Doc: "a value at which the process dies, once"},
		}},
		NewSink: func() connector.Sink { return &buffer{} },
	}, {
		Name: "given", Version: "1.0.0",
		Spec: connector.Spec{Doc: "reads the records that its setting lists, then ends", Source: []connector.Field{
			{Name: "records", Type: connector.String, Required: true, Doc: "JSON: a list of givenRecord"},
		}},
		NewSource: func() connector.Source { return &given{} },
	}, {
		Name: "troubled", Version: "1.0.0",
		Spec: connector.Spec{Doc: "does nothing but go wrong",
			Source: []connector.Field{{Name: "how", Type: connector.String, Required: true, Doc: "die or hang, and at which method, such as die-read"}},
			Sink:   []connector.Field{{Name: "how", Type: connector.String, Required: true, Doc: "as that of the source"}}},
		NewSource: func() connector.Source { return &troubled{} },
		NewSink:   func() connector.Sink { return &troubled{} },
	}}
}

// troubled is a source and a sink with one method that dies or hangs.
type troubled struct{ how string }

func (s *troubled) at(stage string) {
	switch s.how {
	case "die-" + stage:
		os.Exit(3)
	case "hang-" + stage:
		select {} // not even the end of the context ends it
	}
}

func (s *troubled) Open(_ context.Context, task connector.Task) error {
	s.how = task.Settings.Get("how")
	s.at("open")
	return nil
}

func (s *troubled) Read(ctx context.Context, out *connector.Batch) error {
	s.at("read")
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Millisecond):
	}
	out.Append(connector.NewRecord(connector.Origin{Partition: "p", Position: "0"}, connector.Value{}, connector.TextValue("x")))
	return nil
}

func (s *troubled) Write(context.Context, *connector.Batch) error {
	s.at("write")
	return nil
}

func (s *troubled) Close(context.Context) error {
	s.at("close")
	return nil
}

// given is a source of all kinds of records, nonsense among them.
type given struct{ records []givenRecord }

type givenRecord struct {
	Topic     string
	Partition int32
	Key       *string
	Value     string
	Bytes     int // if not 0, the value is so long
}

func (g *given) Open(_ context.Context, task connector.Task) error {
	return json.Unmarshal([]byte(task.Settings.Get("records")), &g.records)
}

func (g *given) Read(_ context.Context, out *connector.Batch) error {
	for i, r := range g.records {
		var key connector.Value
		if r.Key != nil {
			key = connector.TextValue(*r.Key)
		}
		record := connector.NewRecord(connector.Origin{Partition: "given", Position: strconv.Itoa(i)}, key, connector.TextValue(r.Value+strings.Repeat("x", r.Bytes)))
		record.Topic, record.Partition = r.Topic, r.Partition
		out.Append(record)
	}
	return io.EOF
}

func (g *given) Close(context.Context) error { return nil }

func writePID(path string) error {
	if path == "" {
		return nil
	}
	return os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600)
}

type numbers struct {
	cfg struct {
		PID      string `setting:"pid.file"`
		Count    int    `setting:"count"`
		BadEvery int    `setting:"bad.every"`
	}
	next int
}

func (n *numbers) Open(_ context.Context, task connector.Task) error {
	if err := task.Settings.Decode(&n.cfg); err != nil {
		return err
	}
	if last, ok := task.Resume["numbers"]; ok {
		i, err := strconv.Atoi(last)
		if err != nil {
			return err
		}
		n.next = i + 1
	}
	return writePID(n.cfg.PID)
}

func (n *numbers) Read(ctx context.Context, out *connector.Batch) error {
	for range 50 {
		if n.cfg.Count > 0 && n.next >= n.cfg.Count {
			return io.EOF
		}
		value := connector.TextValue(strconv.Itoa(n.next))
		if n.cfg.BadEvery > 0 && n.next%n.cfg.BadEvery == n.cfg.BadEvery-1 {
			value = connector.TextValue("\xff") // not UTF-8, so not JSON
		}
		out.Append(connector.NewRecord(connector.Origin{Partition: "numbers", Position: strconv.Itoa(n.next)}, connector.TextValue("k"), value))
		n.next++
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(2 * time.Millisecond): // the pace, so that there is time to be killed
	}
	return nil
}

func (n *numbers) Progress() connector.Progress {
	return connector.Progress{Done: int64(n.next), Total: int64(n.cfg.Count), Unit: "numbers"}
}

func (n *numbers) Close(context.Context) error { return nil }

type lines struct {
	cfg struct {
		PID    string `setting:"pid.file"`
		Path   string `setting:"path"`
		Refuse string `setting:"refuse"`
	}
	file *os.File
}

func (l *lines) Validate(_ context.Context, s connector.Settings) error {
	if dir := filepath.Dir(s.Get("path")); dir != "." {
		if _, err := os.Stat(dir); err != nil {
			return connector.Problemf("path", "there is no folder %s", dir)
		}
	}
	return nil
}

func (l *lines) Open(_ context.Context, task connector.Task) (err error) {
	if err := task.Settings.Decode(&l.cfg); err != nil {
		return err
	}
	if l.file, err = os.OpenFile(l.cfg.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	return writePID(l.cfg.PID)
}

func (l *lines) Write(_ context.Context, in *connector.Batch) error {
	bad := connector.RecordErrors{}
	var text strings.Builder
	for i, r := range in.Rows() {
		if l.cfg.Refuse != "" && string(r.Value.Bytes()) == l.cfg.Refuse {
			bad[i] = errors.New("I do not like it")
			continue
		}
		fmt.Fprintf(&text, "%s\n", r.Value.Bytes())
	}
	if _, err := l.file.WriteString(text.String()); err != nil {
		return err
	}
	if len(bad) > 0 {
		return bad
	}
	return nil
}

func (l *lines) Close(context.Context) error { return l.file.Close() }

// buffer is a sink that makes records durable only when it is told to flush.
type buffer struct {
	cfg struct {
		Path  string `setting:"path"`
		DieAt string `setting:"die.at"`
	}
	text strings.Builder
}

func (b *buffer) Open(_ context.Context, task connector.Task) error {
	return task.Settings.Decode(&b.cfg)
}

func (b *buffer) Write(_ context.Context, in *connector.Batch) error {
	var text strings.Builder
	for _, r := range in.Rows() {
		if value := string(r.Value.Bytes()); value == b.cfg.DieAt {
			if mark, err := os.OpenFile(b.cfg.Path+".died", os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				_ = mark.Close()
				os.Exit(1)
			}
		}
		fmt.Fprintf(&text, "%s\n", r.Value.Bytes())
	}
	b.text.WriteString(text.String())
	return appendTo(b.cfg.Path+".accepted", text.String())
}

func (b *buffer) Flush(context.Context) error {
	text := b.text.String()
	b.text.Reset()
	return appendTo(b.cfg.Path, text)
}

func (b *buffer) Close(context.Context) error { return nil }

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
