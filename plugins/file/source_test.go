package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/sdk/connector"
)

// sourceRun is a source under test, with what it has produced.
type sourceRun struct {
	t         testing.TB
	source    *source
	settings  map[string]string
	positions map[string]string // as a host keeps them
	lines     []string
	keys      []string
}

func newSourceRun(t testing.TB, paths string, settings ...string) *sourceRun {
	r := &sourceRun{t: t, positions: make(map[string]string),
		settings: map[string]string{"paths": paths, "poll.interval": "10ms"}}
	for i := 0; i < len(settings); i += 2 {
		r.settings[settings[i]] = settings[i+1]
	}
	return r
}

// open opens the source, resuming where the last run left off.
func (r *sourceRun) open() error {
	settings, err := connector.NewSettings(sourceFields(), r.settings)
	if err != nil {
		r.t.Fatal(err)
	}
	r.source = newSource()
	return r.source.Open(context.Background(), connector.Task{
		Connector: "test", Settings: settings, Resume: r.positions, Log: slog.New(slog.NewTextHandler(r.t.Output(), nil))})
}

func (r *sourceRun) mustOpen() *sourceRun {
	r.t.Helper()
	if err := r.open(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = r.source.Close(context.Background()) })
	return r
}

func (r *sourceRun) close() {
	r.t.Helper()
	if err := r.source.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// read reads once, for at most a while.
func (r *sourceRun) read(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var b connector.Batch
	err := r.source.Read(ctx, &b)
	if err != nil && err != io.EOF {
		return err
	}
	for _, rec := range b.Rows() {
		r.lines = append(r.lines, strings.Clone(rec.Value.Text()))
		r.keys = append(r.keys, rec.Key.Text())
		r.positions[rec.Origin.Partition] = rec.Origin.Position
	}
	return err
}

// readTo reads until the lines produced are those wanted, and no more come.
func (r *sourceRun) readTo(want ...string) {
	r.t.Helper()
	for len(r.lines) < len(want) {
		if err := r.read(5 * time.Second); err != nil {
			r.t.Fatalf("reading: %v; so far: %q", err, r.lines)
		}
	}
	if err := r.read(60 * time.Millisecond); err == nil {
		r.t.Errorf("more came than was wanted")
	} else if !errors.Is(err, context.DeadlineExceeded) {
		r.t.Fatal(err)
	}
	r.requireLines(want...)
}

// readToEnd reads until io.EOF.
func (r *sourceRun) readToEnd() {
	r.t.Helper()
	for {
		err := r.read(5 * time.Second)
		if err == io.EOF {
			return
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *sourceRun) requireLines(want ...string) {
	r.t.Helper()
	if !slices.Equal(r.lines, want) {
		r.t.Fatalf("lines are\n%q, want\n%q", r.lines, want)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func rename(t testing.TB, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreReadToTheirEnd(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.log"), "one\ntwo\r\n\nlast without line end")
	write(t, filepath.Join(dir, "b.log"), "caf\xe9 \xff\x00\n")
	write(t, filepath.Join(dir, "empty.log"), "")
	write(t, filepath.Join(dir, "other.txt"), "not this\n")
	r := newSourceRun(t, filepath.Join(dir, "*.log"), "follow", "false").mustOpen()
	r.readToEnd()
	slices.Sort(r.lines)
	r.requireLines("", "caf\xe9 \xff\x00", "last without line end", "one", "two")
	if want := filepath.Join(dir, "a.log") + ":4"; !slices.Contains(r.keys, want) {
		t.Errorf("no record has the key %q; they are %q", want, r.keys)
	}
	if p := r.source.Progress(); p.Done != p.Total || p.Done == 0 || p.Unit != "bytes" {
		t.Errorf("progress is %+v", p)
	}
	r.close()
	r.mustOpen().readToEnd() // again: nothing more
	if len(r.lines) != 5 {
		t.Errorf("%d lines after reading again", len(r.lines))
	}
}

func TestNothingToReadWithoutFollowIsAMistake(t *testing.T) {
	r := newSourceRun(t, filepath.Join(t.TempDir(), "*.log"), "follow", "false")
	if err := r.open(); len(connector.Problems(err)) != 1 || !strings.Contains(err.Error(), "paths: no file matches") {
		t.Errorf("error is %v", err)
	}
	r = newSourceRun(t, t.TempDir())
	if err := r.open(); len(connector.Problems(err)) != 1 || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("error is %v", err)
	}
}

func TestHalfLinesWaitForTheirRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	write(t, path, "one\ntw")
	r := newSourceRun(t, path).mustOpen()
	r.readTo("one")
	appendTo(t, path, "o\nthr")
	r.readTo("one", "two")
	r.close()
	appendTo(t, path, "ee\n")
	r.mustOpen().readTo("one", "two", "three")
}

func TestFilesThatAppearLaterAreRead(t *testing.T) {
	dir := t.TempDir()
	r := newSourceRun(t, filepath.Join(dir, "sub", "*.log")).mustOpen()
	r.readTo()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sub", "a.log"), "")
	r.readTo()
	appendTo(t, filepath.Join(dir, "sub", "a.log"), "one\n")
	r.readTo("one")
	write(t, filepath.Join(dir, "sub", "b.log"), "two\n")
	r.readTo("one", "two")
}

func TestRotationByRename(t *testing.T) {
	for _, pattern := range []string{"a.log", "a.log*"} {
		t.Run(pattern, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "a.log")
			write(t, path, "one\n")
			r := newSourceRun(t, filepath.Join(dir, pattern)).mustOpen()
			r.readTo("one")
			appendTo(t, path, "two\n")
			rename(t, path, path+".1")
			write(t, path, "three\n")
			appendTo(t, path+".1", "late\n") // by a program that has it open still
			for len(r.lines) < 4 {
				if err := r.read(5 * time.Second); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(r.lines[1:])
			r.readTo("one", "late", "three", "two")
			rename(t, path+".1", path+".2")
			rename(t, path, path+".1")
			write(t, path, "four\n")
			r.readTo("one", "late", "three", "two", "four")
			r.close()
			r.mustOpen().readTo("one", "late", "three", "two", "four")
		})
	}
}

func TestRotationByRenameWhileStopped(t *testing.T) {
	for _, pattern := range []string{"a.log", "a.log*"} {
		for _, follow := range []string{"true", "false"} {
			t.Run(pattern+" follow "+follow, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "a.log")
				write(t, path, "one\n")
				r := newSourceRun(t, filepath.Join(dir, pattern)).mustOpen()
				r.readTo("one")
				r.close()
				appendTo(t, path, "two\n")
				rename(t, path, path+".1")
				write(t, path, "three\n")
				r.settings["follow"] = follow
				r.mustOpen()
				if follow == "false" {
					r.readToEnd()
					r.requireLines("one", "two", "three")
				} else {
					r.readTo("one", "two", "three")
				}
			})
		}
	}
}

func TestFileCutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	write(t, path, "one\ntwo\n")
	r := newSourceRun(t, path).mustOpen()
	r.readTo("one", "two")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	r.readTo("one", "two")
	appendTo(t, path, "three\n")
	r.readTo("one", "two", "three")
	r.close()

	// While stopped, and grown beyond where it was.
	write(t, path, "four\nfive\nsix\nseven\n")
	r.mustOpen().readTo("one", "two", "three", "four", "five", "six", "seven")
	r.close()

	// While stopped, with the same first line.
	write(t, path, "four\nand so on, quite differently than it was before\n")
	r.mustOpen().readTo("one", "two", "three", "four", "five", "six", "seven", "four", "and so on, quite differently than it was before")
}

