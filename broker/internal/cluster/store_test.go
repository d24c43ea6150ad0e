package cluster

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/millrace/millrace/broker/internal/disk"
)

func openTestStore(t *testing.T, fs disk.FS) *store {
	t.Helper()
	s, err := openStore(fs, "/meta", slog.New(slog.DiscardHandler), func() { panic("the store failed") })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreKeepsAndTrimsTheLog(t *testing.T) {
	fs := disk.NewMemory(time.Now)
	s := openTestStore(t, fs)
	if first, _ := s.FirstIndex(); first != 0 {
		t.Errorf("first index of an empty log is %d, want 0", first)
	}
	// Enough to make Pebble switch its memtable and its write-ahead log.
	const entries, size = 400, 16 << 10
	data := func(i uint64) []byte { return bytes.Repeat([]byte{byte(i)}, size) }
	now := time.Unix(0, 1_700_000_000_000_000_000)
	for i := uint64(1); i <= entries; i += 2 {
		if err := s.StoreLogs([]*raft.Log{
			{Index: i, Term: 3, Type: raft.LogCommand, Data: data(i), AppendedAt: now},
			{Index: i + 1, Term: 3, Type: raft.LogNoop, Extensions: []byte("x"), AppendedAt: now},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DeleteRange(1, 100); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}

	s = openTestStore(t, fs.Crash(disk.LoseAll))
	first, _ := s.FirstIndex()
	last, _ := s.LastIndex()
	if first != 101 || last != entries {
		t.Errorf("log is from %d to %d, want 101 to %d", first, last, entries)
	}
	var e raft.Log
	if err := s.GetLog(301, &e); err != nil || !bytes.Equal(e.Data, data(301)) || e.Index != 301 || e.Term != 3 || !e.AppendedAt.Equal(now) {
		t.Errorf("entry 301: %v, index %d, term %d, %d bytes", err, e.Index, e.Term, len(e.Data))
	}
	if err := s.GetLog(302, &e); err != nil || e.Type != raft.LogNoop || string(e.Extensions) != "x" || len(e.Data) != 0 {
		t.Errorf("entry 302: %v, %+v", err, e)
	}
	if err := s.GetLog(100, &e); err != raft.ErrLogNotFound {
		t.Errorf("entry 100: %v, want ErrLogNotFound", err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

func TestStoreKeepsTheNewestSnapshots(t *testing.T) {
	s := openTestStore(t, disk.NewMemory(time.Now))
	defer s.close()
	snaps := snapshots{s}
	voters := raft.Configuration{Servers: []raft.Server{{ID: "1", Address: "1"}}}
	write := func(index uint64, data []byte) raft.SnapshotSink {
		sink, err := snaps.Create(raft.SnapshotVersionMax, index, 2, voters, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sink.Write(data); err != nil {
			t.Fatal(err)
		}
		return sink
	}
	large := bytes.Repeat([]byte("millrace"), snapshotChunkBytes/3)
	for _, index := range []uint64{10, 20, 9000} {
		if err := write(index, append(large, byte(index))).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(9999, large).Cancel(); err != nil {
		t.Fatal(err)
	}
	metas, err := snaps.List()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range metas {
		ids = append(ids, m.ID)
	}
	if want := []string{"9000-2", "20-2"}; !slices.Equal(ids, want) {
		t.Fatalf("snapshots %v, want %v", ids, want)
	}
	meta, r, err := snaps.Open("9000-2")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, append(large, byte(9000%256))) || meta.Size != int64(len(got)) {
		t.Errorf("snapshot has %d bytes (%v), want %d as they were written", len(got), err, len(large)+1)
	}
	if meta.Index != 9000 || meta.Term != 2 || meta.ConfigurationIndex != 1 || len(meta.Configuration.Servers) != 1 {
		t.Errorf("description %+v", meta)
	}
	pieces := 0
	if err := s.each(prefixSnapshotData, func([]byte, []byte) error { pieces++; return nil }); err != nil {
		t.Fatal(err)
	}
	if want := 2 * (len(large)/snapshotChunkBytes + 1); pieces != want {
		t.Errorf("%d pieces are kept, want those %d of two snapshots", pieces, want)
	}
}

func TestNodeStartsFromASnapshot(t *testing.T) {
	fs := disk.NewMemory(time.Now)
	n := openRegistered(t, testConfig(t, fs, nil))
	for i := range 5 {
		mustCreate(t, n, fmt.Sprint("before-", i), 2)
	}
	if err := n.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, n, "after", 1)
	want := n.Image().encode()
	fs = fs.Crash(disk.LoseAll)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = open(t, testConfig(t, fs, nil))
	if got := n.Image().encode(); !bytes.Equal(got, want) {
		t.Errorf("the image differs: %d topics, want 6", len(n.Image().Topics()))
	}
}

// In a bubble, time is virtual and every goroutine must end.
func TestNodeRunsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := disk.NewMemory(time.Now)
		n := openRegistered(t, testConfig(t, fs, nil))
		mustCreate(t, n, "orders", 1)
		time.Sleep(10 * time.Minute)
		mustCreate(t, n, "more", 1)
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAFullDiskIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := disk.WithFaults(disk.NewMemory(time.Now))
		cfg := testConfig(t, faults, nil)
		cfg.Log = slog.New(slog.DiscardHandler)
		n := openRegistered(t, cfg)
		faults.SetSpace(10)
		made := make(chan error, 1)
		go func() {
			made <- n.CreateTopics(t.Context(), []NewTopic{{Name: "orders", Partitions: 1, Replicas: 1}}, false)[0].Err
		}()
		time.Sleep(10 * time.Second)
		select {
		case err := <-made:
			t.Fatalf("CreateTopics on a full disk returned %v, want it to wait", err)
		default:
		}
		faults.SetSpace(-1)
		if err := <-made; err != nil {
			t.Errorf("CreateTopics after there was room again: %v", err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseEndsTheWaitForSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := disk.WithFaults(disk.NewMemory(time.Now))
		cfg := testConfig(t, faults, nil)
		cfg.Log = slog.New(slog.DiscardHandler)
		n := openRegistered(t, cfg)
		faults.SetSpace(0)
		go n.CreateTopics(t.Context(), []NewTopic{{Name: "orders", Partitions: 1, Replicas: 1}}, false)
		time.Sleep(time.Second)
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(encodeEntry(&raft.Log{Index: 1, Term: 2, Data: []byte("d"), Extensions: []byte("e"), AppendedAt: time.Unix(0, 5)}))
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, b []byte) {
		var e, again raft.Log
		if decodeEntry(b, &e) != nil {
			return
		}
		if err := decodeEntry(encodeEntry(&e), &again); err != nil {
			t.Fatal(err)
		}
		if e.Term != again.Term || e.Type != again.Type || !bytes.Equal(e.Data, again.Data) || !bytes.Equal(e.Extensions, again.Extensions) {
			t.Fatalf("%+v became %+v", e, again)
		}
	})
}
