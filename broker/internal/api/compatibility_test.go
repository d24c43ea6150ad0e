package api

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var update = flag.Bool("update", false, "write docs/compatibility.md anew")

// TestCompatibilityPageIsCurrent holds the part of docs/compatibility.md that
// says which APIs are served, at which versions, to the table that serves them.
// With -update it writes that part.
func TestCompatibilityPageIsCurrent(t *testing.T) {
	const begin, end = "<!-- begin generated -->\n", "<!-- end generated -->\n"
	path := filepath.Join("..", "..", "..", "docs", "compatibility.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := bytes.Cut(page, []byte(begin))
	old, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", path, begin, end)
	}
	want := compatibilityTable()
	if *update {
		page := strings.Join([]string{string(head), begin, want, end, string(tail)}, "")
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(old) != want {
		t.Errorf("%s is not current: go test ./broker/internal/api -run Compatibility -update", path)
	}
}

func compatibilityTable() string {
	served := map[int16]row{}
	for _, r := range table() {
		served[r.key] = r
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n%d of the %d APIs that the protocol library knows are served.\n\n", len(served), kmsg.MaxKey+1)
	fmt.Fprintln(&out, "| key | API | versions served | newest known |\n|---:|---|---|---:|")
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		request := kmsg.RequestForKey(key)
		if request == nil {
			continue
		}
		versions := "none"
		if r, ok := served[key]; ok {
			versions = fmt.Sprintf("%d to %d", r.min, r.max)
		}
		fmt.Fprintf(&out, "| %d | %s | %s | %d |\n", key, kmsg.NameForKey(key), versions, request.MaxVersion())
	}
	fmt.Fprintln(&out)
	return out.String()
}
