package streams_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// seenRef is the store of firstOnly.
var seenRef = state.NewKeyValue("seen", serde.String, serde.Int64)

// firstOnly passes each key's first value on, counts the others, and tells the counts every minute of stream time.
type firstOnly struct {
	ctx    *streams.Context[string, string]
	seen   state.KeyValue[string, int64]
	closed *int
}

func (p *firstOnly) Init(ctx *streams.Context[string, string]) error {
	p.ctx, p.seen = ctx, ctx.Store(seenRef)
	ctx.EveryStreamTime(time.Minute, func(at time.Time) error {
		return p.seen.All(func(k string, n int64, _ window.Instant) bool {
			ctx.Emit(k, fmt.Sprintf("%d by %s", n, at.Format("15:04:05")))
			return true
		})
	})
	return nil
}

func (p *firstOnly) Process(key, value string) error {
	n, _, err := p.seen.Get(key)
	if err != nil {
		return err
	}
	if n == 0 {
		p.ctx.Emit(key, value)
	}
	return p.seen.Put(key, n+1, window.At(p.ctx.Time()))
}

func (p *firstOnly) Close() error {
	*p.closed++
	return nil
}

func TestProcessorWithStoreAndStreamTimeTimer(t *testing.T) {
	closed := 0
	b := streams.NewBuilder("app")
	texts(b).Process("first", func() *firstOnly { return &firstOnly{closed: &closed} }, seenRef).To("out")
	d := streamstest.New(t, build(t, b))
	in := d.Input("in", serde.String, serde.String)
	out := d.Output("out", serde.String, serde.String)
	in.Send("a", "1", at(0))
	in.Send("a", "2", at(59*time.Second))
	wantLines(t, out, "a=1")
	in.Send("b", "3", at(10*time.Minute)) // many intervals, one call
	wantLines(t, out, "b=3", "a=2 by 12:10:00", "b=1 by 12:10:00")
	in.Send("b", "4", at(10*time.Minute+59*time.Second))
	wantLines(t, out)
	d.Restart()
	if closed != 1 {
		t.Errorf("closed %d times by a restart, want once", closed)
	}
	in.Send("b", "5", at(10*time.Minute+59*time.Second))
	wantLines(t, out)
	if n, _, err := d.KeyValue(seenRef).Get("b"); n != 3 || err != nil {
		t.Errorf("store has %d, %v, want 3", n, err)
	}
}

// ticker emits at each tick of the wall clock, three times.
type ticker struct {
	ctx   *streams.Context[string, string]
	stop  func()
	ticks int
}

func (p *ticker) Init(ctx *streams.Context[string, string]) error {
	p.ctx = ctx
	p.stop = ctx.EveryWallClock(time.Second, p.tick)
	return nil
}

func (p *ticker) tick(at time.Time) error {
	p.ticks++
	p.ctx.EmitAt(at.Add(-time.Hour), p.ctx.TaskID(), fmt.Sprint(p.ticks, " ", at.Equal(p.ctx.Now())))
	if p.ticks == 3 {
		p.stop()
	}
	if p.ticks == 2 {
		return errors.New("second tick")
	}
	return nil
}

func (p *ticker) Process(string, string) error { return nil }

func TestWallClockTimer(t *testing.T) {
	b := streams.NewBuilder("app")
	texts(b).Process("tick", func() *ticker { return &ticker{} }).To("out")
	d := streamstest.NewWith(t, build(t, b), streamstest.Config{Start: noon, Handlers: streams.Handlers{Processing: streams.Always(streams.Skip())}})
	out := d.Output("out", serde.String, serde.String)
	d.Advance(999 * time.Millisecond)
	wantLines(t, out)
	d.Advance(10 * time.Second)
	records := d.Records("out")
	wantLines(t, out, "in_0=1 true", "in_0=2 true", "in_0=3 true")
	if got := records[0].Timestamp; !got.Equal(at(time.Second - time.Hour)) {
		t.Errorf("emitted at %v, want the time given", got)
	}
	if n := d.Dropped()["process tick: skipped"]; n != 1 {
		t.Errorf("dropped %v, want the failed tick counted", d.Dropped())
	}
}

// origins tells where records come from.
type origins struct {
	ctx *streams.Context[string, string]
}

func (p *origins) Init(ctx *streams.Context[string, string]) error { p.ctx = ctx; return nil }
func (p *origins) Process(key, _ string) error {
	topic, partition, offset, ok := p.ctx.Origin()
	now, known := p.ctx.StreamTime()
	p.ctx.Emit(key, fmt.Sprint(topic, partition, offset, ok, p.ctx.HasKey(), len(p.ctx.Headers()), now.Equal(noon), known))
	return nil
}

