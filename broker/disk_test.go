package broker_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker"
	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
)

func TestFullDiskRefusesWritesAndNothingElse(t *testing.T) {
	c := brokertest.Start(t)
	admin := newClient(t, c)
	createTopic(t, admin, "views", 1, nil)
	conn := dial(t, c)
	write := func() int16 {
		return conn.produceRaw(produceOf("views", 0, batchOf(t, batch.None, nil, at(1, strings.Repeat("x", 5000))))).ErrorCode
	}
	wantCode(t, "before", write(), nil)
	c.Faults().SetSpace(100)
	wantCode(t, "on the full disk", write(), kerr.KafkaStorageError)
	if got := ask[*kmsg.FetchResponse](conn, fetchOf(0, "views")).Topics[0].Partitions[0]; got.ErrorCode != 0 || len(got.RecordBatches) == 0 {
		t.Errorf("reading from the full disk: error %v, %d bytes", kerr.ErrorForCode(got.ErrorCode), len(got.RecordBatches))
	}
	c.Faults().SetSpace(-1)
	wantCode(t, "when there is room again", write(), nil)
	if end := conn.logEnd("views", 0); end != 2 {
		t.Errorf("the log ends at %d, want 2", end)
	}
}

func TestFailedSyncLosesNothingAcknowledgedAndHeals(t *testing.T) {
	c := brokertest.Start(t)
	client := newClient(t, c)
	createTopic(t, client, "views", 1, nil)
	createTopic(t, client, "others", 1, nil)
	produce(t, client, "views", "a")

	c.Faults().FailSync(func(path string) bool { return strings.Contains(path, "views-0") })
	conn := dial(t, c)
	got := conn.produceRaw(produceOf("views", 0, batchOf(t, batch.None, nil, at(1, "lost"))))
	wantCode(t, "a write whose sync fails", got.ErrorCode, kerr.KafkaStorageError)
	produce(t, client, "others", "fine") // the disk's other files still work
	c.Faults().FailSync(nil)

	// The partition recovers by itself, and the client's retries get through.
	deadline := time.Now().Add(10 * time.Second)
	for {
		got := conn.produceRaw(produceOf("views", 0, batchOf(t, batch.None, nil, at(1, "b"))))
		if got.ErrorCode == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the partition does not recover: %v", kerr.ErrorForCode(got.ErrorCode))
		}
		time.Sleep(5 * time.Millisecond) // a poll with a deadline
	}
	records := consume(t, newClient(t, c, fromStart("views")...), 2)
	if string(records[0].Value) != "a" {
		t.Errorf("the first record is %q", records[0].Value)
	}
}

func TestFoldersFollowTheMetadata(t *testing.T) {
	folder := t.TempDir()
	c := brokertest.Start(t, brokertest.Folder(folder))
	client := newClient(t, c)
	createTopic(t, client, "views", 2, nil)
	createTopic(t, client, "gone", 1, nil)
	produce(t, client, "views", "a")
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err == nil
	}
	if !has("views-0") || !has("views-1") || !has("gone-0") {
		t.Error("a partition has no folder")
	}
	if _, err := kadm.NewClient(client).DeleteTopic(testContext(t), "gone"); err != nil {
		t.Fatal(err)
	}
	if has("gone-0") {
		t.Error("the folder of a deleted topic is still there")
	}

	// A topic that was deleted right before a crash leaves its folder behind,
	// and so does metadata that was restored from an old copy.
	c.Stop()
	if err := os.CopyFS(filepath.Join(folder, "leftover-0"), os.DirFS(filepath.Join(folder, "views-0"))); err != nil {
		t.Fatal(err)
	}
	c.Start()
	stray, err := filepath.Glob(filepath.Join(folder, "leftover-0.*-stray", "*.log"))
	if has("leftover-0") || err != nil || len(stray) != 1 {
		t.Errorf("the leftover was not set aside: found %v, %v", stray, err)
	}
	consume(t, newClient(t, c, fromStart("views")...), 1)
	c.Restart() // what was set aside is in nobody's way
	consume(t, newClient(t, c, fromStart("views")...), 1)
}

func TestLostMetadataCostsNoRecords(t *testing.T) {
	folder := t.TempDir()
	c := brokertest.Start(t, brokertest.Folder(folder))
	client := newClient(t, c)
	createTopic(t, client, "views", 1, nil)
	produce(t, client, "views", "a")
	c.Stop()
	if err := os.RemoveAll(filepath.Join(folder, "metadata")); err != nil {
		t.Fatal(err)
	}
	_, err := start(t, broker.Config{Disk: broker.OnDisk(folder)})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(folder, "metadata")) || !strings.Contains(err.Error(), "backup") {
		t.Errorf("a start without the metadata gives %v; want an error that names its folder and what to do", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "views-0")); err != nil {
		t.Errorf("the records are gone: %v", err)
	}
}

