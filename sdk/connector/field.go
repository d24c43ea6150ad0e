package connector

// Field describes one setting of a connector.
type Field struct {
	// Name is what users write: lower-case words and digits, joined by dots,
	// dashes or underscores, such as "rotate.bytes".
	//
	// The runtime's own settings are in the same map, so these names are not
	// to be had: name, topic, topics, and those that are or begin with
	// connector., tasks., key.converter, value.converter, header.converter,
	// topics., topic.creation., errors., transforms, predicates,
	// producer.override. and consumer.override.
	Name string `json:"name"`
	// Type says which texts are valid and into which Go types the setting
	// decodes.
	Type FieldType `json:"type"`
	// Default is what the setting is when the user does not give it, written
	// as the user would. Empty means the type's zero value.
	Default string `json:"default,omitempty"`
	// Doc explains the setting to users: what it does, its unit, what zero
	// means.
	Doc string `json:"doc"`
	// Required settings must be given and not be empty.
	Required bool `json:"required,omitempty"`
	// Secret settings are never shown: not in a reply, log, status or error.
	// Values shorter than 4 bytes are hidden in logs and errors only where
	// they stand alone, as words would be unreadable otherwise.
	Secret bool `json:"secret,omitempty"`
	// Valid lists the allowed values, if there are only some. For a list,
	// each item must be one of them.
	Valid []string `json:"valid,omitempty"`
	// Min and Max bound an integer, number, size or duration (in
	// nanoseconds), ends included. Both 0 mean no bounds; a Min above 0 with
	// a Max of 0 means no upper bound.
	Min int64 `json:"min,omitempty"`
	Max int64 `json:"max,omitempty"`
	// Check, if not nil, looks at a text that passed all other checks and
	// says what is wrong with it. It is called where the plugin runs, and
	// before Open. It must not quote a secret.
	Check func(text string) error `json:"-"`
}

// FieldType is the type of a setting.
type FieldType string

const (
	// String is any text. It decodes into string and types based on it, or
	// into anything that has UnmarshalText.
	String FieldType = "string"
	// Integer is a whole number that int64 holds; it decodes into the integer
	// types.
	Integer FieldType = "integer"
	// Number decodes into the float types.
	Number FieldType = "number"
	// Boolean is true or false; it decodes into bool.
	Boolean FieldType = "boolean"
	// Duration is a text such as "1m30s", or a whole number of milliseconds;
	// it decodes into time.Duration.
	Duration FieldType = "duration"
	// Size is a count of bytes, such as "1048576", "1MiB" or "10MB"; it
	// decodes into the integer types.
	Size FieldType = "size"
	// List is texts separated by commas, spaces around them ignored; it
	// decodes into []string. Empty text is an empty list.
	List FieldType = "list"
	// Map is all settings whose names begin with the field's name and a dot,
	// such as options.a and options.b for a field "options"; it decodes into
	// map[string]string, keyed by the rest of the name.
	Map FieldType = "map"
)
