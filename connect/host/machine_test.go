package host

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestMachine runs the scripts in testdata/machine. Each line of a script is
// an event; the output shows its effects and the state.
func TestMachine(t *testing.T) {
	datadriven.Walk(t, "testdata/machine", func(t *testing.T, path string) {
		m := machine{backoff: Backoff{First: time.Second, Longest: 10 * time.Second, Attempts: 4}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				ev := parseEvent(t, strings.Fields(line), m.generation)
				for _, e := range m.step(ev, nil) {
					out.WriteString(showEffect(e) + "\n")
				}
				fmt.Fprintf(&out, "-> %s", m.state)
				if m.err != nil {
					fmt.Fprintf(&out, ": %v", m.err)
				}
				out.WriteString("\n")
			}
			return out.String()
		})
	})
}

// parseEvent reads an event: its kind, then generation=n (that of now, if it is
// missing), err=text, retry=duration, ran=duration.
func parseEvent(t *testing.T, words []string, now int) event {
	t.Helper()
	kinds := map[string]eventKind{"begin": begin, "started": started, "start-failed": startFailed, "exited": exited,
		"paused": paused, "passed": passed, "retrying": retrying, "failed": failed, "stop": stop}
	kind, ok := kinds[words[0]]
	if !ok {
		t.Fatalf("no event %q", words[0])
	}
	ev := event{kind: kind, generation: now}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch name {
		case "generation":
			_, err = fmt.Sscan(value, &ev.generation)
		case "err":
			ev.err = errors.New(value)
		case "retry":
			ev.isRetry = true
			ev.after, err = time.ParseDuration(value)
		case "ran":
			ev.ran, err = time.ParseDuration(value)
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			t.Fatalf("reading %q: %v", word, err)
		}
	}
	return ev
}

func showEffect(e effect) string {
	switch e.kind {
	case launch:
		return fmt.Sprintf("launch %d", e.generation)
	case kill:
		return fmt.Sprintf("kill %d", e.generation)
	case end:
		return fmt.Sprintf("end %d", e.generation)
	}
	return fmt.Sprintf("pause %v before %d", e.after, e.generation)
}
