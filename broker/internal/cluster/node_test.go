package cluster

import (
	"bytes"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/settings"
)

// testWriter sends a node's log to the test's.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func testConfig(t testing.TB, fs disk.FS, static map[string]string) Config {
	t.Helper()
	s, err := settings.NewBroker(static)
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		FS: fs, Dir: "/data/metadata", Broker: 1, Settings: s,
		Now: time.Now, Rand: rand.Reader,
		Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

func open(t testing.TB, cfg Config) *Node {
	t.Helper()
	n, err := Open(cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return n
}

// openRegistered opens a node whose broker is registered, as assembled.
func openRegistered(t testing.TB, cfg Config) *Node {
	t.Helper()
	n := open(t, cfg)
	if _, err := n.RegisterBroker(t.Context(), []Endpoint{{"PLAINTEXT", "localhost", 9092}}); err != nil {
		t.Fatalf("RegisterBroker: %v", err)
	}
	return n
}

func mustCreate(t testing.TB, n *Node, name string, partitions int32) *Topic {
	t.Helper()
	r := n.CreateTopics(t.Context(), []NewTopic{{Name: name, Partitions: partitions, Replicas: 1}}, false)[0]
	if r.Err != nil {
		t.Fatalf("CreateTopics(%s): %v", name, r.Err)
	}
	return r.Topic
}

func TestMetadataSurvivesARestart(t *testing.T) {
	fs := disk.NewMemory(time.Now)
	n := openRegistered(t, testConfig(t, fs, nil))
	id := n.Image().ClusterID()
	topic := mustCreate(t, n, "orders", 3)
	if err := n.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}

	n = openRegistered(t, testConfig(t, fs, nil))
	if got := n.Image().ClusterID(); got != id {
		t.Errorf("cluster id is %q after the restart, want %q", got, id)
	}
	got, ok := n.Image().Topic("orders")
	if !ok {
		t.Fatal("the topic is gone after the restart")
	}
	if got.ID != topic.ID || len(got.Partitions) != 3 {
		t.Errorf("topic is %v with %d partitions, want %v with 3", got.ID, len(got.Partitions), topic.ID)
	}
	if p := got.Partitions[0]; p.Leader != 1 || p.LeaderEpoch != 1 {
		t.Errorf("partition 0 has leader %d in epoch %d, want 1 in 1: a start begins a new epoch", p.Leader, p.LeaderEpoch)
	}
}

func TestFolderOfAnotherIsRefused(t *testing.T) {
	fs := disk.NewMemory(time.Now)
	cfg := testConfig(t, fs, nil)
	cfg.ClusterID = "first"
	n := open(t, cfg)
	if got := n.Image().ClusterID(); got != "first" {
		t.Errorf("cluster id is %q, want %q", got, "first")
	}
	if _, err := Open(cfg); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("Open while open: %v, want ErrLocked", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	other := cfg
	other.ClusterID = "second"
	if _, err := Open(other); !errors.Is(err, ErrWrongCluster) {
		t.Errorf("Open for another cluster: %v, want ErrWrongCluster", err)
	}
	other = cfg
	other.Broker = 2
	if _, err := Open(other); !errors.Is(err, ErrWrongBroker) {
		t.Errorf("Open for another broker: %v, want ErrWrongBroker", err)
	}
	open(t, cfg)
}

func TestMetadataOfANewerReleaseIsRefused(t *testing.T) {
	quiet := func(fs disk.FS) Config {
		cfg := testConfig(t, fs, nil)
		cfg.Log = slog.New(slog.DiscardHandler)
		return cfg
	}
	t.Run("command", func(t *testing.T) {
		fs := disk.NewMemory(time.Now)
		n := open(t, quiet(fs))
		newer := encodeCommand(&initCluster{}, time.Now())
		newer[0] = commandVersion + 1
		if out := n.raft.Apply(newer, 0); out.Error() != nil {
			t.Fatal(out.Error())
		}
		<-n.Failed()
		if err := n.Err(); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("Err = %v, want ErrNewerFormat", err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(quiet(fs)); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("Open: %v, want ErrNewerFormat", err)
		}
	})
	t.Run("snapshot", func(t *testing.T) {
		fs := disk.NewMemory(time.Now)
		n := open(t, quiet(fs))
		if err := n.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		metas, err := snapshots{n.store}.List()
		if err != nil || len(metas) != 1 {
			t.Fatalf("%d snapshots, %v", len(metas), err)
		}
		newer := n.Image().encode()
		newer[0] = snapshotVersion + 1
		key := snapshotName{metas[0].Index, metas[0].Term}.key(prefixSnapshotData, 0)
		if err := n.store.set(key, newer); err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(quiet(fs)); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("Open: %v, want ErrNewerFormat", err)
		}
	})
}

func TestWhatWasAnsweredSurvivesACrash(t *testing.T) {
	fs := disk.NewMemory(time.Now)
	n := openRegistered(t, testConfig(t, fs, nil))
	for i := range 20 {
		mustCreate(t, n, "topic-"+string(rune('a'+i)), 2)
	}
	want := n.Image().encode()
	fs = fs.Crash(disk.LoseAll)
	if err := n.Close(); err != nil {
		t.Errorf("Close after the crash: %v", err)
	}

	n = open(t, testConfig(t, fs, nil))
	if got := n.Image().encode(); !bytes.Equal(got, want) {
		t.Errorf("the image differs after the crash: %d topics, want 20", len(n.Image().Topics()))
	}
}

