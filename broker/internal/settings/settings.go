// Package settings holds every setting of a broker and of a topic as data.
//
// Each setting is one row of a table: its name, type, default, meaning, the
// values that are valid, and whether it may change while the broker runs. The
// same row validates what a user wrote, fills the typed [Broker] and [Topic]
// that the rest of the broker reads, and answers a DescribeConfigs request.
// Names, types and units are Apache Kafka's; settings of our own say so in
// their documentation.
//
// A setting is listed only if the broker does what it says. A name that is not
// listed is refused, and the error names the nearest known one, because a
// setting that is silently ignored is a fault that shows months later.
//
// # Where a value comes from
//
// A topic's setting is the topic's own value if it has one, else that of the
// broker settings that stand behind it (its synonyms, in order: retention.ms
// is backed by log.retention.ms, log.retention.minutes, log.retention.hours),
// else the default. [Source] names these places with Kafka's numbers.
//
// # Text and typed values
//
// On the wire, in files and in the metadata log a setting is text. Times are
// whole milliseconds there and time.Duration here; a time too long for a
// Duration (about 292 years), such as Kafka's "never" of 2^63-1 ms, becomes
// the longest Duration.
package settings

// Type is the type of a setting's value. The numbers are those of the
// DescribeConfigs response (KIP-226, version 3).
type Type int8

// The types of values.
const (
	Bool     Type = 1
	String   Type = 2
	Int      Type = 3 // 32 bits
	Short    Type = 4 // 16 bits
	Long     Type = 5 // 64 bits
	Double   Type = 6
	List     Type = 7 // comma-separated
	Class    Type = 8
	Password Type = 9
)

// Source says where a value was set. The numbers are those of the
// DescribeConfigs response.
type Source int8

// The sources of values.
const (
	FromTopic   Source = 1 // set on the topic
	FromStatic  Source = 4 // set in the broker's configuration
	FromDefault Source = 5 // set nowhere
)

// Scope is what a setting belongs to.
type Scope int8

// The scopes.
const (
	OfTopic Scope = iota + 1
	OfBroker
)

// String names the scope as it reads in a message.
func (s Scope) String() string {
	if s == OfTopic {
		return "topic"
	}
	return "broker"
}

// Definition describes one setting.
type Definition struct {
	Name  string
	Scope Scope
	Type  Type
	// Default is the value as text, when HasDefault says that there is one.
	Default    string
	HasDefault bool
	// Doc says what the setting does, with units and what the special values
	// mean.
	Doc string
	// Valid says which values are accepted, such as "at least 0"; empty when
	// the type alone decides.
	Valid string
	// Dynamic says that the setting can change while the broker runs. All
	// settings of topics are dynamic.
	Dynamic bool
	// Synonyms are the broker settings behind a setting of a topic: the first
	// that was set gives the topic its default.
	Synonyms []Synonym

	check check
}

// Synonym is a broker setting that stands behind a setting of a topic.
type Synonym struct {
	Name string
	Type Type
	// Unit is the broker setting's unit; empty: that of the topic's setting.
	Unit string
	// Scale is the number that turns the broker's unit into the topic's, such
	// as 3,600,000 from hours to milliseconds; 0: the units are the same.
	// Negative values are not scaled.
	Scale int64
}
