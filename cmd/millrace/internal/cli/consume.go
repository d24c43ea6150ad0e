package cli

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type consumeOptions struct {
	topic     string
	group     string
	from      string
	count     int
	untilEnd  bool
	committed bool
	showKey   bool
	separator string
}

func newConsume(s *session) *cobra.Command {
	conn, o := &connection{}, &consumeOptions{}
	cmd := &cobra.Command{
		ValidArgsFunction: completion(conn.topicNames).args,
		Use:               "consume TOPIC",
		Short:             "Print the records of a topic, a line each",
		Long: `Print the records of a topic, a line each, and wait for more.

With --output json each line is an object with topic, partition, offset,
timestamp, key, value and headers; what is not UTF-8 stands in key_base64 and
value_base64 instead. A record without a value (a tombstone) has "value": null.`,
		Example: `  millrace consume page-views --until-end
  millrace consume page-views --from end --show-key
  millrace consume page-views --group readers --output json`,
		Args: oneArg("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.topic = args[0]
			if o.count < 0 {
				return usagef("--count %d: expected 0 for no limit, or more", o.count)
			}
			return consume(cmd, s, conn, o)
		},
	}
	conn.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.group, "group", "g", "", "read as a member of this consumer group and commit what was printed")
	cmd.Flags().StringVarP(&o.from, "from", "f", "start", "where to begin: start, end, an offset, or a time such as 2026-11-30T10:00:00Z; a group begins there only where it has committed nothing")
	cmd.Flags().IntVarP(&o.count, "count", "n", 0, "stop after this many records; 0 means no limit")
	cmd.Flags().BoolVarP(&o.untilEnd, "until-end", "e", false, "stop at the ends that the partitions have now")
	cmd.Flags().BoolVar(&o.committed, "read-committed", false, "leave out records of open and aborted transactions")
	cmd.Flags().BoolVarP(&o.showKey, "show-key", "k", false, "print the key before the value")
	cmd.Flags().StringVar(&o.separator, "key-separator", "\t", "what stands between key and value with --show-key")
	return cmd
}

func (o *consumeOptions) clientOptions() ([]kgo.Opt, error) {
	from, err := parseFrom(o.from)
	if err != nil {
		return nil, err
	}
	opts := []kgo.Opt{kgo.ConsumeTopics(o.topic), kgo.ConsumeResetOffset(from)}
	if o.untilEnd {
		opts = append(opts, kgo.KeepControlRecords())
	}
	if o.group != "" {
		if o.untilEnd {
			return nil, usagef("--until-end does not go with --group: a member reads only the partitions that it is given")
		}
		opts = append(opts, kgo.ConsumerGroup(o.group), kgo.DisableAutoCommit())
	}
	if o.committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	return opts, nil
}

// parseFrom reads the value of --from.
func parseFrom(from string) (kgo.Offset, error) {
	switch from {
	case "start":
		return kgo.NewOffset().AtStart(), nil
	case "end":
		return kgo.NewOffset().AtEnd(), nil
	}
	if n, err := strconv.ParseInt(from, 10, 64); err == nil && n >= 0 {
		return kgo.NewOffset().At(n), nil
	}
	if t, err := time.Parse(time.RFC3339, from); err == nil {
		return kgo.NewOffset().AfterMilli(t.UnixMilli()), nil
	}
	return kgo.Offset{}, usagef("--from %q: expected start, end, an offset, or a time such as 2026-11-30T10:00:00Z", from)
}

func consume(cmd *cobra.Command, s *session, conn *connection, o *consumeOptions) error {
	opts, err := o.clientOptions()
	if err != nil {
		return err
	}
	client, err := conn.client(cmd.Context(), opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	var left *remaining
	if o.untilEnd {
		if left, err = remainingRecords(cmd.Context(), kadm.NewClient(client), o.topic, o.from, o.committed); err != nil {
			return err
		}
	}
	return printRecords(cmd.Context(), s, client, o, left)
}

// printRecords runs until the count or the ends are reached, or ctx ends.
func printRecords(ctx context.Context, s *session, client *kgo.Client, o *consumeOptions, left *remaining) error {
	out := bufio.NewWriter(s.out)
	defer out.Flush()
	printer := &session{out: out, format: s.format}
	for printed := 0; !left.none() && (o.count == 0 || printed < o.count); {
		fetches := client.PollRecords(ctx, pollLimit(o.count, printed))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("reading %s: %w", o.topic, err)
		}
		for _, r := range fetches.Records() {
			left.saw(r)
			if r.Attrs.IsControl() {
				continue
			}
			if err := printRecord(printer, o, r); err != nil {
				return err
			}
			printed++
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if o.group != "" {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				return fmt.Errorf("committing for group %s: %w", o.group, err)
			}
		}
	}
	return nil
}

func pollLimit(count, printed int) int {
	if count == 0 {
		return 1000
	}
	return min(1000, count-printed)
}

// recordLine is a record in JSON.
type recordLine struct {
	Topic       string            `json:"topic"`
	Partition   int32             `json:"partition"`
	Offset      int64             `json:"offset"`
	Timestamp   time.Time         `json:"timestamp"`
	Key         *string           `json:"key"`
	KeyBase64   string            `json:"key_base64,omitempty"`
	Value       *string           `json:"value"`
	ValueBase64 string            `json:"value_base64,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
}

func printRecord(s *session, o *consumeOptions, r *kgo.Record) error {
	if !s.json() {
		text := string(r.Value)
		if o.showKey {
			text = string(r.Key) + o.separator + text
		}
		_, err := fmt.Fprintln(s.out, text)
		return err
	}
	line := recordLine{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UTC()}
	line.Key, line.KeyBase64 = textOrBase64(r.Key)
	line.Value, line.ValueBase64 = textOrBase64(r.Value)
	for _, h := range r.Headers {
		if line.Headers == nil {
			line.Headers = map[string]string{}
		}
		line.Headers[h.Key] = string(h.Value)
	}
	return s.printJSON(line)
}

func textOrBase64(b []byte) (*string, string) {
	switch {
	case b == nil:
		return nil, ""
	case utf8.Valid(b):
		text := string(b)
		return &text, ""
	}
	return nil, base64.StdEncoding.EncodeToString(b)
}
