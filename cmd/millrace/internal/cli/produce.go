package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lineBytesMax bounds one line of input, so that a file without newlines
// cannot take all memory. It is above the broker's default limit of a record.
const lineBytesMax = 16 << 20

// recordBytesMax is the default of Kafka's message.max.bytes, so that it is the
// broker that says when a record is too large for a topic.
const recordBytesMax = 1<<20 + 12

type produceOptions struct {
	topic       string
	separator   string
	compression string
	partition   int32
	headers     []string
}

func newProduce(s *session) *cobra.Command {
	conn, o := &connection{}, &produceOptions{}
	cmd := &cobra.Command{
		ValidArgsFunction: completion(conn.topicNames).args,
		Use:               "produce TOPIC",
		Short:             "Send each line of standard input as a record",
		Example: `  echo hello | millrace produce greetings
  printf 'k1:v1\nk2:v2\n' | millrace produce pairs --key-separator :`,
		Args: oneArg("topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.topic = args[0]
			return produce(cmd, s, conn, o)
		},
	}
	conn.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.separator, "key-separator", "k", "", "text between key and value; without it records have no key")
	cmd.Flags().StringVarP(&o.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	cmd.Flags().Int32VarP(&o.partition, "partition", "p", -1, "partition to send to; -1 chooses by key")
	cmd.Flags().StringArrayVarP(&o.headers, "header", "H", nil, "a header for every record, NAME=VALUE; may be given several times")
	return cmd
}

func (o *produceOptions) clientOptions() ([]kgo.Opt, error) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	codec, ok := codecs[o.compression]
	if !ok {
		return nil, usagef("--compression %q is none of none, gzip, snappy, lz4, zstd", o.compression)
	}
	opts := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchMaxBytes(recordBytesMax)}
	if o.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

// produce sends lines until the input ends, and reports what was acknowledged.
func produce(cmd *cobra.Command, s *session, conn *connection, o *produceOptions) error {
	opts, err := o.clientOptions()
	if err != nil {
		return err
	}
	headers, err := parseHeaders(o.headers)
	if err != nil {
		return err
	}
	client, err := conn.client(cmd.Context(), opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	var acks acknowledgements
	sendErr := sendLines(cmd.Context(), s.in, client, o, headers, &acks)
	if err := client.Flush(cmd.Context()); err != nil {
		return fmt.Errorf("waiting for acknowledgements: %w", err)
	}
	count, err := acks.result()
	if err != nil {
		sendErr = fmt.Errorf("sending to %s: %w", o.topic, err)
	}
	if sendErr != nil {
		return fmt.Errorf("%w (%s acknowledged)", sendErr, counted(count, "record"))
	}
	return s.result(map[string]any{"topic": o.topic, "records": count}, "sent %s to %s", counted(count, "record"), o.topic)
}

func sendLines(ctx context.Context, in io.Reader, client *kgo.Client, o *produceOptions, headers []kgo.RecordHeader, acks *acknowledgements) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d of the input: %w", n, err)
		}
		record := &kgo.Record{Topic: o.topic, Value: []byte(line), Headers: headers, Partition: o.partition}
		if o.separator != "" {
			key, value, found := strings.Cut(line, o.separator)
			if !found {
				return fmt.Errorf("line %d of the input has no key separator %q", n, o.separator)
			}
			record.Key, record.Value = []byte(key), []byte(value)
		}
		client.Produce(ctx, record, acks.add)
		if acks.failure() != nil {
			return nil // the caller tells it
		}
	}
}

// readLine returns the next line without its end; io.EOF after the last one.
func readLine(r *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > lineBytesMax:
			return "", fmt.Errorf("it is longer than %d bytes", lineBytesMax)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0, err == nil:
			return strings.TrimRight(string(line), "\r\n"), nil
		}
		return "", err
	}
}

func parseHeaders(pairs []string) ([]kgo.RecordHeader, error) {
	var headers []kgo.RecordHeader
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usagef("--header %q: expected NAME=VALUE", pair)
		}
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return headers, nil
}

// acknowledgements counts deliveries; the client calls add from its own goroutine.
type acknowledgements struct {
	mu    sync.Mutex
	count int
	err   error
}

func (a *acknowledgements) add(_ *kgo.Record, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.count++
	} else if a.err == nil {
		a.err = err
	}
}

func (a *acknowledgements) failure() error {
	_, err := a.result()
	return err
}

func (a *acknowledgements) result() (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count, a.err
}
