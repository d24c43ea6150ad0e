package disk_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/broker/internal/disk"
)

// TestConformance runs the same expectations against every file system, so
// that what is tested in memory holds on real files.
func TestConformance(t *testing.T) {
	systems := map[string]func(t *testing.T) (disk.FS, string){
		"real":   func(t *testing.T) (disk.FS, string) { return disk.Real{}, t.TempDir() },
		"memory": func(*testing.T) (disk.FS, string) { return disk.NewMemory(time.Now), "/" },
		"faults": func(*testing.T) (disk.FS, string) { return disk.WithFaults(disk.NewMemory(time.Now)), "/" },
	}
	for system, open := range systems {
		for name, test := range conformance {
			t.Run(system+"/"+name, func(t *testing.T) {
				fsys, dir := open(t)
				if err := fsys.MkdirAll(dir); err != nil {
					t.Fatal(err)
				}
				test(t, fsys, dir)
			})
		}
	}
}

var conformance = map[string]func(t *testing.T, fsys disk.FS, dir string){
	"opening what is missing":              testMissing,
	"a new file is empty":                  testNewFile,
	"reads end with io.EOF":                testReadAt,
	"writing beyond the end leaves zeros":  testHole,
	"truncating cuts and extends":          testTruncate,
	"a file opened for reading is not cut": testReadOnly,
	"a folder lists its entries in order":  testReadDir,
	"rename replaces":                      testRename,
	"rename moves a folder":                testRenameDir,
	"an open file outlives its name":       testRemoveOpen,
	"remove refuses a full folder":         testRemove,
	"remove all removes all":               testRemoveAll,
	"one holder of a lock":                 testLock,
	"sync and reserve":                     testSync,
	"writers of disjoint ranges":           testConcurrent,
}

