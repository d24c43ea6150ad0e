//go:build unix

package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// beWorker is a worker process that the test kills: it runs a source and a
// sink, in the given folder.
func beWorker(dir string) {
	h, err := New(Config{Bundled: testPlugins(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	source, err := h.OpenSource(TaskConfig{Plugin: "counter", Connector: "worked", StateDir: dir, Settings: map[string]string{"pause": "1ms"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	sink, err := h.OpenSink(TaskConfig{Plugin: "counter", Connector: "worked", StateDir: dir, Settings: map[string]string{"path": filepath.Join(dir, "out")}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		b, err := source.Read(context.Background())
		if err == nil {
			err = sink.Write(context.Background(), b)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func pluginPIDs(t testing.TB, dir string) []int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isAlive reports whether a process runs; one that waits to be reaped by
// whoever adopted it does not.
func isAlive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return os.IsNotExist(err) && !pathExists("/proc/self/stat") // no /proc here: believe the signal
	}
	for i := len(stat) - 1; i > 0; i-- {
		if stat[i] == ')' {
			return stat[i+2] != 'Z'
		}
	}
	return true
}

func TestPluginsEndWithinTwoSecondsOfTheirWorkersDeath(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for run := range 20 {
		t.Run(strconv.Itoa(run), func(t *testing.T) {
			dir, pidDir := t.TempDir(), t.TempDir()
			worker := exec.Command(self, "be-worker", dir)
			worker.Env = append(os.Environ(), "HOST_TEST_PIDS="+pidDir)
			worker.Stderr = t.Output()
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			// From the first sign of a plugin on, at a different moment each
			// time: starting, shaking hands, opening, at work.
			eventually(t, "a plugin", func() bool { return len(pluginPIDs(t, pidDir)) > 0 })
			time.Sleep(time.Duration(run) * 10 * time.Millisecond)
			if err := worker.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = worker.Wait()
			killed := time.Now()
			for {
				pids := pluginPIDs(t, pidDir) // one may have been just about to write its file
				alive := 0
				for _, pid := range pids {
					if isAlive(pid) {
						alive++
					}
				}
				took := time.Since(killed)
				if alive == 0 && took > 100*time.Millisecond {
					t.Logf("%d plugins were gone after %v", len(pids), took.Round(time.Millisecond))
					return
				}
				if took > 2*time.Second {
					t.Fatalf("%d of %d plugins live %v after their worker was killed", alive, len(pids), took)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}
