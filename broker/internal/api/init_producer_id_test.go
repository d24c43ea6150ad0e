package api

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/ident"
)

// idSource gives out blocks of two ids.
type idSource struct {
	mu   sync.Mutex
	next ident.ProducerID
	err  error
}

func (s *idSource) allocate(context.Context) (cluster.ProducerIDs, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return cluster.ProducerIDs{}, s.err
	}
	s.next += 2
	return cluster.ProducerIDs{First: s.next - 2, Count: 2}, nil
}

func newProducerIDs(s *idSource) *producerIDs {
	return &producerIDs{allocate: s.allocate, async: func(timeout time.Duration, f func(context.Context)) { go f(context.Background()) }}
}

func TestProducerIDsAreGivenOutOnce(t *testing.T) {
	ids := newProducerIDs(&idSource{})
	const n = 101
	got := make(chan ident.ProducerID, n)
	for range n {
		go ids.take(func(id ident.ProducerID, err error) {
			if err != nil {
				t.Error(err)
			}
			got <- id
		})
	}
	seen := make(map[ident.ProducerID]bool)
	for range n {
		id := <-got
		if seen[id] {
			t.Fatalf("id %d was given out twice", id)
		}
		seen[id] = true
	}
}

func TestFailedBlockFailsThoseWhoWaitAndNoOthers(t *testing.T) {
	source := &idSource{err: kerr.NotController}
	ids := newProducerIDs(source)
	errs := make(chan error, 1)
	ids.take(func(_ ident.ProducerID, err error) { errs <- err })
	if err := <-errs; !errors.Is(err, kerr.NotController) {
		t.Fatalf("got error %v", err)
	}
	source.mu.Lock()
	source.err = nil
	source.mu.Unlock()
	ids.take(func(_ ident.ProducerID, err error) { errs <- err })
	if err := <-errs; err != nil {
		t.Fatalf("the next request failed too: %v", err)
	}
}
