package streams_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
)

// TestAJobThatLacksATopicSaysWhichAndWhatToDo: the broker tells only when something is written.
func TestAJobThatLacksATopicSaysWhichAndWhatToDo(t *testing.T) {
	tests := map[string]struct {
		record string
		job    func(streams.Stream[string, int64])
		want   []string
	}{
		"output": {"\x00\x00\x00\x00\x00\x00\x00\x01", func(s streams.Stream[string, int64]) { s.ToFunc(func(string, int64) string { return "nowhere" }) },
			[]string{`production failed at to-func-1, writing to topic "nowhere"`, "the topic does not exist: create it"}},
		"dead letters": {"poison", func(s streams.Stream[string, int64]) { s.ForEach(func(string, int64) {}) },
			[]string{"production failed at stream in", `a dead letter cannot be written to its topic "dead"`, "the topic does not exist: create it",
				"it was about: decoding the value: an integer has 8 bytes, this has 6"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, brokertest.Setting("auto.create.topics.enable", "false"))
			c.broker.CreateTopic("in", 1)
			c.produce("in", test.record)
			b := streams.NewBuilder("app")
			test.job(b.Stream("in", serde.String, serde.Int64))
			app, err := streams.New(build(t, b), streams.Config{Brokers: []string{c.broker.Addr()}, StateDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
				Handlers: streams.Handlers{Deserialization: streams.Always(streams.DeadLetter("dead"))}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err = app.Run(ctx)
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Run: %v, want an error with %q", err, want)
				}
			}
		})
	}
}
