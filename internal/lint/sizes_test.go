package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oversized lists what was over the limits when it was written and has not
// been taken apart yet, with its size. It only shrinks: an entry may not grow,
// and one that fits again is removed.
var oversized = map[string]int{}

func TestSourceFitsAScreen(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "build" || d.Name() == "internal_tmp" || (strings.HasPrefix(d.Name(), ".") && path != root) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		excesses, err := Oversize(filepath.ToSlash(name), source, Limits)
		for _, e := range excesses {
			seen[e.Place] = true
			if e.Lines > oversized[e.Place] {
				t.Errorf("%v: take it apart", e)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for place := range oversized {
		if !seen[place] {
			t.Errorf("%s fits the limits again: remove its exception", place)
		}
	}
}

func TestOversizeNamesThePlace(t *testing.T) {
	src := "package p\n\nfunc (x *T[K]) Long() {\n" + strings.Repeat("\t_ = 0\n", 5) + "}\n"
	got, err := Oversize("p/p.go", []byte(src), Sizes{FunctionLines: 4, FileLines: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Place != "p/p.go:T.Long" || got[0].Lines != 7 {
		t.Errorf("got %v, want one excess of 7 lines at p/p.go:T.Long", got)
	}
}
