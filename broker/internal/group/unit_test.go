package group

import (
	"testing"

	"github.com/millrace/millrace/broker/internal/ident"
)

func tp(topic string, partition int32) ident.TopicPartition {
	return ident.TopicPartition{Topic: topic, Partition: partition}
}

// TestPartitionOfAGroup compares with what Java's "…".hashCode() gives.
func TestPartitionOfAGroup(t *testing.T) {
	for _, c := range []struct {
		group string
		hash  int32
		of50  int32
	}{
		{"", 0, 0},
		{"a", 97, 47},
		{"abc", 96354, 4},
		{"console-consumer-12345", 158455506, 6},
		{"größe", 98762257, 7},
		{"\U0001F600", 1772899, 49},
		{"polygenelubricants", -2147483648, 0},
	} {
		if got := javaHash(c.group); got != c.hash {
			t.Errorf("javaHash(%q) = %d, want %d", c.group, got, c.hash)
		}
		if got := partitionOf(c.group, 50); got != c.of50 {
			t.Errorf("partitionOf(%q, 50) = %d, want %d", c.group, got, c.of50)
		}
	}
}
