package task

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestLateRecordsAreLoggedNowAndThen(t *testing.T) {
	var out strings.Builder
	b := newBench(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.MessageKey {
				return slog.Attr{}
			}
			return a
		}}))
	})
	b.add("left", 10_000)
	b.run()
	op := b.task.queues[0].op
	for i := range 100 {
		if i == 60 {
			b.now = b.now.Add(lateIntervalMin)
		}
		op.DropLate(5_000, 2*time.Second)
	}
	op.DropLate(1_000, 2*time.Second)
	if err := b.task.Close(); err != nil {
		t.Fatal(err)
	}
	want := `level=WARN task=left_0 operator="stream left" records=1 records_total=1 grace=2s grace_needed=5.001s
level=WARN task=left_0 operator="stream left" records=60 records_total=61 grace=2s grace_needed=5.001s
level=WARN task=left_0 operator="stream left" records=40 records_total=101 grace=2s grace_needed=9.001s
`
	if out.String() != want {
		t.Errorf("logged\n%swant\n%s", out.String(), want)
	}
	if drops := b.task.Drops(); len(drops) != 1 || drops[0].Count != 101 {
		t.Errorf("drops %v, want 101", drops)
	}
}

func TestErrorsSayWhatWasWrittenWhere(t *testing.T) {
	b := newBench(t, nil)
	refused := errors.New("refused")
	tests := []struct {
		message Message
		cause   error
		want    string
	}{
		{Message{Operator: "to out", Topic: "out", Partition: ByKey}, kerr.UnknownTopicOrPartition,
			`task left_0: production failed at to out, writing to topic "out": the topic does not exist: create it: UNKNOWN_TOPIC_OR_PARTITION: `},
		{Message{Operator: "to out", Topic: "out", Partition: 3}, refused,
			`task left_0: production failed at to out, writing to partition 3 of topic "out": refused`},
	}
	for _, test := range tests {
		err := b.task.ProductionFailed(&test.message, test.cause)
		if !errors.Is(err, test.cause) || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("error %v\nwant  %s", err, test.want)
		}
	}
}

// TestAMissingDeadLetterTopicIsNamedWithWhatTheLetterWasAbout: the broker's answer comes later, when the first failure is over.
func TestAMissingDeadLetterTopicIsNamedWithWhatTheLetterWasAbout(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Handlers.Deserialization = func(Failure) Outcome { return Outcome{Action: DeadLetter, Topic: "dead"} }
	})
	var letter Message
	b.task.cfg.Output = outputFunc(func(m *Message) error { letter = *m; return nil })
	b.task.Add("left", []*kgo.Record{{Topic: "left", Value: []byte("poison")}})
	b.run()
	if letter.Topic != "dead" {
		t.Fatalf("wrote %+v, want a dead letter", letter)
	}
	err := b.task.ProductionFailed(&letter, kerr.UnknownTopicOrPartition)
	for _, want := range []string{"production failed at stream left", `a dead letter cannot be written to its topic "dead": the topic does not exist: create it`, "it was about: poison"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %s", err, want)
		}
	}
}

// outputFunc is an Output that only sends.
type outputFunc func(*Message) error

func (f outputFunc) Send(m *Message) error            { return f(m) }
func (f outputFunc) Partitions(string) (int32, error) { return 1, nil }

func TestATimerHasNoDeadLetter(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Handlers.Processing = func(Failure) Outcome { return Outcome{Action: DeadLetter, Topic: "dead"} }
	})
	op := b.task.queues[0].op
	b.task.ctx.Punctuate(time.Second, true, func(time.Time) error {
		_, err := op.Guard(func() error { return errors.New("no luck") })
		return err
	})
	b.now = b.now.Add(time.Second)
	if err := b.task.Punctuate(); err != nil {
		t.Fatal(err)
	}
	if drops := b.task.Drops(); len(b.sent) != 0 || len(drops) != 1 || drops[0].Reason != Skipped {
		t.Errorf("sent %q, drops %v: want nothing sent, and the failure counted", b.sent, drops)
	}
	b.task.cfg.Handlers = Handlers{}
	b.now = b.now.Add(time.Second)
	if err := b.task.Punctuate(); err == nil || !strings.Contains(err.Error(), "processing failed at stream left, in a timer: no luck") {
		t.Errorf("error %v", err)
	}
}
