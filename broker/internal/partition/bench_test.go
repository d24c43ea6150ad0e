package partition

import (
	"math"
	"strings"
	"testing"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/storage"
)

// BenchmarkAppend writes batches of 10 records of 100 bytes with acks=all from
// many goroutines, on real files.
func BenchmarkAppend(b *testing.B) {
	for name, flushRecords := range map[string]int64{"flush=always": 1, "flush=never": math.MaxInt64} {
		for _, codec := range []batch.Codec{batch.None, batch.LZ4} {
			b.Run(name+"/"+codec.String(), func(b *testing.B) { benchAppend(b, flushRecords, codec) })
		}
	}
}

func benchAppend(b *testing.B, flushRecords int64, codec batch.Codec) {
	syncers := NewSyncers(16)
	defer syncers.Close()
	clock := newClock()
	codecs := batch.NewCodecs()
	p, err := Open(Config{
		Partition: ident.TopicPartition{Topic: "t"}, Self: 1, FS: disk.Real{}, Dir: b.TempDir(), Codecs: codecs,
		Settings: Settings{FlushRecords: flushRecords, Log: storage.Settings{SegmentBytes: 1 << 30}}, Syncers: syncers, Now: clock.Now,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	if err := p.BecomeLeader(Leadership{InSync: []ident.BrokerID{1}}); err != nil {
		b.Fatal(err)
	}
	builder := batch.NewBuilder(codecs, codec)
	for range 10 {
		builder.Append(batch.Record{Timestamp: clock.Now().UnixMilli(), Key: []byte("key"), Value: []byte(strings.Repeat("v", 100))})
	}
	v, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(v)))
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		done := make(chan AppendResult, 1)
		own := append(batch.View{}, v...)
		for pb.Next() {
			own.SetBaseOffset(0)
			p.Append(AppendRequest{Batches: own, Acks: AcksAll, Epoch: ident.NoLeaderEpoch}, func(r AppendResult) { done <- r })
			if r := <-done; r.Err != nil {
				b.Error(r.Err)
				return
			}
		}
	})
}
