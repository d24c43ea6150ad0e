package cluster

// The internal topics, which the broker makes and writes by itself.
const (
	// OffsetsTopic holds the consumer groups and their offsets.
	OffsetsTopic = "__consumer_offsets"
)

// IsInternal reports whether a topic of that name is one of the broker's own.
func IsInternal(name string) bool { return name == OffsetsTopic }
