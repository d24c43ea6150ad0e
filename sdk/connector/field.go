package connector

// Field describes one setting of a connector.
type Field struct {
	// Name is what users write: lower-case words joined by dots, such as
	// "rotate.bytes".
	Name string
	// Type says which texts are valid and into which Go types the setting
	// decodes.
	Type FieldType
	// Default is what the setting is when the user does not give it, written
	// as the user would. Empty means the type's zero value.
	Default string
	// Doc explains the setting to users: what it does, its unit, what zero
	// means.
	Doc string
	// Required settings must be given and not be empty.
	Required bool
	// Secret settings are never shown: not in a reply, log, status or error.
	Secret bool
	// Valid lists the allowed values, if there are only some. For a list,
	// each item must be one of them.
	Valid []string
	// Min and Max bound a number, size or duration (in nanoseconds), ends
	// included, unless both are 0.
	Min, Max int64
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

// Check checks settings against a list of fields and returns what is wrong,
// in the order of the fields, then of the unknown settings' names; nil means
// nothing. Values of secret settings are not quoted.
//
// Hosts call it before anything starts, and Serve calls it again before
// Validate, Split and Open: authors need not.
func Check(fields []Field, settings map[string]string) []Problem { return check(fields, settings) }

// Settings are the values of a connector's settings, with the fields that
// describe them.
type Settings struct {
	fields []Field
	values map[string]string
}

// NewSettings checks values against fields and fills in the defaults. The
// error joins all [Problem]s. Serve makes the settings of real tasks; this is
// for tests that call Open themselves.
func NewSettings(fields []Field, values map[string]string) (Settings, error) {
	return newSettings(fields, values)
}

// Get returns a setting as text, its default if it was not given, and "" if
// there is no such setting.
func (s Settings) Get(name string) string { return s.get(name) }

// Decode sets the fields of the struct that dst points to:
//
//	type config struct {
//		Path    string        `setting:"path"`
//		Timeout time.Duration `setting:"timeout"`
//		Columns []string      `setting:"columns"`
//	}
//
// Struct fields without the tag are left alone, but embedded structs are
// looked into. It fails if a setting's text does not fit, and it panics if the
// struct does not fit the spec, which is a mistake in the program.
func (s Settings) Decode(dst any) error { return s.decode(dst) }

// String lists the settings for logs, with secrets hidden.
func (s Settings) String() string { return s.describe() }
