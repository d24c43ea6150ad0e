package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/sdk/connector"
)

// outputLog takes what a plugin's process prints, line by line, to the log.
// Lines that the task's logger wrote become records as they were; others
// become records with the line as message.
type outputLog struct {
	log    *slog.Logger
	hide   *redactor
	mu     sync.Mutex
	panics bool     // a panic's lines are coming
	recent []string // the last few lines that no logger wrote, or a panic's first
}

const (
	outputLineBytes = 64 << 10
	recentLines     = 5
)

// copyFrom logs lines until r ends. A line that is too long is cut in pieces.
func (o *outputLog) copyFrom(r io.Reader) {
	lines := bufio.NewReaderSize(r, outputLineBytes)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			o.line(bytes.TrimRight(line, "\r\n"))
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// writer returns a writer whose lines are logged, for one goroutine.
func (o *outputLog) writer() io.Writer { return &lineWriter{output: o} }

type lineWriter struct {
	output *outputLog
	rest   []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 && len(w.rest) < outputLineBytes {
			return len(p), nil
		}
		if i < 0 {
			i = len(w.rest) - 1
		}
		w.output.line(bytes.TrimRight(w.rest[:i+1], "\r\n"))
		w.rest = w.rest[i+1:]
	}
}

func (o *outputLog) line(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if level, msg, attrs, ok := parseLogLine(line); ok {
		for i := range attrs {
			attrs[i] = slog.Any(o.hide.text(attrs[i].Key), o.hide.any(attrs[i].Value.Any()))
		}
		o.log.LogAttrs(context.Background(), level, o.hide.text(msg), attrs...)
		return
	}
	text := o.hide.text(string(line))
	o.mu.Lock()
	if strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") {
		o.panics = true
		o.recent = nil // its first lines say the most
	}
	if !o.panics || len(o.recent) < recentLines {
		o.recent = append(o.recent, text)
	}
	o.recent = o.recent[max(0, len(o.recent)-recentLines):]
	level := slog.LevelInfo
	if o.panics {
		level = slog.LevelError
	}
	o.mu.Unlock()
	o.log.Log(context.Background(), level, text)
}

// lastLines returns the last lines that no logger wrote, on one line.
func (o *outputLog) lastLines() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.recent, " | ")
}

// panicked returns the first lines of a panic, on one line, or "".
func (o *outputLog) panicked() string {
	o.mu.Lock()
	panics := o.panics
	o.mu.Unlock()
	if !panics {
		return ""
	}
	return o.lastLines()
}

// parseLogLine takes a line of slog's JSON handler apart.
func parseLogLine(line []byte) (level slog.Level, msg string, attrs []slog.Attr, ok bool) {
	if line[0] != '{' {
		return 0, "", nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var fields map[string]any
	if dec.Decode(&fields) != nil {
		return 0, "", nil, false
	}
	msg, hasMsg := fields[slog.MessageKey].(string)
	name, hasLevel := fields[slog.LevelKey].(string)
	if !hasMsg || !hasLevel || level.UnmarshalText([]byte(name)) != nil {
		return 0, "", nil, false
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch key {
		case slog.MessageKey, slog.LevelKey, slog.TimeKey:
		default:
			attrs = append(attrs, slog.Any(key, fields[key]))
		}
	}
	return level, msg, attrs, true
}

// redactor hides a task's secrets in whatever its connector says.
type redactor struct{ replacer *strings.Replacer }

const hidden = "[hidden]"

// newRedactor hides the values of secret settings, also as they look inside
// quotes and URLs.
func newRedactor(fields []connector.Field, settings map[string]string) *redactor {
	var pairs []string
	for name, value := range settings {
		if value == "" || !isSecret(fields, name) {
			continue
		}
		quoted := fmt.Sprintf("%q", value)
		inJSON, _ := json.Marshal(value) // a string always can be
		for _, form := range []string{value, quoted[1 : len(quoted)-1], string(inJSON[1 : len(inJSON)-1]), url.QueryEscape(value), url.PathEscape(value)} {
			pairs = append(pairs, form, hidden)
		}
	}
	return &redactor{strings.NewReplacer(pairs...)}
}

func isSecret(fields []connector.Field, name string) bool {
	return slices.ContainsFunc(fields, func(f connector.Field) bool {
		return f.Secret && (f.Name == name || f.Type == connector.Map && strings.HasPrefix(name, f.Name+"."))
	})
}

func (r *redactor) text(s string) string { return r.replacer.Replace(s) }

// any hides secrets in a value decoded from JSON.
func (r *redactor) any(v any) any {
	switch v := v.(type) {
	case string:
		return r.text(v)
	case []any:
		for i := range v {
			v[i] = r.any(v[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for k := range v {
			clean[r.text(k)] = r.any(v[k])
		}
		return clean
	}
	return v
}
