package task

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/streams/internal/topology"
	"github.com/millrace/millrace/streams/window"
)

// bench is a task under test with two inputs, left and right, whose records are logged when they are delivered.
type bench struct {
	t    *testing.T
	task *Task
	now  time.Time
	log  []string
	sent []string
	// deliver, if set, runs in place of logging.
	deliver func(*Context, *kgo.Record) error
}

type benchInput struct {
	b   *bench
	c   *Context
	rec *kgo.Record
}

func (in *benchInput) Decode(rec *kgo.Record) (window.Instant, Reason, error) {
	switch string(rec.Value) {
	case "poison":
		return 0, Keep, errors.New("poison")
	case "null":
		return 0, NullValue, nil
	case "panic":
		panic("decoder")
	}
	in.rec = rec
	at := window.Instant(rec.Timestamp.UnixMilli())
	if at < 0 {
		return 0, InvalidTime, errors.New("no valid time")
	}
	return at, Keep, nil
}

func (in *benchInput) Deliver() error {
	if in.b.deliver != nil {
		return in.b.deliver(in.c, in.rec)
	}
	in.b.log = append(in.b.log, fmt.Sprintf("%s@%d", in.rec.Topic, in.rec.Timestamp.UnixMilli()))
	return nil
}

func (b *bench) Send(m *Message) error {
	b.sent = append(b.sent, fmt.Sprintf("%s %s@%d", m.Topic, m.Value, m.Time))
	return nil
}

func (b *bench) Partitions(string) (int32, error) { return 1, nil }

func newBench(t *testing.T, change func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, now: time.UnixMilli(1_000_000)}
	g := topology.NewGraph("app")
	left := g.Add(topology.Node{Kind: topology.Source, Op: "stream", Name: "left", Topic: "left"}).ID
	right := g.Add(topology.Node{Kind: topology.Source, Op: "stream", Name: "right", Topic: "right"}).ID
	g.Add(topology.Node{Op: "merge", Inputs: []topology.NodeID{left, right}})
	topo, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	open := func(a *Assembly) Input { return &benchInput{b: b, c: a.Context()} }
	cfg := Config{
		ID:      ID{Sub: "left", Partition: 0},
		Program: &Program{Topology: topo, Sub: &topo.Subs[0], Inputs: []InputSpec{{Topic: "left", Node: left, Open: open}, {Topic: "right", Node: right, Open: open}}},
		Output:  b,
		Now:     func() time.Time { return b.now },
		Log:     slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	if b.task, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) add(topic string, times ...int64) {
	next := int64(b.task.Buffered(topic))
	for _, p := range b.task.Positions() {
		if p.Topic == topic {
			next += max(p.Next, 0)
		}
	}
	for i, at := range times {
		b.task.Add(topic, []*kgo.Record{{Topic: topic, Offset: next + int64(i), LeaderEpoch: 7, Timestamp: time.UnixMilli(at), Value: []byte{}}})
	}
}

// run steps until the task stands still, and returns what was delivered and how long it wants to wait.
func (b *bench) run() (string, time.Duration) {
	b.t.Helper()
	b.log = nil
	for {
		p, err := b.task.Step()
		if err != nil {
			b.t.Fatal(err)
		}
		if !p.Processed {
			var wait time.Duration
			if !p.WaitUntil.IsZero() {
				wait = p.WaitUntil.Sub(b.now)
			}
			return strings.Join(b.log, " "), wait
		}
	}
}

func TestTheSmallestTimeGoesFirst(t *testing.T) {
	b := newBench(t, nil)
	b.add("left", 10, 30, 20)
	b.add("right", 15, 25)
	if got, _ := b.run(); got != "left@10 right@15 right@25 left@30 left@20" {
		t.Errorf("order %s", got)
	}
	if at := b.task.StreamTime(); at != 30 {
		t.Errorf("stream time %d, want the highest, 30", at)
	}
	want := "[{left 3 7 30} {right 2 7 25}]"
	var got []string
	for _, p := range b.task.Positions() {
		got = append(got, fmt.Sprintf("{%s %d %d %d}", p.Topic, p.Next, p.Epoch, p.Time))
	}
	if s := "[" + strings.Join(got, " ") + "]"; s != want {
		t.Errorf("positions %s, want %s", s, want)
	}
}

func TestAnIdlePartitionIsWaitedForButNotForEver(t *testing.T) {
	b := newBench(t, func(c *Config) { c.MaxIdle = time.Second })
	b.add("left", 10, 30)
	if got, wait := b.run(); got != "" || wait != time.Second {
		t.Errorf("delivered %q and waits %v, want nothing and a second", got, wait)
	}
	b.now = b.now.Add(400 * time.Millisecond)
	b.add("right", 20)
	if got, wait := b.run(); got != "left@10 right@20" || wait != time.Second {
		t.Errorf("delivered %q and waits %v, want two in order, then a second for the next of right", got, wait)
	}
	b.now = b.now.Add(time.Second)
	if got, wait := b.run(); got != "left@30" || wait != 0 {
		t.Errorf("delivered %q and waits %v, want the rest without right", got, wait)
	}
	b.add("right", 5)
	b.now = b.now.Add(time.Hour) // left ran dry an hour ago
	if got, _ := b.run(); got != "right@5" {
		t.Errorf("delivered %q, want the late one of right", got)
	}
}

