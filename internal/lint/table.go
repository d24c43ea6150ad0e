package lint

// testsMay lists what any test may import besides what its package may.
var testsMay = []string{"broker/brokertest", "broker/internal/disk", "broker/internal/ident", "streams/streamstest", "sdk/connector/connectortest"}

const (
	leaf      = "it is a leaf: everything else builds on it, so it knows nothing of the module"
	pure      = "it is a pure machine or codec: what does I/O hosts it, never the other way round"
	authors   = "programs of others import it, and they must not drag the broker or the runtime along"
	onlyKafka = "streams and connectors run against any Kafka cluster, so they know a broker by its protocol alone"
)

// Table is the direction of imports, top to bottom: the binary knows the
// parts, the parts know the SDK, and the broker's parts know those below them.
var Table = []Rule{
	{"internal/lint", nil, leaf},

	// The broker, from its leaves up.
	{"broker/internal/ident", nil, leaf},
	{"broker/internal/disk", nil, leaf},
	{"broker/internal/settings", nil, leaf},
	{"broker/internal/wire", []string{"broker/internal/ident"}, "framing knows nothing of what frames mean"},
	{"broker/internal/batch", []string{"broker/internal/ident"}, pure},
	{"broker/internal/record", []string{"broker/internal/ident"}, pure},
	{"broker/internal/storage", []string{"broker/internal/ident", "broker/internal/batch", "broker/internal/disk", "broker/internal/record"},
		"a log stores batches and does not know who leads, follows or asks"},
	{"broker/internal/producer", []string{"broker/internal/ident", "broker/internal/batch", "broker/internal/record"}, pure},
	{"broker/internal/replica", []string{"broker/internal/ident"}, pure},
	{"broker/internal/partition", []string{"broker/internal/ident", "broker/internal/batch", "broker/internal/disk", "broker/internal/record",
		"broker/internal/storage", "broker/internal/replica", "broker/internal/producer"}, "a partition does not know the cluster or the protocol"},
	{"broker/internal/logs", []string{"broker/internal/ident", "broker/internal/batch", "broker/internal/disk", "broker/internal/storage",
		"broker/internal/producer", "broker/internal/partition"}, "the log manager knows partitions and folders, not topics' metadata"},
	{"broker/internal/cluster", []string{"broker/internal/ident", "broker/internal/settings", "broker/internal/disk"},
		"metadata is decided without the logs, so that it can be replayed without them"},
	{"broker/internal/coord", []string{"broker/internal/ident", "broker/internal/batch", "broker/internal/record", "broker/internal/storage", "broker/internal/partition"},
		"the coordinator runtime knows partitions, not the protocol"},
	{"broker/internal/group", []string{"broker/internal/ident", "broker/internal/record", "broker/internal/coord", "broker/internal/batch"},
		"a coordinator is a state machine over the runtime"},
	{"broker/internal/api", []string{"broker/internal/ident", "broker/internal/batch", "broker/internal/disk", "broker/internal/wire", "broker/internal/record",
		"broker/internal/settings", "broker/internal/storage", "broker/internal/producer", "broker/internal/replica", "broker/internal/partition",
		"broker/internal/logs", "broker/internal/cluster", "broker/internal/coord", "broker/internal/group"},
		"handlers call the domain; connections call handlers through a func value"},
	{"broker/internal/server", []string{"broker/internal/ident", "broker/internal/wire"}, "connections do not know what requests mean"},
	{"broker/brokertest", []string{"broker", "broker/internal/..."}, "it embeds a broker in tests and knows nothing above it"},
	{"broker", []string{"broker/internal/..."}, "the broker is assembled from its own parts only, so that it can be embedded in any program"},

	// What programs of others import.
	{"sdk/serde", nil, authors},
	{"sdk/connector/protocol", nil, authors},
	{"sdk/connector/connectortest", []string{"sdk/connector", "connect/host"}, "it runs the connector as a worker would, which only the real host does; it is linked into tests alone"},
	{"sdk/connector", []string{"sdk/connector/protocol"}, authors},

	// Streams.
	{"streams/window", nil, pure},
	{"streams/state", []string{"sdk/serde", "streams/window"}, "stores know keys and windows, not topologies"},
	{"streams/internal/assign", nil, pure},
	{"streams/internal/topology", []string{"sdk/serde", "streams/window", "streams/state"}, "the graph is data: what runs it comes above"},
	{"streams/internal/task", []string{"sdk/serde", "streams/window", "streams/state", "streams/internal/topology"}, "a task does no I/O of its own"},
	{"streams/internal/worker", []string{"sdk/serde", "streams/window", "streams/state", "streams/internal/topology", "streams/internal/task", "streams/internal/assign"}, onlyKafka},
	{"streams/streamstest", []string{"sdk/serde", "streams", "streams/..."}, onlyKafka},
	{"streams", []string{"sdk/serde", "streams/window", "streams/state", "streams/internal/..."}, onlyKafka},

	// Connect and its bundled connectors.
	{"connect/host", []string{"sdk/connector", "sdk/connector/protocol"}, "it runs plugin processes for whoever asks"},
	{"connect/config", []string{"sdk/..."}, onlyKafka},
	{"connect/convert", []string{"sdk/..."}, onlyKafka},
	{"connect/rest", []string{"sdk/...", "connect", "connect/config"}, onlyKafka},
	{"connect/...", []string{"sdk/...", "connect/..."}, onlyKafka},
	{"plugins/...", []string{"sdk/...", "plugins/..."}, "a bundled connector is written as anyone would write one: against the SDK alone"},

	{"compat/...", nil, "interop tests see the broker from outside, as its clients do"},

	// Programs.
	{"cmd/...", []string{"broker", "connect/...", "streams/...", "plugins/...", "sdk/...", "cmd/..."}, "the binary uses the public packages, as other programs do"},
	{"examples/...", []string{"broker", "broker/brokertest", "connect/...", "streams/...", "plugins/...", "sdk/...", "examples/..."}, "examples show the public packages"},
	{"bench/...", []string{"broker", "broker/brokertest", "connect/...", "streams/...", "plugins/...", "sdk/...", "bench/..."}, "benchmarks use the public packages"},
}