// A file is cut short and grows beyond the old position between two looks.
func TestFileWrittenAnewBetweenTwoLooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	write(t, path, "same first line\nold\n")
	r := newSourceRun(t, path).mustOpen()
	r.readTo("same first line", "old")
	write(t, path, "same first line\nnew\nnewer\n")
	r.readTo("same first line", "old", "same first line", "new", "newer")
}

func TestReplacedWhileStopped(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	write(t, path, "one\n")
	r := newSourceRun(t, path).mustOpen()
	r.readTo("one")
	r.close()
	write(t, path+".new", "other\nfile\n")
	rename(t, path+".new", path) // another inode
	r.mustOpen().readTo("one", "other", "file")
}

func TestCopyOfAFileThatWasCutShortIsGoneOnWith(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("line %d of a file of some length", i))
	}
	write(t, path, strings.Join(want, "\n")+"\n")
	r := newSourceRun(t, filepath.Join(dir, "a.log*")).mustOpen()
	r.readTo(want...)
	r.close()
	appendTo(t, path, "unread\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path+".1", string(text)) // copytruncate
	write(t, path, "fresh\n")
	r.mustOpen()
	for len(r.lines) < 102 {
		if err := r.read(5 * time.Second); err != nil {
			t.Fatalf("%v; lines: %d", err, len(r.lines))
		}
	}
	slices.Sort(r.lines[100:])
	r.readTo(append(want, "fresh", "unread")...)
}

