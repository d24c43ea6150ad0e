package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // reads what the SQL sink wrote
)

// build makes the two executables of the demo, as `make build` does.
func build(t *testing.T) (millrace, activity string) {
	t.Helper()
	dir := t.TempDir()
	for name, source := range map[string]string{"millrace": "../../cmd/millrace", "activity": "."} {
		out, err := exec.Command("go", "build", "-o", filepath.Join(dir, name), source).CombinedOutput()
		if err != nil {
			t.Fatalf("building %s: %v\n%s", source, err, out)
		}
	}
	return filepath.Join(dir, "millrace"), filepath.Join(dir, "activity")
}

// TestDemoEndsWithTheRightNumbers runs the demo as `make demo` does, and
// compares every row of its results with the truth. The second run kills
// connectors with SIGKILL while it works.
func TestDemoEndsWithTheRightNumbers(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binaries")
	}
	millrace, activity := build(t)
	want := workOut(t, readLog(t))
	for _, kills := range []int{0, 4} {
		t.Run(fmt.Sprintf("kills=%d", kills), func(t *testing.T) {
			dir := t.TempDir()
			runDemo(t, kills, dir, millrace, "demo", "--dir", dir, "--job", activity, "--input", "access.log", "--output", "json")
			comparePages(t, filepath.Join(dir, "activity.db"), want)
			compareVisits(t, filepath.Join(dir, "activity.db"), want)
			compareLines(t, filepath.Join(dir, "json"), want)
		})
	}
}

func runDemo(t *testing.T, kills int, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	killed := make(chan int)
	go func() { killed <- killPlugins(t, dir, cmd.Process.Pid, kills, done) }()
	err := cmd.Wait()
	close(done)
	n := <-killed
	if err != nil {
		t.Fatalf("the demo failed after %d kills: %v\n%s", n, err, stderr.String())
	}
	if kills > 0 && n == 0 {
		t.Error("the demo ended before a connector could be killed")
	}
	t.Logf("%d connectors killed; %s", n, stdout.String())
}

// killPlugins kills up to n of the demo's connectors, each at a random moment
// of its work, and returns how many it has killed. It begins when all of them
// have their folders, and so are past the checks of their configuration.
func killPlugins(t *testing.T, dir string, demo, n int, done <-chan struct{}) int {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	killed := 0
	for killed < n {
		select {
		case <-done:
			return killed
		case <-time.After(time.Duration(random.IntN(60)) * time.Millisecond):
		}
		if at, _ := filepath.Glob(filepath.Join(dir, "connect", "connectors", "*")); len(at) < 3 {
			continue
		}
		if pids := plugins(demo); len(pids) > 0 && syscall.Kill(pids[random.IntN(len(pids))], syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// plugins lists the processes of connectors whose parent is the demo.
func plugins(demo int) []int {
	var pids []int
	stats, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range stats {
		line, _ := os.ReadFile(path)
		if !bytes.Contains(line, []byte("plugin\x00serve")) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if strings.Contains(string(status), fmt.Sprintf("PPid:\t%d\n", demo)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func query(t *testing.T, file, text string, scan func(*sql.Rows) error) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(text)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

func pageRow(k PageKey) string { return k.Path + " " + k.WindowStart.Format("2006-01-02T15:04") }

func visitRow(k VisitKey) string {
	return fmt.Sprintf("%s %d %d", k.Visitor, k.Start.Unix(), k.End.Unix())
}

func comparePages(t *testing.T, file string, want truth) {
	t.Helper()
	got := map[string]PageViews{}
	query(t, file, "SELECT path, window_start, views, bytes FROM page_views", func(rows *sql.Rows) error {
		var k PageKey
		var start string
		var v PageViews
		err := rows.Scan(&k.Path, &start, &v.Views, &v.Bytes)
		if err == nil {
			k.WindowStart, err = time.Parse(time.RFC3339, start)
		}
		got[pageRow(k)] = v
		return err
	})
	diff(t, "table page_views", got, want.pages)
}

func compareVisits(t *testing.T, file string, want truth) {
	t.Helper()
	got := map[string]int64{}
	query(t, file, `SELECT visitor, start, "end", hits FROM visits`, func(rows *sql.Rows) error {
		var k VisitKey
		var start, end string
		var hits int64
		err := rows.Scan(&k.Visitor, &start, &end, &hits)
		if err == nil {
			k.Start, err = time.Parse(time.RFC3339, start)
		}
		if err == nil {
			k.End, err = time.Parse(time.RFC3339, end)
		}
		got[visitRow(k)] = hits
		return err
	})
	diff(t, "table visits", got, want.visits)
}

// compareLines applies the lines of the file sink in their order: the last one
// of a key stands, and a null value deletes.
func compareLines(t *testing.T, dir string, want truth) {
	t.Helper()
	pages, visits := map[string]PageViews{}, map[string]int64{}
	eachLine(t, dir, "page-views", func(key json.RawMessage, value *PageViews) error {
		var k PageKey
		err := json.Unmarshal(key, &k)
		pages[pageRow(k)] = *value
		return err
	})
	eachLine(t, dir, "visits", func(key json.RawMessage, value *Visit) error {
		var k VisitKey
		err := json.Unmarshal(key, &k)
		if value == nil {
			delete(visits, visitRow(k))
		} else {
			visits[visitRow(k)] = value.Hits
		}
		return err
	})
	diff(t, "lines of page-views", pages, want.pages)
	diff(t, "lines of visits", visits, want.visits)
}

func eachLine[V any](t *testing.T, dir, topic string, apply func(key json.RawMessage, value *V) error) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, topic+"-*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no lines of %s in %s: %v", topic, dir, err)
	}
	slices.Sort(files)
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var line struct {
				Key   json.RawMessage `json:"key"`
				Value *V              `json:"value"`
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatalf("%s: %v in %s", file, err, lines.Text())
			}
			if err := apply(line.Key, line.Value); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		_ = f.Close()
	}
}
