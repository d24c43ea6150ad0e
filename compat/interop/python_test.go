//go:build interop

package interop

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestConfluentKafkaForPython(t *testing.T) {
	python := filepath.Join(built("interop"), "py", "bin", "python")
	need(t, python, "confluent-kafka for Python")
	out := run(t, "", python, "roundtrip.py", broker)
	if strings.TrimSpace(out) != "ok" {
		t.Errorf("roundtrip.py said:\n%s", out)
	}
}
