package streams_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
)

// noon is where event time begins in these tests.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

func build(t *testing.T, b *streams.Builder) *streams.Topology {
	t.Helper()
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// lines renders an output's new records one a line: "key=value", deletes as "key deleted".
func lines[K, V any](o *streamstest.Output[K, V]) string {
	var b strings.Builder
	for _, r := range o.All() {
		switch {
		case !r.HasKey:
			fmt.Fprintf(&b, "-=%v\n", r.Value)
		case r.Present:
			fmt.Fprintf(&b, "%v=%v\n", r.Key, r.Value)
		default:
			fmt.Fprintf(&b, "%v deleted\n", r.Key)
		}
	}
	return b.String()
}

func wantLines[K, V any](t *testing.T, o *streamstest.Output[K, V], want ...string) {
	t.Helper()
	expected := ""
	if len(want) > 0 {
		expected = strings.Join(want, "\n") + "\n"
	}
	if got := lines(o); got != expected {
		t.Errorf("output differs\n--- got\n%s--- want\n%s", got, expected)
	}
}

// texts is a job's input and output of plain strings.
func texts(b *streams.Builder) streams.Stream[string, string] {
	return b.Stream("in", serde.String, serde.String)
}
