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
	// unsent holds the letters of the records in hand.
	unsent []*kgo.Record
}

// create makes the topic if it is missing. Who may not create topics can still
// use one that is there.
func (d *deadLetters) create(ctx context.Context, replication int16) error {
	admin := kadm.NewClient(d.client)
	topics, err := admin.ListTopics(ctx, d.topic)
	if err == nil {
		err = topics.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		if _, err = admin.CreateTopic(ctx, 1, replication, nil, d.topic); errors.Is(err, kerr.TopicAlreadyExists) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("creating the dead-letter topic %s: %w", d.topic, err)
	}
	return nil
}

// add makes a dead letter of a record, which keeps it as it was. It is on its
// way after flush. The headers that say why are described in
// docs/format/connect-topics.md.
func (d *deadLetters) add(r *kgo.Record, stage string, cause error) {
	if d == nil {
		return
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
	d.unsent = append(d.unsent, letter)
}

// flush sends all letters at once, and returns when the brokers have them.
func (d *deadLetters) flush(ctx context.Context) error {
	if d == nil || len(d.unsent) == 0 {
		return nil
	}
	letters := d.unsent
	d.unsent = nil
	if err := d.client.ProduceSync(ctx, letters...).FirstErr(); err != nil {
		return fmt.Errorf("writing to the dead-letter topic %s: %w", d.topic, err)
	}
	return nil
}