func write(t *testing.T, fsys disk.FS, path, text string) {
	t.Helper()
	f := openWrite(t, fsys, path)
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func openWrite(t *testing.T, fsys disk.FS, path string) disk.File {
	t.Helper()
	f, err := fsys.OpenWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// content returns what a file holds, or its error in angle brackets.
func content(fsys disk.FS, path string) string {
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "<missing>"
	}
	if err != nil {
		return fmt.Sprintf("<%v>", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Sprintf("<%v>", err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return fmt.Sprintf("<%v>", err)
	}
	return string(b)
}

func want(t *testing.T, fsys disk.FS, path, text string) {
	t.Helper()
	if got := content(fsys, path); got != text {
		t.Errorf("%s holds %q, want %q", path, got, text)
	}
}

func testMissing(t *testing.T, fsys disk.FS, dir string) {
	checks := map[string]error{}
	_, checks["open"] = fsys.Open(dir + "/no")
	_, checks["open in missing folder"] = fsys.OpenWrite(dir + "/no/file")
	_, checks["readdir"] = fsys.ReadDir(dir + "/no")
	_, checks["stat"] = fsys.Stat(dir + "/no")
	checks["rename"] = fsys.Rename(dir+"/no", dir+"/other")
	checks["remove"] = fsys.Remove(dir + "/no")
	for op, err := range checks {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want ErrNotExist", op, err)
		}
	}
	if err := fsys.RemoveAll(dir + "/no/deeper"); err != nil {
		t.Errorf("removing all of nothing: %v", err)
	}
}

func testNewFile(t *testing.T, fsys disk.FS, dir string) {
	f := openWrite(t, fsys, dir+"/f")
	defer f.Close()
	if size, err := f.Size(); size != 0 || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
	write(t, fsys, dir+"/g", "kept")
	openWrite(t, fsys, dir+"/g").Close()
	want(t, fsys, dir+"/g", "kept")
}

func testReadAt(t *testing.T, fsys disk.FS, dir string) {
	write(t, fsys, dir+"/f", "hello")
	f, err := fsys.Open(dir + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 4)
	if n, err := f.ReadAt(b, 1); n != 4 || string(b) != "ello" || (err != nil && err != io.EOF) {
		t.Errorf("ReadAt = %d, %v, %q", n, err, b)
	}
	if n, err := f.ReadAt(b, 3); n != 2 || err != io.EOF {
		t.Errorf("ReadAt across the end = %d, %v; want 2, EOF", n, err)
	}
	if n, err := f.ReadAt(b, 9); n != 0 || err != io.EOF {
		t.Errorf("ReadAt beyond the end = %d, %v; want 0, EOF", n, err)
	}
}

func testHole(t *testing.T, fsys disk.FS, dir string) {
	f := openWrite(t, fsys, dir+"/f")
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 3); err != nil {
		t.Fatal(err)
	}
	want(t, fsys, dir+"/f", "\x00\x00\x00x")
}

func testTruncate(t *testing.T, fsys disk.FS, dir string) {
	write(t, fsys, dir+"/f", "hello")
	f := openWrite(t, fsys, dir+"/f")
	defer f.Close()
	for _, size := range []int64{2, 4} {
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
	}
	want(t, fsys, dir+"/f", "he\x00\x00")
}

func testReadOnly(t *testing.T, fsys disk.FS, dir string) {
	write(t, fsys, dir+"/f", "hello")
	f, err := fsys.Open(dir + "/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("j"), 0); err == nil {
		t.Error("a write passed")
	}
	if err := f.Truncate(0); err == nil {
		t.Error("a truncation passed")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("reading after Close: %v, want ErrClosed", err)
	}
	want(t, fsys, dir+"/f", "hello")
}

func testReadDir(t *testing.T, fsys disk.FS, dir string) {
	write(t, fsys, dir+"/b", "22")
	write(t, fsys, dir+"/c", "333")
	if err := fsys.MkdirAll(dir + "/a/deep"); err != nil {
		t.Fatal(err)
	}
	infos, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, i := range infos {
		if i.IsDir() {
			got += i.Name() + "/ "
		} else {
			got += fmt.Sprintf("%s:%d ", i.Name(), i.Size())
		}
	}
	if got != "a/ b:2 c:3 " {
		t.Errorf("listed %q", got)
	}
	info, err := fsys.Stat(dir + "/c")
	if err != nil || info.Size() != 3 || info.ModTime().IsZero() {
		t.Errorf("stat: %v, %v", info, err)
	}
}

func testRename(t *testing.T, fsys disk.FS, dir string) {
	write(t, fsys, dir+"/new", "new")
	write(t, fsys, dir+"/old", "old")
	if err := fsys.Rename(dir+"/new", dir+"/old"); err != nil {
		t.Fatal(err)
	}
	want(t, fsys, dir+"/old", "new")
	want(t, fsys, dir+"/new", "<missing>")
}

func testRenameDir(t *testing.T, fsys disk.FS, dir string) {
	if err := fsys.MkdirAll(dir + "/a"); err != nil {
		t.Fatal(err)
	}
	write(t, fsys, dir+"/a/f", "moved")
	if err := fsys.Rename(dir+"/a", dir+"/b"); err != nil {
		t.Fatal(err)
	}
	want(t, fsys, dir+"/b/f", "moved")
	want(t, fsys, dir+"/a/f", "<missing>")
}

func testRemoveOpen(t *testing.T, fsys disk.FS, dir string) {
	write(t, fsys, dir+"/f", "hello")
	f, err := fsys.Open(dir + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := fsys.Remove(dir + "/f"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := f.ReadAt(b, 0); (err != nil && err != io.EOF) || string(b) != "hello" {
		t.Errorf("read %q, %v", b, err)
	}
}

func testRemove(t *testing.T, fsys disk.FS, dir string) {
	if err := fsys.MkdirAll(dir + "/a"); err != nil {
		t.Fatal(err)
	}
	write(t, fsys, dir+"/a/f", "")
	if err := fsys.Remove(dir + "/a"); err == nil {
		t.Error("a full folder was removed")
	}
	for _, p := range []string{"/a/f", "/a"} {
		if err := fsys.Remove(dir + p); err != nil {
			t.Error(err)
		}
	}
}

func testRemoveAll(t *testing.T, fsys disk.FS, dir string) {
	if err := fsys.MkdirAll(dir + "/a/b"); err != nil {
		t.Fatal(err)
	}
	write(t, fsys, dir+"/a/f", "1")
	write(t, fsys, dir+"/a/b/g", "2")
	if err := fsys.RemoveAll(dir + "/a"); err != nil {
		t.Fatal(err)
	}
	want(t, fsys, dir+"/a/b/g", "<missing>")
	if infos, err := fsys.ReadDir(dir); len(infos) != 0 || err != nil {
		t.Errorf("left over: %v, %v", infos, err)
	}
}

func testLock(t *testing.T, fsys disk.FS, dir string) {
	l, err := fsys.Lock(dir + "/.lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.Lock(dir + "/.lock"); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("second lock: %v, want ErrLocked", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = fsys.Lock(dir + "/.lock")
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	l.Close()
}

func testSync(t *testing.T, fsys disk.FS, dir string) {
	f := openWrite(t, fsys, dir+"/f")
	defer f.Close()
	if err := f.Reserve(1 << 20); err != nil {
		t.Errorf("reserve: %v", err)
	}
	if size, err := f.Size(); size != 0 || err != nil {
		t.Errorf("size after reserve: %d, %v", size, err)
	}
	if err := f.Sync(); err != nil {
		t.Errorf("sync: %v", err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		t.Errorf("sync folder: %v", err)
	}
}

func testConcurrent(t *testing.T, fsys disk.FS, dir string) {
	f := openWrite(t, fsys, dir+"/f")
	defer f.Close()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				at := int64(j*8 + i)
				if _, err := f.WriteAt([]byte{byte('a' + i)}, at); err != nil {
					t.Error(err)
				}
				f.ReadAt(make([]byte, 1), at)
			}
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := content(fsys, dir+"/f"); len(got) != 160 || got[:9] != "abcdefgha" {
		t.Errorf("got %q", got)
	}
}