// Banned keeps libraries where they belong.
var Banned = []Ban{
	{"github.com/twmb/franz-go/pkg/kgo", []string{"broker/brokertest", "streams/...", "connect/...", "sdk/client/...", "sdk/watermill/...", "cmd/...", "examples/...", "bench/..."},
		"the broker must not depend on a client of itself"},
	{"github.com/twmb/franz-go/pkg/kadm", []string{"broker/brokertest", "streams/internal/worker", "connect/...", "sdk/client/...", "cmd/...", "examples/...", "bench/..."},
		"the broker must not depend on a client of itself"},
	{"github.com/hashicorp/go-plugin", []string{"sdk/connector", "sdk/connector/protocol", "connect/host"}, "only the two ends of the plugin boundary know how it is crossed"},
	{"github.com/apache/arrow", []string{"sdk/connector/protocol"}, "rows cross the plugin boundary as Arrow; moving to its successor path must stay one package's change"},
	{"google.golang.org/grpc", []string{"sdk/connector", "sdk/connector/protocol", "connect/host"}, "only the two ends of the plugin boundary know how it is crossed"},
	{"github.com/hashicorp/raft", []string{"broker/internal/cluster"}, "consensus serves metadata only, never records"},
	{"github.com/cockroachdb/pebble", []string{"broker/internal/cluster", "streams/state"}, "records live in the log; Pebble serves metadata and state stores"},
	{"github.com/spf13/cobra", []string{"cmd/millrace/..."}, "only the command line knows its library"},
	{"testing", []string{"broker/brokertest", "streams/streamstest", "sdk/connector/connectortest"}, "test support must not be linked into programs"},
	{"C", nil, "the binary cross-compiles: no cgo"},
}
