package connector

import (
	"context"
	"errors"
	"fmt"
	"io"
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
