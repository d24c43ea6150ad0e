package cluster

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// The internal topics, which the broker makes and writes by itself.
const (
	// OffsetsTopic holds the consumer groups and their offsets.
	OffsetsTopic = "__consumer_offsets"
)

// metadataTopic is the name under which Kafka's tools know the metadata log. It
// is no topic here, and none may be made that would be taken for it.
const metadataTopic = "__cluster_metadata"

// IsInternal reports whether a topic of that name is one of the broker's own.
func IsInternal(name string) bool { return name == OffsetsTopic }

// MaxTopicName is the longest name of a topic in bytes: a partition's folder
// is named "<topic>-<partition>", and may have further endings while it is
// deleted, within the 255 bytes of common file systems.
const MaxTopicName = 249

// CheckTopicName refuses, with INVALID_TOPIC_EXCEPTION, what Kafka refuses as
// the name of a topic.
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return refuse(kerr.InvalidTopicException, "Topic name is invalid: it must not be empty.")
	case name == "." || name == "..":
		return refuse(kerr.InvalidTopicException, "Topic name is invalid: it must not be '.' or '..'.")
	case len(name) > MaxTopicName:
		return refuse(kerr.InvalidTopicException, "Topic name is invalid: it has %d characters, %d are allowed.", len(name), MaxTopicName)
	}
	for i := range len(name) {
		c := name[i]
		legal := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !legal {
			return refuse(kerr.InvalidTopicException,
				"Topic name is invalid: %q has a character other than ASCII letters, digits, '.', '_' and '-'.", name)
		}
	}
	return nil
}

// mayCollide reports whether another name could look the same in a metric:
// metrics' names have '_' for '.'.
func mayCollide(name string) bool { return strings.ContainsAny(name, "._") }

// collisionName is the same for names that collide.
func collisionName(name string) string { return strings.ReplaceAll(name, ".", "_") }
