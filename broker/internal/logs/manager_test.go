package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
	"github.com/millrace/millrace/broker/internal/storage"
)

const testDir = "var/data"

func now() time.Time { return time.UnixMilli(1_700_000_000_000) }

func tp(topic string, n int32) ident.TopicPartition {
	return ident.TopicPartition{Topic: topic, Partition: n}
}

func id(n byte) ident.TopicID { return ident.TopicID{15: n} }

// open opens a manager on files.
func open(files disk.FS, change func(*Config)) (*Manager, error) {
	folder, err := OpenFolder(files, testDir, 1)
	if err != nil {
		return nil, err
	}
	if err := folder.SetClusterID("c1"); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	cfg := Config{Folder: folder, Codecs: batch.NewCodecs(), Now: now, CheckpointInterval: time.Hour}
	if change != nil {
		change(&cfg)
	}
	m, err := Open(cfg)
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return m, nil
}

func mustOpen(t testing.TB, files disk.FS, change func(*Config)) *Manager {
	t.Helper()
	m, err := open(files, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// lead creates a partition that this broker leads.
func lead(m *Manager, name ident.TopicPartition, topic ident.TopicID, s partition.Settings) (*partition.Partition, error) {
	p, err := m.Create(name, topic, s)
	if err != nil {
		return nil, err
	}
	return p, p.BecomeLeader(partition.Leadership{InSync: []ident.BrokerID{1}})
}

func mustLead(t testing.TB, m *Manager, name ident.TopicPartition, topic ident.TopicID) *partition.Partition {
	t.Helper()
	p, err := lead(m, name, topic, partition.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// produce writes a record with acks=all and waits for it.
func produce(p *partition.Partition, value string) partition.AppendResult {
	b := batch.NewBuilder(batch.NewCodecs(), batch.None)
	b.Append(batch.Record{Timestamp: now().UnixMilli(), Value: []byte(value)})
	v, err := b.Build()
	if err != nil {
		return partition.AppendResult{Err: err}
	}
	done := make(chan partition.AppendResult, 1)
	p.Append(partition.AppendRequest{Batches: v, Acks: partition.AcksAll, Epoch: ident.NoLeaderEpoch}, func(r partition.AppendResult) { done <- r })
	return <-done
}

func values(t testing.TB, p *partition.Partition) string {
	t.Helper()
	var out []string
	if err := p.Replay(0, func(v batch.View) error {
		return batch.Records(v, batch.NewCodecs(), func(r batch.Record) bool {
			out = append(out, string(r.Value))
			return true
		})
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func exists(files disk.FS, path string) bool {
	_, err := files.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func TestPartitionsSurviveARestart(t *testing.T) {
	files := disk.NewMemory(now)
	m := mustOpen(t, files, nil)
	for _, name := range []ident.TopicPartition{tp("b-1", 0), tp("a", 11), tp("a", 2)} {
		p := mustLead(t, m, name, id(1))
		if res := produce(p, name.String()); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if !exists(files, testDir+"/"+cleanMarkName) {
		t.Error("no mark of the clean stop")
	}

	m = mustOpen(t, files, nil)
	if exists(files, testDir+"/"+cleanMarkName) {
		t.Error("the mark of the clean stop is still there")
	}
	var names []string
	for _, p := range m.Partitions() {
		names = append(names, p.Name().String())
		if got := values(t, p); got != p.Name().String() {
			t.Errorf("%v holds %q", p.Name(), got)
		}
		if c := p.Checkpoint(); p.TopicID() != id(1) || c.RecoveryPoint != 1 || c.HighWatermark != 1 {
			t.Errorf("%v has topic id %v and checkpoint %+v", p.Name(), p.TopicID(), c)
		}
	}
	if got := fmt.Sprint(names); got != "[a-2 a-11 b-1-0]" {
		t.Errorf("partitions are %s", got)
	}
	if _, ok := m.Get(tp("a", 3)); ok {
		t.Error("a partition that was never made is there")
	}
	if _, err := m.Create(tp("a", 2), id(2), partition.Settings{}); err == nil {
		t.Error("the folder of another topic was taken")
	} else if e, ok := errors.AsType[*TopicIDError](err); !ok || e.Have != id(1) {
		t.Errorf("the folder of another topic gives %v", err)
	}
}

func TestForeignFoldersAreRefused(t *testing.T) {
	files := disk.NewMemory(now)
	m := mustOpen(t, files, nil)
	if _, err := OpenFolder(files, testDir, 1); err == nil {
		t.Error("locked twice")
	} else if _, ok := errors.AsType[*LockedError](err); !ok || !errors.Is(err, disk.ErrLocked) {
		t.Errorf("a locked folder gives %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(files, testDir, 2); err == nil {
		t.Error("another broker's folder was taken")
	} else if e, ok := errors.AsType[*NodeError](err); !ok || e.Have != 1 || e.Want != 2 {
		t.Errorf("another broker's folder gives %v", err)
	}
	folder, err := OpenFolder(files, testDir, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := folder.ClusterID(); got != "c1" || !ok {
		t.Errorf("cluster id is %q, %v", got, ok)
	}
	if err := folder.SetClusterID("c2"); err == nil {
		t.Error("another cluster's folder was taken")
	} else if _, ok := errors.AsType[*ClusterError](err); !ok {
		t.Errorf("another cluster's folder gives %v", err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}

	put := func(text string) {
		if err := replaceFile(files, testDir, metaName, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	put("version=2\nnode.id=1\ncluster.id=c1\n")
	_, err = OpenFolder(files, testDir, 1)
	if e, ok := errors.AsType[*FormatError](err); !ok || e.Version != 2 || e.Known != 1 {
		t.Errorf("a newer format gives %v", err)
	}
	for _, text := range []string{"", "version=1\n", "version=x\n", "version=1\nnode.id=1\n", "version=1\nnode.id=-4\ncluster.id=c\n", "nonsense\n", "version=0\nbroker.id=1\n"} {
		put(text)
		_, err = OpenFolder(files, testDir, 1)
		if _, ok := errors.AsType[*MetaError](err); !ok {
			t.Errorf("meta.properties %q gives %v", text, err)
		}
	}
}

func TestDeletedPartitionIsGoneAndItsNameIsFree(t *testing.T) {
	files := disk.NewMemory(now)
	m := mustOpen(t, files, nil)
	p := mustLead(t, m, tp("a", 0), id(1))
	for _, v := range []string{"x", "y", "z"} {
		produce(p, v)
	}
	if _, err := p.DeleteRecords(2); err != nil {
		t.Fatal(err)
	}
	if err := m.Delete(tp("a", 0)); err != nil {
		t.Fatal(err)
	}
	if err := m.Delete(tp("a", 0)); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
	if res := produce(p, "late"); !errors.Is(res.Err, partition.ErrDeleted) {
		t.Errorf("writing to a deleted partition gives %v", res.Err)
	}
	// The checkpoints of the older one must not be the younger one's.
	again := mustLead(t, m, tp("a", 0), id(2))
	produce(again, "new")
	crashed := files.Crash(disk.LoseAll)
	m = mustOpen(t, crashed, nil)
	p, ok := m.Get(tp("a", 0))
	if !ok || p.Err() != nil || p.TopicID() != id(2) || values(t, p) != "new" {
		t.Fatalf("after a crash the partition is %v", p)
	}
	entries, err := crashed.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), graveSuffix) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func TestUnfinishedDeletionIsFinishedAtStart(t *testing.T) {
	files := disk.NewMemory(now)
	m := mustOpen(t, files, nil)
	mustLead(t, m, tp("a", 0), id(1))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	grave := testDir + "/" + graveName(tp("a", 0), id(1))
	if err := files.Rename(testDir+"/a-0", grave); err != nil {
		t.Fatal(err)
	}
	m = mustOpen(t, files, nil)
	if exists(files, grave) || len(m.Partitions()) != 0 {
		t.Error("the folder is left")
	}
}

func TestLongestTopicNameCanBeDeleted(t *testing.T) {
	longest := tp(strings.Repeat("x", 249), 2147483647)
	if n := len(graveName(longest, id(9))); n > 255 {
		t.Errorf("name has %d bytes", n)
	}
	if graveName(longest, id(9)) == graveName(tp(longest.Topic, 1), id(9)) {
		t.Error("two partitions have one name")
	}
}

func TestDamagedCheckpointsAreDoneWithoutOrNamed(t *testing.T) {
	for name, expendable := range map[string]bool{recoveryPointName: true, highWatermarkName: true, logStartName: false} {
		for _, text := range []string{"", "0\n1\n", "0\n1\na 0", "\x00\x00\x00"} {
			files := disk.NewMemory(now)
			m := mustOpen(t, files, nil)
			produce(mustLead(t, m, tp("a", 0), id(1)), "v")
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			if err := replaceFile(files, testDir, name, []byte(text)); err != nil {
				t.Fatal(err)
			}
			if expendable {
				m = mustOpen(t, files, nil)
				if got := values(t, mustLead(t, m, tp("a", 0), id(1))); got != "v" {
					t.Errorf("%s as %q: the log has %q", name, text, got)
				}
				continue
			}
			_, err := open(files, nil)
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("%s as %q gives %v; want its name and what to do", name, text, err)
			}
		}
	}
}

func TestDamageStaysWithinItsPartition(t *testing.T) {
	files := disk.NewMemory(now)
	m := mustOpen(t, files, nil)
	for _, topic := range []string{"bad", "good"} {
		produce(mustLead(t, m, tp(topic, 0), id(1)), "v")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := files.Remove(testDir + "/" + cleanMarkName); err != nil {
		t.Fatal(err)
	}
	f, err := files.OpenWrite(testDir + "/bad-0/00000000000000000000.log")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(30); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	m = mustOpen(t, files, nil)
	if res := produce(mustLead(t, m, tp("good", 0), id(1)), "w"); res.Err != nil {
		t.Errorf("the other partition gives %v", res.Err)
	}
	_, err = lead(m, tp("bad", 0), id(1), partition.Settings{})
	if e, ok := errors.AsType[*storage.DamageError](err); !ok || !errors.Is(err, partition.ErrStorage) || !strings.Contains(e.File, "bad-0") {
		t.Errorf("the damaged one gives %v", err)
	}
	if err := m.checkpoints.write(); err != nil {
		t.Fatal(err)
	}
	saved, err := readOffsets(files, testDir, recoveryPointName)
	if err != nil || saved[tp("bad", 0)] != 1 {
		t.Errorf("recovery points are %v, %v", saved, err)
	}
	if err := m.Close(); !errors.Is(err, partition.ErrStorage) {
		t.Errorf("closing gives %v", err)
	}
	if exists(files, testDir+"/"+cleanMarkName) {
		t.Error("the stop counts as clean")
	}
}

func TestPartitionWhoseDiskFailedComesBack(t *testing.T) {
	faults := disk.WithFaults(disk.NewMemory(now))
	back := make(chan *partition.Partition, 1)
	m := mustOpen(t, faults, func(c *Config) { c.Recovered = func(p *partition.Partition) { back <- p } })
	p := mustLead(t, m, tp("a", 0), id(1))
	produce(p, "x")
	faults.FailSync(func(path string) bool { return strings.HasSuffix(path, ".log") })
	if res := produce(p, "y"); !errors.Is(res.Err, partition.ErrStorage) {
		t.Fatalf("got %v", res.Err)
	}
	faults.FailSync(nil)
	select {
	case got := <-back:
		if got != p {
			t.Error("another partition came back")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the partition did not come back within 10 s")
	}
	if err := p.BecomeLeader(partition.Leadership{InSync: []ident.BrokerID{1}}); err != nil {
		t.Fatal(err)
	}
	if res := produce(p, "z"); res.Err != nil || values(t, p) != "x z" {
		t.Errorf("got %v, log holds %q", res.Err, values(t, p))
	}
	if err := m.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// TestCrashesAtAnyMoment creates, fills and deletes partitions on a disk that
// crashes at any of its operations. The folder can always be opened then, and
// holds what was promised.
func TestCrashesAtAnyMoment(t *testing.T) {
	seeds := 80
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 2))
			mem := disk.NewMemory(now)
			want := make(map[ident.TopicPartition]string) // promised
			var topics byte
			for range 4 {
				faults := disk.WithFaults(mem)
				faults.CrashAt(1 + rng.IntN(150))
				m, err := open(faults, func(c *Config) { c.CheckpointInterval = time.Millisecond })
				if err == nil {
					busy(t, m, rng, want, &topics)
					_ = m.Close()
				} else if !errors.Is(err, disk.ErrCrashed) {
					t.Fatal(err)
				}
				mem = mem.Crash(rng.IntN)
				hold(t, mem, want, rng.IntN(2) == 0)
			}
		})
	}
}

// busy works until the disk is gone.
func busy(t *testing.T, m *Manager, rng *rand.Rand, want map[ident.TopicPartition]string, topics *byte) {
	t.Helper()
	for i := range 500 {
		name := tp("t", int32(rng.IntN(3)))
		p, ok := m.Get(name)
		switch {
		case !ok:
			*topics++
			if _, err := lead(m, name, id(*topics), partition.Settings{}); err != nil {
				return
			}
			want[name] = ""
		case rng.IntN(10) == 0:
			// A deletion that the crash cut short may or may not have happened.
			delete(want, name)
			if err := m.Delete(name); err != nil {
				return
			}
		default:
			if err := p.BecomeLeader(partition.Leadership{InSync: []ident.BrokerID{1}}); err != nil {
				return
			}
			v := fmt.Sprint(i)
			if res := produce(p, v); res.Err != nil {
				return
			}
			want[name] = strings.TrimSpace(want[name] + " " + v)
		}
	}
}

// hold checks that what was promised is there. Records beyond it may be there
// too; they count as promised then.
func hold(t *testing.T, files *disk.Memory, want map[ident.TopicPartition]string, clean bool) {
	t.Helper()
	m, err := open(files, nil)
	if err != nil {
		t.Fatalf("opening after a crash: %v", err)
	}
	for name, v := range want {
		p, ok := m.Get(name)
		if !ok || p.Err() != nil {
			t.Fatalf("partition %v is not there", name)
		}
		if got := values(t, p); !strings.HasPrefix(got, v) {
			t.Fatalf("partition %v holds %q, want %q", name, got, v)
		}
	}
	for _, p := range m.Partitions() {
		if p.Err() != nil {
			t.Fatalf("partition %v: %v", p.Name(), p.Err())
		}
		want[p.Name()] = values(t, p)
	}
	if clean {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	// Let go of the folder without a clean stop.
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.work.Wait()
	_ = m.closeAll()
	m.syncers.Close()
	if err := m.cfg.Folder.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRealFilesOpenFast(t *testing.T) {
	dir := t.TempDir()
	start := func() *Manager {
		folder, err := OpenFolder(disk.Real{}, dir+"/data", 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := folder.SetClusterID("c1"); err != nil {
			t.Fatal(err)
		}
		m, err := Open(Config{Folder: folder, Codecs: batch.NewCodecs(), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := start()
	for i := range int32(8) {
		p := mustLead(t, m, tp("real", i), id(1))
		if res := produce(p, fmt.Sprint(i)); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	m = start()
	took := time.Since(began)
	if len(m.Partitions()) != 8 {
		t.Errorf("%d partitions are there", len(m.Partitions()))
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	// Much longer than it takes, for machines that are busy.
	if took > time.Second {
		t.Errorf("opening 8 partitions took %v", took)
	}
	t.Logf("opening 8 partitions took %v", took)
}

func TestDefaultsAndMissingFields(t *testing.T) {
	if _, err := Open(Config{}); err == nil || !strings.Contains(err.Error(), "Config.Folder") {
		t.Errorf("an empty Config gives %v", err)
	}
	folder, err := OpenFolder(disk.NewMemory(now), testDir, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Folder: folder}); err == nil || !strings.Contains(err.Error(), "SetClusterID") {
		t.Errorf("an unmarked folder gives %v", err)
	}
}
