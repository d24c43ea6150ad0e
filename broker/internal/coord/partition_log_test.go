package coord

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
)

// openLog opens a partition on fs and makes this broker its leader.
func openLog(t *testing.T, fs disk.FS) *PartitionLog {
	t.Helper()
	if err := errors.Join(fs.MkdirAll("data/groups-0"), fs.SyncDir("."), fs.SyncDir("data")); err != nil {
		t.Fatal(err)
	}
	syncers, codecs := partition.NewSyncers(1), batch.NewCodecs()
	t.Cleanup(syncers.Close)
	p, err := partition.Open(partition.Config{
		Partition: ident.TopicPartition{Topic: "groups"}, Self: 1, FS: fs, Dir: "data/groups-0",
		Codecs: codecs, Syncers: syncers, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	if err := p.BecomeLeader(partition.Leadership{Epoch: 1, InSync: []ident.BrokerID{1}}); err != nil {
		t.Fatal(err)
	}
	return &PartitionLog{Partition: p, Epoch: 1, Codecs: codecs, Now: time.Now}
}

func replayed(t *testing.T, l Log) (records []Record) {
	t.Helper()
	if err := l.Replay(context.Background(), func(r Record) error { records = append(records, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return records
}

func sameRecord(a, b Record) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
}

func TestCommittedRecordsAreReplayedAfterAPowerCut(t *testing.T) {
	memory := disk.NewMemory(time.Now)
	l := openLog(t, memory)
	batches := [][]Record{
		{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b"), Value: []byte{}}},
		{{Key: []byte("a")}}, // a tombstone is not an empty value
	}
	for _, b := range batches {
		committed := make(chan error, 1)
		if err := l.Append(b, func(err error) { committed <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-committed; err != nil {
			t.Fatal(err)
		}
	}
	want := slices.Concat(batches...)
	if got := replayed(t, l); !slices.EqualFunc(got, want, sameRecord) {
		t.Errorf("replayed %q, want %q", got, want)
	}
	next := openLog(t, memory.Crash(disk.LoseAll))
	if got := replayed(t, next); !slices.EqualFunc(got, want, sameRecord) {
		t.Errorf("after the cut: replayed %q, want %q", got, want)
	}
}

func TestAppendsThatWriteNothingSaySo(t *testing.T) {
	one := []Record{{Key: []byte("a"), Value: bytes.Repeat([]byte("x"), 100)}}
	for name, test := range map[string]struct {
		spoil func(*PartitionLog)
		want  error
	}{
		"too large":        {func(l *PartitionLog) { l.BatchBytesMax = 100 }, ErrTooLarge},
		"resigned":         {func(l *PartitionLog) { l.Partition.Resign() }, ErrNotCoordinator},
		"of another epoch": {func(l *PartitionLog) { l.Epoch = 0 }, ErrNotCoordinator},
		"closed":           {func(l *PartitionLog) { _ = l.Partition.Close() }, ErrNotCoordinator},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, disk.NewMemory(time.Now))
			test.spoil(l)
			err := l.Append(one, func(error) { t.Error("done was called") })
			if !errors.Is(err, test.want) {
				t.Errorf("Append = %v, want %v", err, test.want)
			}
		})
	}
}

func TestReplayStops(t *testing.T) {
	l := openLog(t, disk.NewMemory(time.Now))
	for range 3 {
		if err := l.Append([]Record{{Key: []byte("a")}, {Key: []byte("b")}}, func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	bad, seen := errors.New("bad record"), 0
	if err := l.Replay(context.Background(), func(Record) error { seen++; return bad }); !errors.Is(err, bad) || seen != 1 {
		t.Errorf("Replay = %v after %d records", err, seen)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Replay(ctx, func(Record) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Replay = %v, want canceled", err)
	}
}