func TestWithoutIdleWaitNothingWaits(t *testing.T) {
	b := newBench(t, nil)
	b.add("left", 10)
	if got, wait := b.run(); got != "left@10" || wait != 0 {
		t.Errorf("delivered %q and waits %v", got, wait)
	}
}

func TestDroppedRecordsAdvanceOffsetsButNotTime(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Handlers.Deserialization = func(Failure) Outcome { return Outcome{Action: Skip} }
	})
	for i, v := range []string{"poison", "null", "panic", "negative"} {
		at := time.UnixMilli(500)
		if v == "negative" {
			at = time.UnixMilli(-1)
		}
		b.task.Add("left", []*kgo.Record{{Topic: "left", Offset: int64(i), Value: []byte(v), Timestamp: at}})
	}
	if got, _ := b.run(); got != "" {
		t.Errorf("delivered %q", got)
	}
	if p := b.task.Positions()[0]; p.Next != 4 || p.Time != -1 || b.task.StreamTime() != -1 || b.task.Processed() != 4 {
		t.Errorf("position %+v, stream time %d, processed %d", p, b.task.StreamTime(), b.task.Processed())
	}
	if got := fmt.Sprint(b.task.Drops()); got != "[{stream left null value 1} {stream left skipped 3}]" {
		t.Errorf("drops %s", got)
	}
}

func TestTimesAreRestored(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Times = map[string]window.Instant{"left": 77, "right": -1} })
	if b.task.StreamTime() != 77 || b.task.Positions()[0].Time != 77 || b.task.Positions()[0].Next != -1 {
		t.Errorf("stream time %d, positions %+v", b.task.StreamTime(), b.task.Positions())
	}
}

func TestPanicsOutsideOfUserCodeEndTheTaskOnly(t *testing.T) {
	b := newBench(t, nil)
	b.deliver = func(*Context, *kgo.Record) error { panic("bug") }
	b.add("left", 1)
	if _, err := b.task.Step(); err == nil || !strings.Contains(err.Error(), "task left_0: panic: bug") {
		t.Errorf("error %v", err)
	}
	b = newBench(t, func(c *Config) { c.Handlers.Deserialization = func(Failure) Outcome { panic("handler") } })
	b.task.Add("left", []*kgo.Record{{Topic: "left", Value: []byte("poison")}})
	if _, err := b.task.Step(); err == nil || !strings.Contains(err.Error(), "task left_0: panic: handler") {
		t.Errorf("error %v", err)
	}
}

func TestADeadLetterThatCannotBeWrittenEndsTheTask(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Handlers.Production = func(Failure) Outcome { return Outcome{Action: DeadLetter, Topic: "dead"} }
	})
	refused := errors.New("refused")
	if err := b.task.ProductionFailed(&Message{Topic: "out", Value: []byte("v"), Operator: "to out", Time: 5}, refused); err != nil {
		t.Fatal(err)
	}
	if len(b.sent) != 1 || b.sent[0] != "dead v@5" {
		t.Errorf("sent %q, want the dead letter", b.sent)
	}
	if err := b.task.ProductionFailed(&Message{Topic: "dead", Operator: "to out"}, refused); !errors.Is(err, refused) {
		t.Errorf("error %v, want the broker's", err)
	}
}

func TestAnOperatorThatFailsOftenLogsOnceASecond(t *testing.T) {
	var out strings.Builder
	b := newBench(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&out, nil))
		c.Handlers.Deserialization = func(Failure) Outcome { return Outcome{Action: Skip} }
	})
	for i := range 100 {
		if i == 50 {
			b.run()
			b.now = b.now.Add(time.Second)
		}
		b.task.Add("left", []*kgo.Record{{Topic: "left", Offset: int64(i), Value: []byte("poison")}})
	}
	b.run()
	if n := strings.Count(out.String(), "record skipped"); n != 2 || !strings.Contains(out.String(), "unlogged_before=49") {
		t.Errorf("%d lines, want 2, of which the second tells how many were left out:\n%s", n, out.String())
	}
}

func TestTimersSkipWhatTheyMissed(t *testing.T) {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct{ due, now, want time.Duration }{
		{10, 10, 20}, {10, 15, 20}, {10, 20, 30}, {10, 105, 110},
	}
	for _, test := range tests {
		if got := nextDue(day.Add(test.due), day.Add(test.now), 10).Sub(day); got != test.want {
			t.Errorf("due %d, now %d: next %d, want %d", test.due, test.now, got, test.want)
		}
	}
	far := time.UnixMilli(1<<63 - 1)
	if got := nextDue(time.UnixMilli(0), far, time.Second); !got.After(far) {
		t.Errorf("after the end of time, the next is %v", got)
	}
}
