//go:build interop

package interop

import (
	"path/filepath"
	"strings"
	"testing"
)

// javaTool runs a class of Apache Kafka's own command-line tools.
func javaTool(t *testing.T, input, class string, args ...string) string {
	t.Helper()
	need(t, "java", "a JDK")
	jars := filepath.Join(built("interop"), "java")
	if found, _ := filepath.Glob(filepath.Join(jars, "kafka-tools-*.jar")); len(found) == 0 {
		need(t, filepath.Join(jars, "kafka-tools.jar"), "Kafka's Java tools")
	}
	java := []string{"-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", filepath.Join(jars, "*"), class}
	return run(t, input, "java", append(java, args...)...)
}

func TestJavaConsoleProducerAndConsumer(t *testing.T) {
	want := lines(1000)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := "java-" + codec
			javaTool(t, strings.Join(want, "\n")+"\n", "org.apache.kafka.tools.ConsoleProducer",
				"--bootstrap-server", broker, "--topic", topic, "--compression-codec", codec)
			got := javaTool(t, "", "org.apache.kafka.tools.consumer.ConsoleConsumer",
				"--bootstrap-server", broker, "--topic", topic, "--from-beginning", "--max-messages", "1000", "--timeout-ms", "30000")
			sameLines(t, "the console consumer", got, want)
			for _, r := range stored(t, topic, len(want)) {
				if c := r.Attrs.CompressionType(); c != codecNumbers[codec] {
					t.Fatalf("offset %d is stored with codec %d, want %s", r.Offset, c, codec)
				}
			}
		})
	}
}

func TestJavaConsumerResumesItsGroup(t *testing.T) {
	want := lines(100)
	javaTool(t, strings.Join(want, "\n")+"\n", "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", broker, "--topic", "java-group")
	read := func(n string) string {
		return javaTool(t, "", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", broker, "--topic", "java-group",
			"--group", "java-readers", "--max-messages", n, "--timeout-ms", "30000",
			"--command-property", "auto.offset.reset=earliest")
	}
	sameLines(t, "the first member", read("40"), want[:40])
	sameLines(t, "the member after it", read("60"), want[40:])
}
