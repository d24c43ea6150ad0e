package lint

import (
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestImportsGoOneWay(t *testing.T) {
	for _, v := range Check(listPackages(t), Table, Banned) {
		t.Error(v)
	}
}

// TestForbiddenImportIsFound is the test of the test: each case adds one
// import that must not be, and the table has to find it and say why.
func TestForbiddenImportIsFound(t *testing.T) {
	cases := []struct {
		name, path, imp string
		test            bool
		why             string
	}{
		{"broker uses streams", "broker", Module + "/streams", false, "embedded in any program"},
		{"leaf uses its user", "broker/internal/ident", Module + "/broker/internal/wire", false, "leaf"},
		{"pure machine does I/O", "broker/internal/replica", Module + "/broker/internal/disk", false, "pure"},
		{"broker uses a client", "broker/internal/api", "github.com/twmb/franz-go/pkg/kgo", false, "client of itself"},
		{"streams use the broker", "streams", Module + "/broker", false, "any Kafka cluster"},
		{"plugin uses connect", "plugins/file", Module + "/connect", false, "SDK alone"},
		{"command uses an internal package", "cmd/millrace/internal/cli", Module + "/broker/internal/logs", false, "public packages"},
		{"someone imports an example", "connect", Module + "/examples/activity", false, "any Kafka cluster"},
		{"arrow leaks out", "sdk/connector", "github.com/apache/arrow/go/v15/arrow", false, "one package's change"},
		{"testing in a program", "streams", "testing", false, "test support"},
		{"a test reaches across", "streams/state", Module + "/connect", true, "not topologies"},
		{"a package without a row", "misc", "fmt", false, "no row"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := Package{Path: c.path}
			if c.test {
				p.TestImports = []string{c.imp}
			} else {
				p.Imports = []string{c.imp}
			}
			found := Check([]Package{p}, Table, Banned)
			if len(found) != 1 {
				t.Fatalf("found %d violations, want 1: %v", len(found), found)
			}
			if !strings.Contains(found[0].String(), c.why) {
				t.Errorf("the message %q does not say %q", found[0], c.why)
			}
		})
	}
}

func TestAllowedImportsPass(t *testing.T) {
	ok := []Package{
		{Path: "broker", Imports: []string{"fmt", Module + "/broker/internal/api"}},
		{Path: "plugins/file", Imports: []string{Module + "/sdk/connector"}},
		{Path: "streams", TestImports: []string{Module + "/broker/brokertest", "testing"}},
	}
	if found := Check(ok, Table, Banned); len(found) != 0 {
		t.Errorf("found violations in allowed imports: %v", found)
	}
}

func listPackages(t *testing.T) []Package {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", Module+"/...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	var packages []Package
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("reading go list: %v", err)
		}
		packages = append(packages, Package{
			Path:        strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, Module), "/"),
			Imports:     p.Imports,
			TestImports: append(p.TestImports, p.XTestImports...),
		})
	}
	if len(packages) < 10 {
		t.Fatalf("go list named only %d packages: the check would say nothing", len(packages))
	}
	return packages
}