func TestLongLinesAreCutAndKeyed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	long := strings.Repeat("x", 700_000)
	write(t, path, "short\n"+long+"\nshort again\n"+strings.Repeat("y", 25))
	r := newSourceRun(t, path, "follow", "false", "max.line.bytes", "300000").mustOpen()
	r.readToEnd()
	r.requireLines("short", long[:300_000], long[:300_000], long[:100_000], "short again", strings.Repeat("y", 25))
	if want := path + ":300006"; r.keys[2] != want {
		t.Errorf("the second piece's key is %q, want %q", r.keys[2], want)
	}
	// Longer than a chunk, but allowed.
	r = newSourceRun(t, path, "follow", "false").mustOpen()
	r.readToEnd()
	r.requireLines("short", long, "short again", strings.Repeat("y", 25))
}

func TestManyLinesInManyBatches(t *testing.T) {
	dir := t.TempDir()
	var want []string
	var text bytes.Buffer
	for i := range 60_000 {
		line := fmt.Sprintf("%d %s", i, strings.Repeat("z", i%90))
		want = append(want, line)
		text.WriteString(line + "\n")
	}
	path := filepath.Join(dir, "a.log")
	write(t, path, text.String())
	r := newSourceRun(t, path, "follow", "false").mustOpen()
	// Stop and resume in between, at whatever place.
	for range 3 {
		if err := r.read(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		r.close()
		r.mustOpen()
	}
	r.readToEnd()
	r.requireLines(want...)
}

func TestPositionsOfOthersAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.log"), "one\n")
	r := newSourceRun(t, filepath.Join(dir, "a.log"), "follow", "false")
	r.positions["/elsewhere/b.log#1f.3.00000001"] = `{"offset":3,"tail":"1"}`
	r.mustOpen().readToEnd()
	r.requireLines("one")

	r.positions["nonsense"] = "{}"
	if err := r.open(); err == nil || !strings.Contains(err.Error(), "not one of the file connector") {
		t.Errorf("error is %v", err)
	}
}

func TestPathsThatAreNotUTF8(t *testing.T) {
	path := filepath.Join(t.TempDir(), "100%caf\xe9.log")
	if err := os.WriteFile(path, []byte("one\n"), 0o600); err != nil {
		t.Skipf("this file system does not have such names: %v", err)
	}
	r := newSourceRun(t, filepath.Dir(path)+"/*.log").mustOpen()
	r.readTo("one")
	r.close()
	appendTo(t, path, "two\n")
	r.mustOpen().readTo("one", "two")
}

func TestSplitDealsOutPaths(t *testing.T) {
	settings, err := connector.NewSettings(sourceFields(), map[string]string{"paths": "a, b ,c"})
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := newSource().Split(context.Background(), settings, 2)
	if err != nil || len(tasks) != 2 || tasks[0]["paths"] != "a,c" || tasks[1]["paths"] != "b" {
		t.Errorf("tasks are %v, %v", tasks, err)
	}
}

func FuzzParsePlace(f *testing.F) {
	p := place{path: "/var/log/a%\xff#b", inode: 0xabc, headLen: 12, headSum: 0xfeed}
	f.Add(p.partition(), string(appendPosition(nil, 77, 0xbeef)))
	f.Add("#", "{}")
	f.Add("x#1.2.3", `{"offset":-1}`)
	f.Fuzz(func(t *testing.T, partition, position string) {
		p, err := parsePlace(partition, position)
		if err != nil {
			return
		}
		again, err := parsePlace(p.partition(), string(appendPosition(nil, p.offset, p.tailSum)))
		again.filename = p.filename
		if err != nil || again != p {
			t.Errorf("%q %q became %+v, then %+v, %v", partition, position, p, again, err)
		}
	})
}
