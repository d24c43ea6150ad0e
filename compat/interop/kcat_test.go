//go:build interop

package interop

import (
	"strings"
	"testing"
)

// kgo names codecs by their number in a batch's attributes.
var codecNumbers = map[string]uint8{"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

// librdkafka compresses only for brokers whose ApiVersions it trusts, so what
// is stored says whether our answer is right.
func TestKcatCodecsAreStoredAsSent(t *testing.T) {
	need(t, "kcat", "kcat")
	want := lines(2000)
	for codec, number := range codecNumbers {
		t.Run(codec, func(t *testing.T) {
			topic := "kcat-" + codec
			run(t, strings.Join(want, "\n")+"\n", "kcat", "-b", broker, "-P", "-t", topic, "-z", codec, "-p", "0")
			got := run(t, "", "kcat", "-b", broker, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-p", "0")
			sameLines(t, "kcat", got, want)
			for _, r := range stored(t, topic, len(want)) {
				if c := r.Attrs.CompressionType(); c != number {
					t.Fatalf("offset %d is stored with codec %d, want %d (%s)", r.Offset, c, number, codec)
				}
			}
		})
	}
}

func TestKcatConsumesInAGroup(t *testing.T) {
	need(t, "kcat", "kcat")
	want := lines(500)
	run(t, strings.Join(want, "\n")+"\n", "kcat", "-b", broker, "-P", "-t", "kcat-group", "-p", "0")
	got := run(t, "", "kcat", "-b", broker, "-G", "kcat-readers", "-X", "auto.offset.reset=earliest", "-c", "500", "-q", "kcat-group")
	sameLines(t, "the group's member", got, want)
}

func TestKcatListsTheCluster(t *testing.T) {
	need(t, "kcat", "kcat")
	run(t, "x\n", "kcat", "-b", broker, "-P", "-t", "kcat-listed")
	if out := run(t, "", "kcat", "-b", broker, "-L"); !strings.Contains(out, `topic "kcat-listed"`) || !strings.Contains(out, broker) {
		t.Errorf("the listing names neither the topic nor the broker's address %s:\n%s", broker, out)
	}
}