func TestTornMetadataIsSaidInALine(t *testing.T) {
	folder := t.TempDir()
	c := brokertest.Start(t, brokertest.Folder(folder))
	createTopic(t, newClient(t, c), "views", 1, nil)
	c.Restart()
	c.Stop()
	for _, pattern := range []string{"MANIFEST-*", "*.sst", "*.log"} {
		t.Run(pattern, func(t *testing.T) {
			torn := t.TempDir()
			if err := os.CopyFS(torn, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(torn, "metadata", pattern))
			if err != nil || len(files) == 0 {
				t.Fatalf("there is no %s: %v", pattern, err)
			}
			for _, file := range files {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if pattern == "*.sst" {
					b[len(b)/2] ^= 0xff
				} else {
					b = b[:len(b)/2]
				}
				if err := os.WriteFile(file, b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			_, err = start(t, broker.Config{Disk: broker.OnDisk(torn), Settings: map[string]string{"offsets.topic.num.partitions": "1"}})
			if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), filepath.Join(torn, "metadata"))) {
				t.Errorf("the error is no line that names the folder: %v", err)
			}
		})
	}
}

func TestStartOnAFullDiskFailsAndSaysSo(t *testing.T) {
	memory := disk.NewMemory(time.Now)
	for _, state := range []string{"new", "used"} {
		faults := disk.WithFaults(memory)
		faults.SetSpace(10)
		ended := make(chan error, 1)
		go func() {
			_, err := start(t, broker.Config{Disk: broker.DiskOf(faults, "data")})
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, disk.ErrNoSpace) || !strings.Contains(err.Error(), "data/") {
				t.Errorf("a %s folder on a full disk gives %v; want a file and that there is no space", state, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("a %s folder on a full disk: the start hangs", state)
		}
		b, err := broker.New(t.Context(), broker.Config{Disk: broker.DiskOf(disk.WithFaults(memory), "data"), Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatalf("when there is room again: %v", err)
		}
		stop(t, b)
	}
}

func TestPartitionThatCouldNotBeMadeIsMadeLater(t *testing.T) {
	c := brokertest.Start(t)
	client := newClient(t, c)
	c.Faults().FailSync(func(path string) bool { return strings.Contains(path, "views-0") })
	createTopic(t, client, "views", 1, nil)
	conn := dial(t, c)
	write := func() int16 {
		return conn.produceRaw(produceOf("views", 0, batchOf(t, batch.None, nil, at(1, "x")))).ErrorCode
	}
	wantCode(t, "before the partition is there", write(), kerr.NotLeaderForPartition)
	c.Faults().FailSync(nil)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) { // a poll with a deadline
		code := write()
		if code == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the partition is not made: %v", kerr.ErrorForCode(code))
		}
	}
}

func TestFailedMetadataDiskEndsTheBrokerAndSaysWhy(t *testing.T) {
	faults := disk.WithFaults(disk.NewMemory(time.Now))
	b, err := broker.New(t.Context(), broker.Config{
		Disk: broker.DiskOf(faults, "data"), Listen: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.Run(t.Context()) }()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	faults.FailSync(func(path string) bool { return strings.Contains(path, "metadata") })
	// The answer may be an error or the end of the connection.
	ctx := testContext(t)
	go func() { _, _ = kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, "views") }()
	select {
	case err := <-ended:
		if !errors.Is(err, disk.ErrSyncFailed) || !strings.Contains(err.Error(), "metadata") {
			t.Errorf("Run ended with %v, want the failed sync of the metadata", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the broker goes on without metadata")
	}
}

// Groups live in a log like any other: what was committed is there when the
// disk is well again, and what failed may be tried again.
func TestOffsetsOutliveAFailingDisk(t *testing.T) {
	for name, fail := range map[string]func(*disk.Faults){
		"full disk": func(f *disk.Faults) { f.SetSpace(10) },
		"failed sync": func(f *disk.Faults) {
			f.FailSync(func(path string) bool { return strings.Contains(path, "__consumer") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := brokertest.Start(t)
			createTopic(t, newClient(t, c), "base", 1, nil)
			conn := dial(t, c)
			l := &ledger{commits: map[string]int64{}}
			l.commit(t, conn, "readers")
			fail(c.Faults())
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Version, req.Group, req.Generation = 8, "readers", -1
			rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Offset = 100
			rt.Topic, rt.Partitions = "base", append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			code := ask[*kmsg.OffsetCommitResponse](conn, req).Topics[0].Partitions[0].ErrorCode
			if !kerr.IsRetriable(kerr.ErrorForCode(code)) {
				t.Errorf("a commit that cannot be stored gives %v, want an error that clients try again after", kerr.ErrorForCode(code))
			}
			c.Faults().SetSpace(-1)
			c.Faults().FailSync(nil)
			l.check(t, conn) // 1, and not 100
			l.commit(t, conn, "readers")
			c.Restart()
			l.check(t, dial(t, c))
		})
	}
}
