package logs

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
)

func TestCheckpointFileIsKafkas(t *testing.T) {
	got := string(offsets{tp("b", 0): 7, tp("a", 10): 5, tp("a", 9): 0}.encode())
	want := "0\n3\na 9 0\na 10 5\nb 0 7\n"
	if got != want {
		t.Errorf("file is %q, want %q", got, want)
	}
}

func TestPartitionMetadataIsKafkas(t *testing.T) {
	files := disk.NewMemory(now)
	if err := files.MkdirAll("p"); err != nil {
		t.Fatal(err)
	}
	if err := writePartitionMeta(files, "p", ident.TopicID{0xff, 1, 2}); err != nil {
		t.Fatal(err)
	}
	b, err := readFile(files, "p/partition.metadata")
	if want := "version: 0\ntopic_id: _wECAAAAAAAAAAAAAAAAAA\n"; err != nil || string(b) != want {
		t.Errorf("file is %q, %v; want %q", b, err, want)
	}
	id, ok, err := readPartitionMeta(files, "p")
	if err != nil || !ok || id != (ident.TopicID{0xff, 1, 2}) {
		t.Errorf("read %v, %v, %v", id, ok, err)
	}
}

func TestFolderNames(t *testing.T) {
	for name, want := range map[string]string{
		"a-0": "a 0", "a-b-12": "a-b 12", "__consumer_offsets-49": "__consumer_offsets 49",
		"a": "", "a-": "", "-1": "", "a-01": "", "a--1": "a- 1", "a-+1": "", "a-99999999999": "", "raft": "",
	} {
		got := ""
		if tp, ok := parseFolderName(name); ok {
			got = fmt.Sprint(tp.Topic, " ", tp.Partition)
		}
		if got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func TestCheckpointsThatWaitShareAWrite(t *testing.T) {
	files := disk.WithFaults(disk.NewMemory(now))
	if err := files.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	gathered := 0
	c := &checkpoints{fs: files, dir: "d", written: make(map[string][]byte)}
	value := ident.Offset(0)
	c.gather = func() map[ident.TopicPartition]partition.Checkpoint {
		gathered++
		value++
		return map[ident.TopicPartition]partition.Checkpoint{tp("a", 0): {RecoveryPoint: value}}
	}
	// A call that came before a write began is covered by it.
	c.mu.Lock()
	done := make(chan error, 10)
	for range 10 {
		go func() { done <- c.write() }()
	}
	for c.requests.Load() < 10 {
		runtime.Gosched()
	}
	c.mu.Unlock()
	for range 10 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if gathered != 1 {
		t.Errorf("%d writes for 10 calls", gathered)
	}
	files.FailSync(func(string) bool { return true })
	if err := c.write(); !errors.Is(err, disk.ErrSyncFailed) {
		t.Errorf("a failed write gives %v", err)
	}
	files.FailSync(nil)
	if err := c.write(); err != nil {
		t.Error(err)
	}
	if got, err := readOffsets(files, "d", recoveryPointName); err != nil || got[tp("a", 0)] != value {
		t.Errorf("file holds %v, %v; want %d", got, err, value)
	}
}

func FuzzDecodeOffsets(f *testing.F) {
	f.Add([]byte("0\n3\na 9 0\na 10 5\nb 0 7\n"))
	f.Add([]byte("0\n0\n"))
	f.Add([]byte("1\n0\n"))
	f.Add([]byte("0\n1\na 9\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := decodeOffsets("f", b)
		if err != nil {
			_, meta := errors.AsType[*MetaError](err)
			_, format := errors.AsType[*FormatError](err)
			if !meta && !format {
				t.Fatalf("error of no known kind: %v", err)
			}
			return
		}
		again, err := decodeOffsets("f", o.encode())
		if err != nil || len(again) != len(o) {
			t.Fatalf("%v became %v, %v", o, again, err)
		}
	})
}

func FuzzParseMeta(f *testing.F) {
	f.Add("#\ncluster.id=c1\nnode.id=1\nversion=1\n", "version: 0\ntopic_id: _wECAAAAAAAAAAAAAAAAAA\n")
	f.Add("=\n", ":")
	f.Fuzz(func(t *testing.T, broker, partition string) {
		if m, err := parseMeta("f", broker); err == nil && (m.node < 0 || m.cluster == "") {
			t.Errorf("%q gives %+v", broker, m)
		}
		_, _ = parsePartitionMeta("f", partition)
	})
}
