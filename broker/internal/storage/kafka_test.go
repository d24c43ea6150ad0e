//go:build interop

package storage

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/disk"
)

// TestKafkaDumpToolFindsNoFault has Apache Kafka's own tool check segments and
// indexes of a log that was rolled, truncated, cut by recovery and retained.
func TestKafkaDumpToolFindsNoFault(t *testing.T) {
	jars, err := filepath.Abs("../../../build/interop/java")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(jars); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("Kafka's jars are missing; make interop gets them")
		}
		t.Skip("Kafka's jars are missing; make interop gets them")
	}
	w := newWorld(t, disk.Real{}, func(c *Config) {
		c.Dir = filepath.Join(t.TempDir(), "topic-0")
		c.Settings.SegmentBytes, c.Settings.IndexInterval = 60_000, 500
		c.Settings.Delete, c.Settings.RetentionBytes = true, 130_000
	})
	w.open()
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 1500 {
		times := make([]int64, 1+rng.IntN(5))
		for j := range times {
			times[j] = int64(i*100 + rng.IntN(5000))
		}
		if _, err := w.log.AppendAsLeader(w.records(batch.Codec(i%5), "a value", times...), 0); err != nil {
			t.Fatal(err)
		}
		if i%400 == 399 {
			if err := w.log.TruncateTail(w.log.End() - 100); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.flush()
	if _, err := w.log.ApplyRetention(w.now, w.log.End()); err != nil {
		t.Fatal(err)
	}
	active := last(w.log.segments).logPath()
	w.close()
	damageFile(t, w.fs, active, func(b []byte) []byte { return b[:len(b)-7] })
	if r := w.open(); r.CutBytes == 0 {
		t.Fatal("nothing was cut")
	}
	w.fill(10)
	w.close()

	var files []string
	for _, pattern := range []string{"*.log", "*.index", "*.timeindex"} {
		found, err := filepath.Glob(filepath.Join(w.cfg.Dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	list := strings.Join(files, ",")
	// Every segment but one at offset 0 has "-1 is followed by" its base.
	fault := regexp.MustCompile(`(?i)mismatch|out of order|not found|exception|corrupt|isvalid: false|^ *[0-9]+ is followed by`)
	for _, mode := range []string{"--deep-iteration", "--index-sanity-check"} {
		java := exec.Command("java", "-Xmx256m", "-cp", filepath.Join(jars, "*"), "org.apache.kafka.tools.DumpLogSegments", mode, "--files", list)
		out, err := java.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			if fault.MatchString(line) {
				t.Errorf("%s: %s", mode, line)
			}
		}
		if mode == "--index-sanity-check" && strings.Count(string(out), "passed sanity check") < len(files)/3*2 {
			t.Errorf("not all indexes passed:\n%s", out)
		}
	}
}