func TestProcessorSeesTheRecordsContext(t *testing.T) {
	b := streams.NewBuilder("app")
	texts(b).Process("origins", func() *origins { return &origins{} }).To("out")
	d := streamstest.New(t, build(t, b))
	in := d.Input("in", serde.String, serde.String)
	in.Send("a", "", noon, header("h", ""))
	in.SendKeyless("", noon)
	wantLines(t, d.Output("out", serde.String, serde.String), "a=in0 0 true true 1 true true", "=in0 1 true false 0 true true")
}

// greedy opens a store that it did not list.
type greedy struct{ firstOnly }

func TestProcessorMustListItsStores(t *testing.T) {
	closed := 0
	b := streams.NewBuilder("app")
	texts(b).Process("greedy", func() *greedy { return &greedy{firstOnly{closed: &closed}} })
	_, err := streamstest.TryStart(t, build(t, b), streamstest.Config{})
	if err == nil || !strings.Contains(err.Error(), `process greedy: store "seen" was not listed`) {
		t.Errorf("error %v, want one about the store", err)
	}
}

// keeper shares the stores of two windowed aggregations and tells what they hold of its key.
type keeper struct {
	ctx      *streams.Context[string, string]
	windows  state.WindowRef[string, int64]
	sessions state.SessionRef[string, int64]

	w state.Window[string, int64]
	s state.Session[string, int64]
}

func (p *keeper) Init(ctx *streams.Context[string, string]) error {
	p.ctx, p.w, p.s = ctx, ctx.WindowStore(p.windows), ctx.SessionStore(p.sessions)
	ctx.Log().Debug("ready")
	return nil
}

func (p *keeper) Process(key, _ string) error {
	all := window.Span{Start: 0, End: 1 << 60}
	var held []string
	err := errors.Join(
		p.w.Fetch(key, all, func(start window.Instant, n int64, _ window.Instant) bool {
			held = append(held, fmt.Sprintf("window %s: %d", start.Time().Format("15:04"), n))
			return true
		}),
		p.s.Overlapping(key, all, func(span window.Span, n int64) bool {
			held = append(held, fmt.Sprintf("session to %s: %d", span.Last().Time().Format("15:04:05"), n))
			return true
		}))
	p.ctx.Emit(key, strings.Join(held, ", "))
	return err
}

func TestAProcessorReadsTheStoresOfTables(t *testing.T) {
	b := streams.NewBuilder("app")
	s := texts(b)
	counts := s.GroupByKey().WindowedBy(window.Tumbling(time.Minute).Grace(time.Hour)).
		Aggregate("counts", func() int64 { return 0 }, func(_, _ string, n int64) int64 { return n + 1 }, serde.Int64)
	visits := s.GroupByKey().WindowedBySession(window.Session(time.Minute)).Count("visits")
	windows, ok := counts.WindowStore()
	sessions, ok2 := visits.SessionStore()
	if !ok || !ok2 {
		t.Fatal("windowed aggregates without stores")
	}
	s.Process("keeper", func() *keeper { return &keeper{windows: windows, sessions: sessions} }, windows, sessions).To("out")
	d := streamstest.New(t, build(t, b))
	in := d.Input("in", serde.String, serde.String)
	in.Send("a", "", at(30*time.Second))
	in.Send("a", "", at(70*time.Second))
	wantLines(t, d.Output("out", serde.String, serde.String),
		"a=window 12:00: 1, session to 12:00:30: 1",
		"a=window 12:00: 1, window 12:01: 1, session to 12:01:10: 2")
	n := 0
	err := d.Session(sessions).All(func(string, window.Span, int64) bool { n++; return true })
	if err != nil || n != 1 {
		t.Errorf("the view has %d sessions, %v, want one", n, err)
	}
}

// hasty sets a timer of no length.
type hasty struct{ origins }

func (p *hasty) Init(ctx *streams.Context[string, string]) error {
	ctx.EveryWallClock(0, func(time.Time) error { return nil })()
	return nil
}

func TestATimerNeedsALength(t *testing.T) {
	b := streams.NewBuilder("app")
	texts(b).Process("hasty", func() *hasty { return &hasty{} })
	_, err := streamstest.TryStart(t, build(t, b), streamstest.Config{})
	if err == nil || !strings.Contains(err.Error(), "process hasty: a timer is set to 0s") {
		t.Errorf("error %v", err)
	}
}
