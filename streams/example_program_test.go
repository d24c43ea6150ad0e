package streams_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/state"
)

// A whole program: this is its main function. It ends cleanly at Ctrl-C and at SIGTERM, and continues there when it is
// started again.
func Example_program() {
	b := streams.NewBuilder("clicks-per-user")
	b.Stream("clicks", serde.String, serde.String).
		GroupByKey().
		Count("clicks-per-user").
		ToStream().
		To("clicks-per-user")
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	dead := streams.Always(streams.DeadLetter("clicks.dead"))
	app, err := streams.New(topology, streams.Config{
		Brokers:  []string{"localhost:9092"},
		Handlers: streams.Handlers{Deserialization: dead, Processing: dead},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// waitForCount asks for a key's count until it is there. While tasks start or move, a store is unavailable for some moments,
// so that is worth another try; other errors are not.
func waitForCount(ctx context.Context, view state.ReadOnly[string, int64], key string, want int64) error {
	for {
		n, ok, err := view.Get(key)
		switch {
		case err != nil && !errors.Is(err, state.ErrUnavailable):
			return err
		case err == nil && ok && n >= want:
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A store is read while the job runs. The view sees what is committed, in the partitions that this process has.
func ExampleApp_Query() {
	t := &exampleTest{}
	defer t.end()
	cluster := brokertest.Start(t, brokertest.LogTo(slog.DiscardHandler))
	cluster.CreateTopic("clicks", 2)

	b := streams.NewBuilder("clicks-per-user")
	counts := b.Stream("clicks", serde.String, serde.String).GroupByKey().Count("clicks-per-user")
	store, _ := counts.Store() // true: an aggregate is stored
	topology, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	app, err := streams.New(topology, streams.Config{
		Brokers: []string{cluster.Addr()}, StateDir: t.TempDir(), CommitInterval: 10 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()

	client, err := kgo.NewClient(cluster.ClientOptions()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	for range 3 {
		client.Produce(ctx, &kgo.Record{Topic: "clicks", Key: []byte("ada"), Value: []byte("/")}, nil)
	}

	view := app.Query(store)
	if err := waitForCount(ctx, view, "ada", 3); err != nil {
		fmt.Println(err)
		return
	}
	n, _, err := view.Get("ada")
	fmt.Println(n, err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 3 <nil>
	// <nil>
}
