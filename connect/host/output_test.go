package host

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/millrace/millrace/sdk/connector"
)

func newTestOutput(secret string) (*outputLog, *bytes.Buffer) {
	var buf bytes.Buffer
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	fields := []connector.Field{{Name: "password", Secret: true}, {Name: "options", Type: connector.Map, Secret: true}}
	return &outputLog{
		log:  slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: drop})),
		hide: newRedactor(fields, map[string]string{"password": secret, "options.x": "option-secret", "plain": "visible"}),
	}, &buf
}

func TestOutputBecomesLogRecordsWithoutSecrets(t *testing.T) {
	const secret = `p"w d/1`
	o, buf := newTestOutput(secret)
	o.copyFrom(strings.NewReader(strings.Join([]string{
		`{"time":"2026-01-01T00:00:00Z","level":"WARN","msg":"slow p\"w d/1","ms":1.50,"nested":{"dsn":"u:p\"w d/1@h"},"list":["option-secret"]}`,
		`{"not":"a log record"}`,
		"",
		"plain text, visible, p\"w d/1",
		fmt.Sprintf("quoted %q, in a URL postgres://u:p%%22w%%20d%%2F1@h", secret),
		"no line end",
	}, "\n")))
	want := `level=WARN msg="slow [hidden]" list=[[hidden]] ms=1.50 nested=map[dsn:u:[hidden]@h]
level=INFO msg="{\"not\":\"a log record\"}"
level=INFO msg="plain text, visible, [hidden]"
level=INFO msg="quoted \"[hidden]\", in a URL postgres://u:[hidden]@h"
level=INFO msg="no line end"
`
	if got := buf.String(); got != want {
		t.Errorf("logged\n%s\nwant\n%s", got, want)
	}
	if got := o.panicked(); got != "" {
		t.Errorf("there was no panic, but it is told as %q", got)
	}
}

func TestPanicIsOneRecordAndToldWithItsPlace(t *testing.T) {
	o, buf := newTestOutput("s3cret-text")
	o.copyFrom(strings.NewReader(`last words
panic: it broke at s3cret-text

goroutine 1 [running]:
panic({0x1, 0x2})
	/usr/local/go/src/runtime/panic.go:787 +0x124
main.(*source).Read(...)
	/home/me/queue/main.go:12 +0x1d
{"level":"INFO","msg":"from another goroutine"}
exit status 2`))
	want := `level=INFO msg="last words"
level=INFO msg="from another goroutine"
level=ERROR msg="panic: it broke at [hidden]" trace="goroutine 1 [running]:\npanic({0x1, 0x2})\n\t/usr/local/go/src/runtime/panic.go:787 +0x124\nmain.(*source).Read(...)\n\t/home/me/queue/main.go:12 +0x1d\nexit status 2\n"
`
	if got := buf.String(); got != want {
		t.Errorf("logged\n%s\nwant\n%s", got, want)
	}
	if got, want := o.panicked(), "panic: it broke at [hidden] (at /home/me/queue/main.go:12)"; got != want {
		t.Errorf("the panic is told as %q, want %q", got, want)
	}
}

func TestShortSecretsAreHiddenWhereTheyStandAlone(t *testing.T) {
	o, buf := newTestOutput("e")
	o.line([]byte("e: the read failed for user:e@host, token=e"))
	if want := "level=INFO msg=\"[hidden]: the read failed for user:[hidden]@host, token=[hidden]\"\n"; buf.String() != want {
		t.Errorf("logged %s, want %s", buf, want)
	}
}

func TestOutputWithoutLineEndIsLoggedAtTheEnd(t *testing.T) {
	o, buf := newTestOutput("")
	fmt.Fprint(o.writer(), "half a ")
	w := o.writer()
	fmt.Fprint(w, "whole\nand")
	fmt.Fprint(w, " more")
	o.flush()
	o.flush()
	if want := "level=INFO msg=whole\nlevel=INFO msg=\"half a \"\nlevel=INFO msg=\"and more\"\n"; buf.String() != want {
		t.Errorf("logged\n%s\nwant\n%s", buf, want)
	}
}

func TestLongLinesOfOutputAreCut(t *testing.T) {
	o, buf := newTestOutput("")
	o.copyFrom(strings.NewReader(strings.Repeat("x", 3*outputLineBytes/2) + "\nshort\n"))
	w := o.writer()
	for range 3 {
		fmt.Fprint(w, strings.Repeat("y", outputLineBytes/2))
	}
	fmt.Fprint(w, "\nlast\n")
	if n := strings.Count(buf.String(), "level="); n != 6 {
		t.Errorf("%d records were logged, want 6", n)
	}
}

func FuzzOutputLine(f *testing.F) {
	for _, seed := range []string{`{"level":"INFO","msg":"m","a":[1,{"b":null}]}`, `{"level":"INFO"}`, `{"level":1,"msg":"m"}`, "panic: x", "{", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		o, buf := newTestOutput("s3cret-text")
		o.copyFrom(bytes.NewReader(append(line, "s3cret-text"...)))
		if strings.Contains(buf.String(), "s3cret-text") {
			t.Errorf("the secret was logged: %s", buf)
		}
	})
}
