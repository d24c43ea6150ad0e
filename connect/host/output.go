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
	"unicode"
	"unicode/utf8"

	"github.com/millrace/millrace/sdk/connector"
)

// outputLog takes what a plugin's process prints, line by line, to the log.
// Lines that the task's logger wrote become records as they were; others
// become records with the line as message.
type outputLog struct {
	log  *slog.Logger
	hide *redactor

	mu      sync.Mutex
	recent  []string // the last few lines that no logger wrote
	panic   string   // the first line of a panic, once there is one
	trace   []byte   // the lines behind it
	writers []*lineWriter
}

const (
	outputLineBytes = 64 << 10
	traceBytes      = 64 << 10
	recentLines     = 5
)

// copyFrom logs the lines of a process's standard error until r ends. A line
// that is too long is cut in pieces. The lines of a panic become one record.
func (o *outputLog) copyFrom(r io.Reader) {
	lines := bufio.NewReaderSize(r, outputLineBytes)
	for {
		line, err := lines.ReadSlice('\n')
		if line := bytes.TrimRight(line, "\r\n"); len(line) > 0 && !o.ofPanic(line) {
			o.line(line)
		}
		if err != nil && err != bufio.ErrBufferFull {
			break
		}
	}
	o.mu.Lock()
	first, trace := o.panic, string(o.trace)
	o.mu.Unlock()
	if first != "" {
		o.log.Error(first, "trace", trace)
	}
}

// ofPanic keeps a line if it belongs to a panic. The process is ending then: the
// runtime prints what went wrong and where, and nothing else comes.
func (o *outputLog) ofPanic(line []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.panic == "" && (bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: "))):
		o.panic = o.hide.text(string(line))
		return true
	case o.panic == "" || line[0] == '{': // or what a logger still has to say
		return false
	case len(o.trace)+len(line) < traceBytes:
		o.trace = append(append(o.trace, o.hide.text(string(line))...), '\n')
	}
	return true
}

// writer returns a writer whose lines are logged, for one goroutine.
func (o *outputLog) writer() io.Writer {
	w := &lineWriter{output: o}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writers = append(o.writers, w)
	return w
}

// flush logs what was printed without a line end. It is called when the process
// has ended.
func (o *outputLog) flush() {
	o.mu.Lock()
	writers := o.writers
	o.mu.Unlock()
	for _, w := range writers {
		w.flush()
	}
}

type lineWriter struct {
	output *outputLog
	mu     sync.Mutex
	rest   []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
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

func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.output.line(w.rest)
	w.rest = nil
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
	o.recent = append(o.recent, text)
	o.recent = o.recent[max(0, len(o.recent)-recentLines):]
	o.mu.Unlock()
	o.log.Info(text)
}

// lastLines returns the last lines that no logger wrote, at most n, on one line.
func (o *outputLog) lastLines(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.recent
	if o.panic != "" {
		lines = []string{o.panic}
	}
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

// panicked returns what a panic said, and where it was, or "".
func (o *outputLog) panicked() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range strings.Lines(string(o.trace)) {
		// A frame is two lines, the second being "\t<file>:<line> +0x<n>".
		// Those of the runtime, which come first, say nothing.
		if place, ok := strings.CutPrefix(line, "\t"); ok && !strings.Contains("/"+place, "/runtime/") {
			place, _, _ = strings.Cut(strings.TrimSpace(place), " +0x")
			return o.panic + " (at " + place + ")"
		}
	}
	return o.panic
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
type redactor struct {
	replacer *strings.Replacer
	short    []string
}

const (
	hidden = "[hidden]"
	// shortSecret is the length in bytes below which a secret is hidden only
	// where it stands alone: as part of other words it tells nobody anything,
	// and they would be unreadable.
	shortSecret = 4
)

// newRedactor hides the values of secret settings, also as they look inside
// quotes and URLs.
func newRedactor(fields []connector.Field, settings map[string]string) *redactor {
	r := &redactor{}
	var pairs []string
	for name, value := range settings {
		if value == "" || !isSecret(fields, name) {
			continue
		}
		if len(value) < shortSecret {
			r.short = append(r.short, value)
			continue
		}
		quoted := fmt.Sprintf("%q", value)
		inJSON, _ := json.Marshal(value) // a string always can be
		for _, form := range []string{value, quoted[1 : len(quoted)-1], string(inJSON[1 : len(inJSON)-1]), url.QueryEscape(value), url.PathEscape(value)} {
			pairs = append(pairs, form, hidden)
		}
	}
	r.replacer = strings.NewReplacer(pairs...)
	return r
}

// hideWord hides word in s where no letter or digit is beside it.
func hideWord(s, word string) string {
	var b strings.Builder
	for begin := 0; ; {
		i := strings.Index(s[begin:], word)
		if i < 0 {
			return b.String() + s[begin:]
		}
		i, end := begin+i, begin+i+len(word)
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		after, _ := utf8.DecodeRuneInString(s[end:])
		b.WriteString(s[begin:i])
		if isWordRune(before) || isWordRune(after) {
			b.WriteString(word)
		} else {
			b.WriteString(hidden)
		}
		begin = end
	}
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func isSecret(fields []connector.Field, name string) bool {
	return slices.ContainsFunc(fields, func(f connector.Field) bool {
		return f.Secret && (f.Name == name || f.Type == connector.Map && strings.HasPrefix(name, f.Name+"."))
	})
}

func (r *redactor) text(s string) string {
	s = r.replacer.Replace(s)
	for _, word := range r.short {
		s = hideWord(s, word)
	}
	return s
}

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
