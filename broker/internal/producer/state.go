package producer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
)

var (
	// ErrSequence says that a batch does not follow its producer's last one
	// (OUT_OF_ORDER_SEQUENCE_NUMBER).
	ErrSequence = errors.New("sequence number is out of order")
	// ErrFenced says that a newer incarnation of the producer has written
	// (INVALID_PRODUCER_EPOCH).
	ErrFenced = errors.New("producer epoch is fenced")
)

// WindowBatches is how many batches of a producer are remembered. Clients must
// not have more requests in flight.
const WindowBatches = 5

// NoCoordinatorEpoch is the coordinator epoch of producers without a
// transaction marker.
const NoCoordinatorEpoch int32 = -1

// Batch is a batch that was written.
type Batch struct {
	FirstSequence, LastSequence int32
	FirstOffset, LastOffset     ident.Offset
	// Timestamp is the batch's highest, in milliseconds.
	Timestamp int64
}

// Producer is what is known of one producer.
type Producer struct {
	ID    ident.ProducerID
	Epoch ident.ProducerEpoch
	// CoordinatorEpoch is that of the last transaction marker, or
	// NoCoordinatorEpoch.
	CoordinatorEpoch int32
	// LastMs is when it last wrote, in milliseconds by the broker's clock.
	LastMs int64
	// TxnFirst is where its open transaction begins, NoOffset without one.
	TxnFirst ident.Offset
	// window holds the last batches, the newest last; at most WindowBatches.
	window []Batch
}

// Last returns the last batch; ok is false when none is remembered.
func (p *Producer) Last() (b Batch, ok bool) {
	if len(p.window) == 0 {
		return Batch{}, false
	}
	return p.window[len(p.window)-1], true
}

// State is what is known of all producers of a partition. The zero State is
// empty and ready to use. It is not safe for concurrent use.
type State struct {
	producers map[ident.ProducerID]*Producer
	openTxns  int // how many have a transaction open
}

// Verdict is what is to be done with a batch.
type Verdict struct {
	// Duplicate says that the batch was written before, as Original.
	Duplicate bool
	Original  Batch
}

// Check says whether v, which has a producer id, may be written. It changes
// nothing. Errors are ErrSequence and ErrFenced.
//
// The rules are those of Kafka's ProducerStateManager and ProducerAppendInfo:
// a producer that is not known may begin with any sequence, because what was
// known of it may have been deleted with the log; a new epoch begins at 0.
func (s *State) Check(v batch.View) (Verdict, error) {
	p, ok := s.producers[v.ProducerID()]
	if !ok {
		return Verdict{}, nil
	}
	if v.ProducerEpoch() < p.Epoch {
		return Verdict{}, fmt.Errorf("%w: producer %d has epoch %d, but %d has written already",
			ErrFenced, p.ID, v.ProducerEpoch(), p.Epoch)
	}
	if v.ProducerEpoch() > p.Epoch {
		if v.BaseSequence() != 0 {
			return Verdict{}, fmt.Errorf("%w: producer %d begins epoch %d with sequence %d instead of 0",
				ErrSequence, p.ID, v.ProducerEpoch(), v.BaseSequence())
		}
		return Verdict{}, nil
	}
	for _, b := range p.window {
		if b.FirstSequence == v.BaseSequence() && b.LastSequence == v.LastSequence() {
			return Verdict{Duplicate: true, Original: b}, nil
		}
	}
	// After a transaction marker with a new epoch nothing of that epoch is
	// remembered, and it begins at 0.
	want := int32(0)
	if last, ok := p.Last(); ok {
		want = next(last.LastSequence)
	}
	if v.BaseSequence() != want {
		return Verdict{}, fmt.Errorf("%w: producer %d with epoch %d sent sequence %d instead of %d",
			ErrSequence, p.ID, p.Epoch, v.BaseSequence(), want)
	}
	return Verdict{}, nil
}

// next returns the sequence after n.
func next(n int32) int32 {
	if n == math.MaxInt32 {
		return 0
	}
	return n + 1
}

// Apply takes note of a batch that was written: its base offset is the final
// one. Batches without a producer are ignored. Control batches must go to
// [State.ApplyMarker] instead. nowMs is the broker's clock.
func (s *State) Apply(v batch.View, nowMs int64) {
	if !v.HasProducer() {
		return
	}
	p := s.get(v.ProducerID())
	if v.ProducerEpoch() != p.Epoch {
		p.Epoch = v.ProducerEpoch()
		p.window = p.window[:0]
	}
	if len(p.window) == WindowBatches {
		p.window = slices.Delete(p.window, 0, 1)
	}
	p.window = append(p.window, Batch{
		FirstSequence: v.BaseSequence(),
		LastSequence:  v.LastSequence(),
		FirstOffset:   v.BaseOffset(),
		LastOffset:    v.LastOffset(),
		Timestamp:     v.MaxTimestamp(),
	})
	p.LastMs = nowMs
	if v.IsTransactional() && p.TxnFirst == ident.NoOffset {
		p.TxnFirst = v.BaseOffset()
		s.openTxns++
	}
}

// ApplyMarker takes note of a transaction marker, which ends the producer's
// transaction and fences older epochs.
func (s *State) ApplyMarker(id ident.ProducerID, epoch ident.ProducerEpoch, coordinatorEpoch int32, nowMs int64) {
	p := s.get(id)
	if epoch != p.Epoch {
		p.Epoch = epoch
		p.window = p.window[:0]
	}
	p.CoordinatorEpoch = coordinatorEpoch
	if p.TxnFirst != ident.NoOffset {
		p.TxnFirst = ident.NoOffset
		s.openTxns--
	}
	p.LastMs = nowMs
}

func (s *State) get(id ident.ProducerID) *Producer {
	if s.producers == nil {
		s.producers = make(map[ident.ProducerID]*Producer)
	}
	p, ok := s.producers[id]
	if !ok {
		p = &Producer{
			ID:               id,
			Epoch:            ident.NoProducerEpoch,
			CoordinatorEpoch: NoCoordinatorEpoch,
			TxnFirst:         ident.NoOffset,
		}
		s.producers[id] = p
	}
	return p
}

// FirstUnstable returns where the first open transaction begins; ok is false
// when none is open.
func (s *State) FirstUnstable() (o ident.Offset, ok bool) {
	if s.openTxns == 0 {
		return 0, false
	}
	for _, p := range s.producers {
		if p.TxnFirst != ident.NoOffset && (!ok || p.TxnFirst < o) {
			o, ok = p.TxnFirst, true
		}
	}
	return o, ok
}

// Expire forgets producers that have not written since before beforeMs, by the
// clock that Apply was given, and have no open transaction. It returns how
// many.
//
// Kafka goes by the records' own times; then a producer that writes old events
// is forgotten at once, and one that writes dates of the future never.
func (s *State) Expire(beforeMs int64) int {
	n := len(s.producers)
	for id, p := range s.producers {
		if p.LastMs < beforeMs && p.TxnFirst == ident.NoOffset {
			delete(s.producers, id)
		}
	}
	return n - len(s.producers)
}

// Len returns the number of producers.
func (s *State) Len() int { return len(s.producers) }

// Producers returns copies of all producers, by id.
func (s *State) Producers() []Producer {
	out := make([]Producer, 0, len(s.producers))
	for _, p := range s.producers {
		c := *p
		c.window = slices.Clone(p.window)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Producer) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
