package producer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
)

// written describes a batch to be.
type written struct {
	id     ident.ProducerID
	epoch  ident.ProducerEpoch
	first  int32
	count  int
	offset ident.Offset
	txn    bool
}

// fataler is what testing and rapid have in common.
type fataler interface{ Fatal(args ...any) }

func (w written) view(t fataler) batch.View {
	b := batch.NewBuilder(batch.NewCodecs(), batch.None)
	b.SetBaseOffset(w.offset)
	b.SetProducer(w.id, w.epoch, w.first)
	if w.txn {
		b.SetTransactional()
	}
	for range w.count {
		b.Append(batch.Record{Timestamp: 5})
	}
	v, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestScripts runs the scripts of testdata. Commands:
//
//	produce id=N epoch=N seq=N [n=N] [txn]   check, and apply what is new
//	marker id=N epoch=N coordinator=N        end a transaction
//	expire before=N                          forget the idle
//	reload                                   encode and decode
//	show                                     all producers
//	now ms=N                                 set the clock
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &State{}
		var end ident.Offset
		var now int64
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			num := func(key string, byDefault int64) int64 {
				n := byDefault
				d.MaybeScanArgs(t, key, &n)
				return n
			}
			switch d.Cmd {
			case "produce":
				w := written{ident.ProducerID(num("id", 0)), ident.ProducerEpoch(num("epoch", 0)), int32(num("seq", 0)), int(num("n", 1)), end, d.HasArg("txn")}
				v := w.view(t)
				verdict, err := s.Check(v)
				switch {
				case err != nil:
					return err.Error() + "\n"
				case verdict.Duplicate:
					return fmt.Sprintf("duplicate of [%d, %d]\n", verdict.Original.FirstOffset, verdict.Original.LastOffset)
				}
				s.Apply(v, now)
				end = v.NextOffset()
				return fmt.Sprintf("written [%d, %d]\n", v.BaseOffset(), v.LastOffset())
			case "marker":
				s.ApplyMarker(ident.ProducerID(num("id", 0)), ident.ProducerEpoch(num("epoch", 0)), int32(num("coordinator", 0)), now)
				end++
				return ""
			case "expire":
				return fmt.Sprintf("forgot %d\n", s.Expire(num("before", 0)))
			case "now":
				now = num("ms", 0)
				return ""
			case "reload":
				next, err := Decode(s.Encode())
				if err != nil {
					return err.Error() + "\n"
				}
				s = next
				return ""
			case "show":
				return show(s)
			}
			t.Fatalf("unknown command %q", d.Cmd)
			return ""
		})
	})
}

func show(s *State) string {
	var b strings.Builder
	for _, p := range s.Producers() {
		fmt.Fprintf(&b, "producer %d epoch %d last at %d ms", p.ID, p.Epoch, p.LastMs)
		if p.CoordinatorEpoch != NoCoordinatorEpoch {
			fmt.Fprintf(&b, " coordinator %d", p.CoordinatorEpoch)
		}
		if p.TxnFirst != ident.NoOffset {
			fmt.Fprintf(&b, " transaction from %d", p.TxnFirst)
		}
		for _, w := range p.window {
			fmt.Fprintf(&b, " %d-%d@%d-%d", w.FirstSequence, w.LastSequence, w.FirstOffset, w.LastOffset)
		}
		b.WriteByte('\n')
	}
	if o, ok := s.FirstUnstable(); ok {
		fmt.Fprintf(&b, "first unstable %d\n", o)
	}
	return b.String()
}

