package connector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/connector/protocol"
)

// script is a source whose Read does what the steps say, one after the other.
type script struct {
	steps []func(out *Batch) error
	reads int
}

func (s *script) Open(context.Context, Task) error { return nil }
func (s *script) Read(_ context.Context, out *Batch) error {
	s.reads++
	step := s.steps[0]
	if len(s.steps) > 1 {
		s.steps = s.steps[1:]
	}
	return step(out)
}
func (s *script) Close(context.Context) error { return nil }

func records(n int, then error) func(*Batch) error {
	return func(out *Batch) error {
		for i := range n {
			out.Append(NewRecord(Origin{"p", fmt.Sprint(i)}, Value{}, TextValue("v")))
		}
		return then
	}
}

func openScript(t *testing.T, batchBytes uint32, steps ...func(*Batch) error) *server {
	t.Helper()
	s := newServer(Plugin{Name: "script", Version: "1", NewSource: func() Source { return &script{steps: steps} }}, os.Stderr, func(string) {})
	res, err := s.Open(context.Background(), &protocol.OpenRequest{Kind: protocol.Kind_KIND_SOURCE, BatchBytes: batchBytes})
	if err != nil || res.GetOutcome().GetCode() != protocol.Outcome_OK {
		t.Fatalf("opening: %v, %v", res, err)
	}
	return s
}

