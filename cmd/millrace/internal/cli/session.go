package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// session is what all commands share: the streams and how to use them.
type session struct {
	in       io.Reader
	out, err io.Writer
	format   format
	logLevel level
	// logTo is where logs go; nil means err.
	logTo io.Writer
}

// format is the value of --output.
type format string

func (f *format) String() string {
	if *f == "" {
		return "text"
	}
	return string(*f)
}

func (f *format) Set(v string) error {
	if v != "text" && v != "json" {
		return fmt.Errorf("%q is neither text nor json", v)
	}
	*f = format(v)
	return nil
}

func (f *format) Type() string { return "format" }

func (s *session) json() bool { return s.format == "json" }

// level is the value of --log-level.
type level struct{ slog.Level }

func (l *level) String() string { return strings.ToLower(l.Level.String()) }

func (l *level) Set(v string) error {
	if err := l.Level.UnmarshalText([]byte(v)); err != nil {
		return fmt.Errorf("%q is none of debug, info, warn, error", v)
	}
	return nil
}

func (l *level) Type() string { return "level" }

// logger writes for people on a terminal and JSON otherwise.
func (s *session) logger() *slog.Logger {
	if s.logTo != nil {
		return slog.New(slog.NewTextHandler(s.logTo, &slog.HandlerOptions{Level: s.logLevel.Level}))
	}
	if s.errIsTerminal() {
		return slog.New(tint.NewTextHandler(s.err, &tint.Options{Level: s.logLevel.Level, TimeFormat: time.TimeOnly}))
	}
	return slog.New(slog.NewJSONHandler(s.err, &slog.HandlerOptions{Level: s.logLevel.Level}))
}

func (s *session) errIsTerminal() bool {
	f, ok := s.err.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// printJSON prints one JSON document on a line of its own.
func (s *session) printJSON(v any) error {
	enc := json.NewEncoder(s.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// result prints v as JSON if that was asked for, and the text otherwise.
func (s *session) result(v any, format string, args ...any) error {
	if s.json() {
		return s.printJSON(v)
	}
	_, err := fmt.Fprintf(s.out, format+"\n", args...)
	return err
}

// counted writes a number with its noun: "1 record", "2 records".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// table prints rows under a header, columns aligned; with --output json it
// prints v instead, which holds the same as data.
func (s *session) table(v any, header []string, rows [][]string) error {
	if s.json() {
		return s.printJSON(v)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}