// TestEveryBatchIsTakenOnceInOrder lets a producer send batches with up to five
// in flight over a network that repeats and drops, and restarts the state from
// its snapshot, with the log's batches since then. Whatever happens, the log
// holds what was sent, in order, once.
func TestEveryBatchIsTakenOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type sent struct {
			first int32
			count int
		}
		s := &State{}
		var log []batch.View
		var end ident.Offset
		snapshot, snapshotLen := s.Encode(), 0
		start := rapid.SampledFrom([]int32{0, 7, math.MaxInt32 - 6}).Draw(t, "start")
		nextSeq, acked := start, 0
		var all []sent
		deliver := func(i int) {
			v := written{9, 3, all[i].first, all[i].count, end, false}.view(t)
			verdict, err := s.Check(v)
			again, err2 := s.Check(v)
			if verdict != again || fmt.Sprint(err) != fmt.Sprint(err2) {
				t.Fatalf("checking changed the state")
			}
			if errors.Is(err, ErrSequence) {
				return
			}
			if err != nil {
				t.Fatalf("batch %d: %v", i, err)
			}
			if verdict.Duplicate {
				orig := slices.IndexFunc(log, func(l batch.View) bool { return l.BaseSequence() == all[i].first })
				if orig < 0 || log[orig].BaseOffset() != verdict.Original.FirstOffset {
					t.Fatalf("batch %d is called a duplicate of %+v", i, verdict.Original)
				}
			} else {
				if i != len(log) {
					t.Fatalf("batch %d written after %d others", i, len(log))
				}
				s.Apply(v, 0)
				log = append(log, v)
				end = v.NextOffset()
			}
			if i == acked {
				acked++
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				if len(all)-acked >= WindowBatches {
					t.Skip("five are in flight")
				}
				n := rapid.IntRange(1, 4).Draw(t, "count")
				all = append(all, sent{nextSeq, n})
				nextSeq = int32((int64(nextSeq) + int64(n)) & math.MaxInt32)
			},
			"deliver": func(t *rapid.T) {
				if acked == len(all) {
					t.Skip("nothing in flight")
				}
				// The first of a producer must arrive first: a partition that
				// does not know the producer takes any sequence.
				if len(log) == 0 {
					deliver(0)
					return
				}
				deliver(rapid.IntRange(acked, len(all)-1).Draw(t, "which"))
			},
			"snapshot": func(t *rapid.T) { snapshot, snapshotLen = s.Encode(), len(log) },
			"restart": func(t *rapid.T) {
				next, err := Decode(snapshot)
				if err != nil {
					t.Fatal(err)
				}
				s = next
				for _, v := range log[snapshotLen:] {
					s.Apply(v, 0)
				}
			},
		})
	})
}

func FuzzDecode(f *testing.F) {
	s := &State{}
	f.Add(s.Encode())
	s.Apply(written{1, 0, 0, 3, 10, false}.view(f), 77)
	s.Apply(written{2, 1, math.MaxInt32, 3, 13, true}.view(f), 78)
	s.ApplyMarker(5, 4, 6, 79)
	f.Add(s.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= snapshotHeaderLen { // mended, so that the fuzzer gets past it
			b = slices.Clone(b)
			crc := snapshotCRC(b)
			b[2], b[3], b[4], b[5] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
		}
		s, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrSnapshot) {
				t.Fatalf("error of no known kind: %v", err)
			}
			return
		}
		again, err := Decode(s.Encode())
		if err != nil {
			t.Fatalf("decoding what was encoded: %v", err)
		}
		if show(again) != show(s) {
			t.Fatalf("state changed:\n%s\n%s", show(s), show(again))
		}
	})
}

func TestSnapshotBytesAreKafkas(t *testing.T) {
	s := &State{}
	s.Apply(written{1, 2, 3, 5, 100, false}.view(t), 0x0102)
	got := fmt.Sprintf("%x", s.Encode())
	want := "0001" + got[4:12] + "00000001" + // version, checksum, count
		"0000000000000001" + "0002" + "00000007" + // id, epoch, last sequence
		"0000000000000068" + "00000004" + // last offset, delta to the first
		"0000000000000102" + "ffffffff" + "ffffffffffffffff" // time, coordinator epoch, transaction
	if got != want {
		t.Errorf("snapshot is\n%s, want\n%s", got, want)
	}
}