// read returns how many records a Read brought, and its outcome.
func read(t *testing.T, s *server, dec *Decoder) (int, *protocol.Outcome) {
	t.Helper()
	res, err := s.Read(context.Background(), &protocol.ReadRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	if len(res.GetBatch()) > 0 {
		if err := dec.Decode(res.GetBatch(), &b); err != nil {
			t.Fatal(err)
		}
	}
	return b.Len(), res.GetOutcome()
}

func TestReadOutcomes(t *testing.T) {
	type reply struct {
		records int
		code    protocol.Outcome_Code
	}
	for _, c := range []struct {
		name  string
		steps []func(*Batch) error
		want  []reply
	}{
		{"records with the end are sent with it, and the end stays", []func(*Batch) error{records(2, io.EOF)},
			[]reply{{2, protocol.Outcome_END}, {0, protocol.Outcome_END}}},
		{"an end that is wrapped is a failure", []func(*Batch) error{records(2, fmt.Errorf("reading the reply: %w", io.EOF))},
			[]reply{{0, protocol.Outcome_FAILED}}},
		{"records with a retry are sent with it", []func(*Batch) error{records(1, Retry(errStub("x"), time.Second)), records(3, nil)},
			[]reply{{1, protocol.Outcome_RETRY}, {3, protocol.Outcome_OK}}},
		{"records with a failure are dropped", []func(*Batch) error{records(1, errStub("x"))},
			[]reply{{0, protocol.Outcome_FAILED}}},
		{"empty reads are repeated here", []func(*Batch) error{records(0, nil), records(0, nil), records(1, nil)},
			[]reply{{1, protocol.Outcome_OK}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dec := openScript(t, 0, c.steps...), NewDecoder()
			for i, want := range c.want {
				n, outcome := read(t, s, dec)
				if n != want.records || outcome.GetCode() != want.code {
					t.Fatalf("read %d brought %d records and %v, want %d and %v", i, n, outcome, want.records, want.code)
				}
			}
		})
	}
}

func TestBatchThatIsTooLargeIsSentInPieces(t *testing.T) {
	s, dec := openScript(t, 300, records(20, io.EOF)), NewDecoder()
	total, frames := 0, 0
	for {
		n, outcome := read(t, s, dec)
		total += n
		frames++
		if outcome.GetCode() == protocol.Outcome_END {
			break
		}
		if n == 0 || frames > 20 {
			t.Fatalf("frame %d has %d records and %v", frames, n, outcome)
		}
	}
	if total != 20 || frames < 4 {
		t.Errorf("%d records came in %d frames", total, frames)
	}
}

func TestCallsOutOfOrderAreRefused(t *testing.T) {
	ctx := context.Background()
	s := newServer(Plugin{Name: "script", Version: "1", NewSource: func() Source { return &script{} }}, os.Stderr, func(string) {})
	if n, outcome := read(t, s, NewDecoder()); n != 0 || outcome.GetCode() != protocol.Outcome_FAILED {
		t.Errorf("Read before Open: %v", outcome)
	}
	if res, err := s.Write(ctx, &protocol.WriteRequest{}); err != nil || res.GetOutcome().GetCode() != protocol.Outcome_FAILED {
		t.Errorf("Write before Open: %v, %v", res, err)
	}
	if res, err := s.Open(ctx, &protocol.OpenRequest{Kind: protocol.Kind_KIND_SINK}); err != nil || res.GetOutcome().GetCode() != protocol.Outcome_INVALID {
		t.Errorf("opening a sink that there is not: %v, %v", res, err)
	}
	if res, err := s.Close(ctx, &protocol.CloseRequest{}); err != nil || res.GetOutcome().GetCode() != protocol.Outcome_OK {
		t.Errorf("Close before Open: %v, %v", res, err)
	}
	s = openScript(t, 0, records(1, nil))
	if res, err := s.Open(ctx, &protocol.OpenRequest{Kind: protocol.Kind_KIND_SOURCE}); err != nil || res.GetOutcome().GetCode() != protocol.Outcome_FAILED {
		t.Errorf("opening twice: %v, %v", res, err)
	}
	if res, err := s.Ack(ctx, &protocol.AckRequest{}); err != nil || res.GetOutcome().GetCode() != protocol.Outcome_UNSUPPORTED {
		t.Errorf("Ack of a source that is no Acker: %v, %v", res, err)
	}
}

func TestOutcomesAreUTF8(t *testing.T) {
	out := outcomeOf(context.Background(), errors.Join(Problemf("a", "not \xff"), RecordErrors{0: errStub("\xfe")}))
	if strings.Contains(out.String(), "\xff") {
		t.Errorf("the outcome is %q", out.String())
	}
}

func TestPluginWatchesItsParentUntilTheHostIsThere(t *testing.T) {
	ended := make(chan string, 1)
	s := newServer(Plugin{Name: "script"}, os.Stderr, func(reason string) {
		select {
		case ended <- reason:
		default: // a real exit does not return
		}
	})
	parents := make(chan int, 10)
	parents <- 100
	parents <- 100
	parents <- 1 // adopted
	stop := s.watchParent(func() int { return <-parents })
	defer stop()
	select {
	case reason := <-ended:
		if !strings.Contains(reason, "host died") {
			t.Errorf("the reason is %q", reason)
		}
	case <-time.After(10 * time.Second):
		t.Error("the plugin outlived its host")
	}
	close(parents)
}

func TestRecordsWithoutPositionAreRefused(t *testing.T) {
	s, dec := openScript(t, 0, func(out *Batch) error {
		out.Append(NewRecord(Origin{"p", "1"}, Value{}, TextValue("v")))
		out.Append(Record{Value: TextValue("v")})
		return nil
	}), NewDecoder()
	n, outcome := read(t, s, dec)
	if n != 0 || outcome.GetCode() != protocol.Outcome_FAILED || !strings.Contains(outcome.GetMessage(), "record 1 of those that Read returned has no Origin.Position") {
		t.Errorf("it brought %d records and %v", n, outcome)
	}
}

func TestCancellationOfTheConnectorsOwnIsSaidToBe(t *testing.T) {
	s, dec := openScript(t, 0, records(0, context.Canceled)), NewDecoder()
	if _, outcome := read(t, s, dec); outcome.GetCode() != protocol.Outcome_FAILED || !strings.Contains(outcome.GetMessage(), "not being stopped") {
		t.Errorf("the outcome is %v", outcome)
	}
}

func TestReadThatReturnsNothingAgainAndAgainIsLogged(t *testing.T) {
	var log bytes.Buffer
	steps := make([]func(*Batch) error, 3*emptyReads, 3*emptyReads+1)
	for i := range steps {
		steps[i] = records(0, nil)
	}
	r := newSourceReads(&script{steps: append(steps, records(1, nil))}, slog.New(slog.NewTextHandler(&log, nil)), 0)
	if _, err := r.next(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "Read returns without records"); n != 1 {
		t.Errorf("it was logged %d times: %s", n, log.String())
	}
}

func TestPluginThatMakesNothingSaysSo(t *testing.T) {
	s := newServer(Plugin{Name: "nil", Version: "1", NewSource: func() Source { return nil }, NewSink: func() Sink { return nil }}, os.Stderr, func(string) {})
	for kind, want := range map[protocol.Kind]string{protocol.Kind_KIND_SOURCE: "NewSource returned nil", protocol.Kind_KIND_SINK: "NewSink returned nil"} {
		res, err := s.Open(context.Background(), &protocol.OpenRequest{Kind: kind})
		if err != nil || !strings.Contains(res.GetOutcome().GetMessage(), want) {
			t.Errorf("opening: %v, %v; want %q", res, err, want)
		}
	}
}

// A Close that cannot be made says which call is in its way, before the host's
// patience ends.
func TestCloseNamesTheCallThatDoesNotReturn(t *testing.T) {
	release, reading := make(chan struct{}), make(chan struct{})
	s := openScript(t, 0, func(*Batch) error {
		close(reading)
		<-release
		return io.EOF
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.Read(context.Background(), &protocol.ReadRequest{})
	}()
	<-reading
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	res, err := s.Close(ctx, &protocol.CloseRequest{})
	if err != nil || ctx.Err() != nil || res.GetOutcome().GetCode() != protocol.Outcome_CANCELLED || !strings.Contains(res.GetOutcome().GetMessage(), "Read, whose context had ended, did not return within") {
		t.Errorf("closing: %v, %v; the context: %v", res, err, ctx.Err())
	}
	close(release)
	<-done
}

// both is a source and a sink in one type.
type both struct{ script }

func (*both) Write(context.Context, *Batch) error { return nil }

func TestOneTypeMayBeSourceAndSink(t *testing.T) {
	s := newServer(Plugin{Name: "both", Version: "1", NewSource: func() Source { return &both{} }, NewSink: func() Sink { return &both{} }}, os.Stderr, func(string) {})
	if res, err := s.Open(t.Context(), &protocol.OpenRequest{Kind: protocol.Kind_KIND_SINK}); err != nil || res.GetOutcome().GetCode() != protocol.Outcome_OK {
		t.Fatalf("opening: %v, %v", res, err)
	}
	frame, _, err := NewEncoder().Encode(new(Batch), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := s.Write(t.Context(), &protocol.WriteRequest{Batch: frame}); err != nil || res.GetOutcome().GetCode() != protocol.Outcome_OK {
		t.Errorf("writing to the sink: %v, %v", res, err)
	}
}
