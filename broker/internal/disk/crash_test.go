package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/disk"
)

func TestCrashLosesWhatWasNotSynced(t *testing.T) {
	m := disk.NewMemory(time.Now)
	f := openWrite(t, m, "/f")
	f.WriteAt([]byte("safe"), 0)
	f.Sync()
	m.SyncDir("/")
	f.WriteAt([]byte("lost"), 4)
	write(t, m, "/unlisted", "x")

	after := m.Crash(disk.LoseAll)
	want(t, after, "/f", "safe")
	want(t, after, "/unlisted", "<missing>")
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, disk.ErrCrashed) {
		t.Errorf("writing after the crash: %v", err)
	}
	if _, err := m.Open("/f"); !errors.Is(err, disk.ErrCrashed) {
		t.Errorf("opening after the crash: %v", err)
	}
}

func TestKilledProcessLosesNothing(t *testing.T) {
	m := disk.NewMemory(time.Now)
	m.MkdirAll("/d")
	write(t, m, "/d/f", "written")
	want(t, m.Crash(disk.KeepAll), "/d/f", "written")
}

func TestFolderChangesAreDurableAfterSyncDir(t *testing.T) {
	m := disk.NewMemory(time.Now)
	m.MkdirAll("/d")
	m.SyncDir("/")
	synced := func(path, text string) {
		f := openWrite(t, m, path)
		f.WriteAt([]byte(text), 0)
		f.Sync()
		f.Close()
	}
	synced("/d/a", "a")
	synced("/d/b", "b")
	m.SyncDir("/d")
	m.Rename("/d/a", "/d/b")
	m = m.Crash(disk.LoseAll)
	want(t, m, "/d/a", "a")
	want(t, m, "/d/b", "b")

	m.Rename("/d/a", "/d/b")
	m.SyncDir("/d")
	m = m.Crash(disk.LoseAll)
	want(t, m, "/d/a", "<missing>")
	want(t, m, "/d/b", "a")

	m.Remove("/d/b")
	m = m.Crash(disk.LoseAll)
	want(t, m, "/d/b", "a")
}

// TestCrashTearsAndReorders looks at many crashes of one history. Every
// outcome must be possible for a disk, and the interesting ones must occur.
func TestCrashTearsAndReorders(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(3000) {
		m := disk.NewMemory(time.Now)
		f := openWrite(t, m, "/f")
		f.WriteAt(bytes.Repeat([]byte("o"), 1024), 0)
		f.Sync()
		m.SyncDir("/")
		f.WriteAt(bytes.Repeat([]byte("n"), 1024), 512)
		f.WriteAt(bytes.Repeat([]byte("m"), 512), 1536)
		got := content(m.Crash(rand.New(rand.NewPCG(seed, 1)).IntN), "/f")
		if len(got) < 1024 || len(got) > 2048 {
			t.Fatalf("seed %d: size %d", seed, len(got))
		}
		if got[:512] != strings.Repeat("o", 512) {
			t.Fatalf("seed %d: synced bytes changed: %q", seed, got[:512])
		}
		var shape strings.Builder
		for i := 512; i+512 <= len(got); i += 512 {
			sector := got[i : i+512]
			if strings.Count(sector, sector[:1]) != 512 {
				t.Fatalf("seed %d: sector at %d is mixed", seed, i)
			}
			fmt.Fprintf(&shape, "%q", sector[0])
		}
		seen[shape.String()] = true
	}
	for _, shape := range []string{`'o'`, `'n'`, `'n''n''m'`, `'o''n'`, `'o''n''m'`, `'n''\x00''m'`} {
		if !seen[shape] {
			t.Errorf("never saw sectors %s", shape)
		}
	}
}

func TestTruncationMayComeBackOrLeaveZeros(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		m := disk.NewMemory(time.Now)
		f := openWrite(t, m, "/f")
		f.WriteAt(bytes.Repeat([]byte("o"), 1024), 0)
		f.Sync()
		m.SyncDir("/")
		f.Truncate(512)
		f.WriteAt(bytes.Repeat([]byte("n"), 512), 512)
		got := content(m.Crash(rand.New(rand.NewPCG(seed, 2)).IntN), "/f")
		seen[fmt.Sprintf("%q", got[len(got)-1])] = true
	}
	if !seen[`'o'`] || !seen[`'n'`] || !seen[`'\x00'`] {
		t.Errorf("saw only %v", seen)
	}
}

func TestEqualSeedsGiveEqualDisks(t *testing.T) {
	run := func() string {
		m := disk.NewMemory(time.Now)
		for i := range 20 {
			write(t, m, fmt.Sprintf("/f%d", i), strings.Repeat("x", 700))
		}
		m.SyncDir("/")
		after := m.Crash(rand.New(rand.NewPCG(7, 7)).IntN)
		infos, err := after.ReadDir("/")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, i := range infos {
			fmt.Fprintf(&b, "%s=%q\n", i.Name(), content(after, "/"+i.Name()))
		}
		return b.String()
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs differ:\n%s\n%s", a, b)
	}
}

func TestFaultsFailOnDemand(t *testing.T) {
	m := disk.NewMemory(time.Now)
	f := disk.WithFaults(m)
	file := openWrite(t, f, "/f")

	f.SetSpace(6)
	if n, err := file.WriteAt([]byte("hello"), 0); n != 5 || err != nil {
		t.Errorf("within the space: %d, %v", n, err)
	}
	if n, err := file.WriteAt([]byte("world"), 5); n != 1 || !errors.Is(err, disk.ErrNoSpace) {
		t.Errorf("beyond the space: %d, %v; want 1 and ErrNoSpace", n, err)
	}
	f.SetSpace(-1)
	if _, err := file.WriteAt([]byte("world"), 5); err != nil {
		t.Errorf("with room again: %v", err)
	}

	f.FailSync(func(path string) bool { return path == "/f" })
	if err := file.Sync(); !errors.Is(err, disk.ErrSyncFailed) {
		t.Errorf("sync: %v", err)
	}
	f.FailSync(nil)

	f.CrashAt(2)
	if err := f.SyncDir("/"); err != nil {
		t.Errorf("the change before the crash: %v", err)
	}
	if _, err := file.WriteAt([]byte("!"), 10); !errors.Is(err, disk.ErrCrashed) {
		t.Errorf("the change that crashes: %v", err)
	}
	if _, err := file.ReadAt(make([]byte, 1), 0); !errors.Is(err, disk.ErrCrashed) {
		t.Errorf("after the crash: %v", err)
	}
	want(t, m.Crash(disk.KeepAll), "/f", "helloworld!")
}

func TestSyncCostsWhatWasWritten(t *testing.T) {
	m := disk.NewMemory(time.Now)
	f := openWrite(t, m, "/f")
	f.Truncate(1 << 26)
	f.Sync()
	one := []byte("x")
	// Copying the whole file each time would move 640 GB.
	for i := range int64(10_000) {
		f.WriteAt(one, i)
		f.Sync()
	}
	if got := testing.AllocsPerRun(10, func() { f.WriteAt(one, 5); f.Sync() }); got > 2 {
		t.Errorf("%v allocations for a write and a sync", got)
	}
}
