package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// deadLetters is the topic that takes a sink's bad records. A nil one takes
// nothing.
type deadLetters struct {
	client    *kgo.Client
	topic     string
	headers   bool
	connector string
	task      int
}

// create makes the topic if it is missing.
func (d *deadLetters) create(ctx context.Context, replication int16) error {
	_, err := kadm.NewClient(d.client).CreateTopic(ctx, 1, replication, nil, d.topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("creating the dead-letter topic %s: %w", d.topic, err)
	}
	return nil
}

// send writes a record as it was, and returns when the brokers have it. The
// headers that say why are described in docs/format/connect-topics.md.
func (d *deadLetters) send(ctx context.Context, r *kgo.Record, stage string, cause error) error {
	if d == nil {
		return nil
	}
	letter := &kgo.Record{Topic: d.topic, Key: r.Key, Value: r.Value, Headers: slices.Clone(r.Headers), Timestamp: r.Timestamp}
	if d.headers {
		for _, h := range [][2]string{
			{"topic", r.Topic}, {"partition", strconv.Itoa(int(r.Partition))}, {"offset", strconv.FormatInt(r.Offset, 10)},
			{"connector.name", d.connector}, {"task.id", strconv.Itoa(d.task)}, {"stage", stage}, {"exception.message", cause.Error()},
		} {
			letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: "__connect.errors." + h[0], Value: []byte(h[1])})
		}
	}
	if err := d.client.ProduceSync(ctx, letter).FirstErr(); err != nil {
		return fmt.Errorf("writing to the dead-letter topic %s: %w", d.topic, err)
	}
	return nil
}
