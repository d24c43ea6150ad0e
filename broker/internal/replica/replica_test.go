package replica

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/broker/internal/ident"
)

// TestScripts runs the scripts of testdata. Commands:
//
//	new self=N start=N end=N flushed=N hw=N [written]   written: not durable
//	lead epoch=N version=N isr=(N,N…)
//	resign | append end=N | flush end=N | truncate end=N | start at=N
//	fetch from=N by=N
//	durable on=true|false
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var r *Replica
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			num := func(key string) int64 {
				var n int64
				d.MaybeScanArgs(t, key, &n)
				return n
			}
			var e Event
			switch d.Cmd {
			case "new":
				r = New(Config{
					Self: ident.BrokerID(num("self")), Start: ident.Offset(num("start")), End: ident.Offset(num("end")),
					FlushedEnd: ident.Offset(num("flushed")), HighWatermark: ident.Offset(num("hw")), Durable: !d.HasArg("written"),
				})
				return state(r)
			case "lead":
				l := BecomeLeader{Epoch: ident.LeaderEpoch(num("epoch")), PartitionEpoch: int32(num("version"))}
				for _, arg := range d.CmdArgs {
					if arg.Key == "isr" {
						for i := range arg.Vals {
							var id int
							arg.Scan(t, i, &id)
							l.InSync = append(l.InSync, ident.BrokerID(id))
						}
					}
				}
				e = l
			case "resign":
				e = Resign{}
			case "append":
				e = LogEndMoved{ident.Offset(num("end"))}
			case "flush":
				e = LogFlushed{ident.Offset(num("end"))}
			case "truncate":
				e = LogTruncated{ident.Offset(num("end"))}
			case "start":
				e = LogStartMoved{ident.Offset(num("at"))}
			case "fetch":
				e = FollowerFetched{Follower: ident.BrokerID(num("by")), From: ident.Offset(num("from"))}
			case "durable":
				var on bool
				d.ScanArgs(t, "on", &on)
				e = DurabilityChanged{on}
			default:
				t.Fatalf("unknown command %q", d.Cmd)
			}
			var b strings.Builder
			for _, effect := range r.Step(time.Time{}, e, nil) {
				fmt.Fprintf(&b, "%T%+v\n", effect, effect)
			}
			return strings.ReplaceAll(b.String(), "replica.", "") + state(r)
		})
	})
}

func state(r *Replica) string {
	return fmt.Sprintf("%v epoch %d: [%d, %d) flushed %d safe %d high watermark %d in sync %v\n",
		r.Role(), r.Epoch(), r.Start(), r.End(), r.FlushedEnd(), r.LeaderSafe(), r.HighWatermark(), r.InSync())
}

// TestHighWatermarkIsSafeAndNeverFallsBack runs random events and holds the
// machine against its promise: what is below the high watermark was, when it
// got there, on every in-sync replica, and it does not go back while the log
// does not.
func TestHighWatermarkIsSafeAndNeverFallsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		brokers := []ident.BrokerID{1, 2, 3}
		durable := rapid.Bool().Draw(t, "durable")
		r := New(Config{Self: 1, Durable: durable})
		has := map[ident.BrokerID]ident.Offset{}
		var end, flushed, shown ident.Offset
		var epoch ident.LeaderEpoch
		var version int32
		inSync := brokers[:1]
		step := func(e Event) {
			for _, effect := range r.Step(time.Time{}, e, nil) {
				hw, ok := effect.(HighWatermarkMoved)
				if !ok {
					continue
				}
				if hw.Offset <= shown {
					t.Fatalf("high watermark fell from %d to %d", shown, hw.Offset)
				}
				shown = hw.Offset
				for _, id := range inSync {
					if id != 1 && has[id] < shown {
						t.Fatalf("high watermark %d, but in-sync replica %d has %d", shown, id, has[id])
					}
				}
				if own := map[bool]ident.Offset{true: flushed, false: end}[durable]; own < shown {
					t.Fatalf("high watermark %d, but the leader has %d", shown, own)
				}
			}
			if r.HighWatermark() != shown {
				t.Fatalf("high watermark is %d, but %d was told", r.HighWatermark(), shown)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"lead": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "new epoch") {
					epoch++
					has = map[ident.BrokerID]ident.Offset{}
				}
				version++
				inSync = brokers[:rapid.IntRange(1, 3).Draw(t, "in sync")]
				step(BecomeLeader{epoch, version, inSync})
			},
			"append": func(t *rapid.T) {
				end += ident.Offset(rapid.IntRange(1, 3).Draw(t, "records"))
				step(LogEndMoved{end})
			},
			"flush": func(*rapid.T) { flushed = end; step(LogFlushed{end}) },
			"fetch": func(t *rapid.T) {
				id := rapid.SampledFrom(brokers[1:]).Draw(t, "follower")
				from := ident.Offset(rapid.Int64Range(0, int64(end)).Draw(t, "from"))
				if r.Role() == Leader {
					has[id] = from
				}
				step(FollowerFetched{id, from})
			},
			"resign": func(*rapid.T) {
				has = map[ident.BrokerID]ident.Offset{}
				epoch++
				step(Resign{})
			},
		})
	})
}