func TestFailedDiskFailsChangesAndNothingElse(t *testing.T) {
	faults := disk.WithFaults(disk.NewMemory(time.Now))
	n := openRegistered(t, testConfig(t, faults, nil))
	mustCreate(t, n, "before", 1)
	faults.FailSync(func(string) bool { return true })
	r := n.CreateTopics(t.Context(), []NewTopic{{Name: "after", Partitions: 1, Replicas: 1}}, false)[0]
	if !errors.Is(r.Err, disk.ErrSyncFailed) {
		t.Errorf("CreateTopics on a failing disk: %v, want ErrSyncFailed", r.Err)
	}
	<-n.Failed()
	if err := n.Err(); !errors.Is(err, disk.ErrSyncFailed) {
		t.Errorf("Err = %v, want ErrSyncFailed", err)
	}
	if _, ok := n.Image().Topic("before"); !ok {
		t.Error("the image is gone after the failure")
	}
	if err := n.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	faults.FailSync(nil)
	n = open(t, testConfig(t, faults, nil))
	if _, ok := n.Image().Topic("before"); !ok {
		t.Error("the topic is gone after the restart")
	}
}

func TestOpenCrashedAtEveryStepCanBeOpenedAgain(t *testing.T) {
	steps := func(fs disk.FS) int {
		faults := disk.WithFaults(fs)
		n := openRegistered(t, testConfig(t, faults, nil))
		mustCreate(t, n, "kept", 1)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		return faults.Ops()
	}(disk.NewMemory(time.Now))
	picks := []disk.Pick{disk.LoseAll, disk.KeepAll, mathrand.New(mathrand.NewPCG(7, 7)).IntN}
	for i := range steps * len(picks) {
		step, pick := 1+i/len(picks), picks[i%len(picks)]
		memory := disk.NewMemory(time.Now)
		faults := disk.WithFaults(memory)
		faults.CrashAt(step)
		cfg := testConfig(t, faults, nil)
		cfg.Log = slog.New(slog.DiscardHandler)
		answered := false
		if n, err := Open(cfg); err == nil {
			if _, err := n.RegisterBroker(t.Context(), nil); err == nil {
				r := n.CreateTopics(t.Context(), []NewTopic{{Name: "kept", Partitions: 1, Replicas: 1}}, false)[0]
				answered = r.Err == nil
			}
			if err := n.Close(); err != nil && !errors.Is(err, disk.ErrCrashed) {
				t.Fatalf("crash at step %d: Close: %v", step, err)
			}
		}
		n, err := Open(testConfig(t, memory.Crash(pick), nil))
		if err != nil {
			t.Fatalf("crash at step %d of %d: opening again: %v", step, steps, err)
		}
		if _, ok := n.Image().Topic("kept"); answered && !ok {
			t.Errorf("crash at step %d: the topic was answered for and is gone", step)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	n := openRegistered(t, testConfig(t, disk.NewMemory(time.Now), nil))
	mustCreate(t, n, "orders", 1)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
	r := n.CreateTopics(t.Context(), []NewTopic{{Name: "late", Partitions: 1, Replicas: 1}}, false)[0]
	if !errors.Is(r.Err, ErrClosed) {
		t.Errorf("CreateTopics after Close: %v, want ErrClosed", r.Err)
	}
}

func TestSubscribersSeeEveryChangeBeforeItIsAnswered(t *testing.T) {
	n := openRegistered(t, testConfig(t, disk.NewMemory(time.Now), nil))
	mustCreate(t, n, "first", 1)
	var last *Image
	cancel := n.Subscribe(func(old, new *Image) {
		if last == nil && len(old.Topics()) != 0 {
			t.Errorf("the first old image has %d topics, want none", len(old.Topics()))
		}
		if last != nil && old != last {
			t.Error("an image was left out")
		}
		last = new
	})
	if _, ok := last.Topic("first"); !ok {
		t.Error("Subscribe returned before its function saw the image")
	}
	mustCreate(t, n, "second", 1)
	if _, ok := last.Topic("second"); !ok {
		t.Error("CreateTopics returned before the subscriber saw the topic")
	}
	cancel()
	mustCreate(t, n, "third", 1)
	if _, ok := last.Topic("third"); ok {
		t.Error("the subscriber was called after its end")
	}
}

func TestProducerIDsAreNeverGivenTwice(t *testing.T) {
	fs := disk.NewMemory(time.Now)
	next := ident.ProducerID(0)
	for range 2 {
		n := openRegistered(t, testConfig(t, fs, nil))
		for range 3 {
			ids, err := n.AllocateProducerIDs(t.Context())
			if err != nil {
				t.Fatalf("AllocateProducerIDs: %v", err)
			}
			if ids.First < next || ids.Count < 1 {
				t.Fatalf("got %+v after ids up to %d were given", ids, next)
			}
			next = ids.First + ident.ProducerID(ids.Count)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProducerIDsNeedARegisteredBroker(t *testing.T) {
	n := open(t, testConfig(t, disk.NewMemory(time.Now), nil))
	if _, err := n.AllocateProducerIDs(t.Context()); !errors.Is(err, kerr.BrokerNotAvailable) {
		t.Errorf("AllocateProducerIDs: %v, want BROKER_NOT_AVAILABLE", err)
	}
}

func BenchmarkOpen(b *testing.B) {
	bench := func(b *testing.B, reuse bool) {
		dir := b.TempDir()
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			cfg := testConfig(b, disk.Real{}, nil)
			cfg.Dir = dir
			if !reuse {
				cfg.Dir = b.TempDir()
			}
			if reuse && i == 0 {
				n := openRegistered(b, cfg)
				mustCreate(b, n, "orders", 3)
				if err := n.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.StartTimer()
			n, err := Open(cfg)
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := n.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
	b.Run("new", func(b *testing.B) { bench(b, false) })
	b.Run("existing", func(b *testing.B) { bench(b, true) })
}
