package settings

import "fmt"

// UnknownError says that there is no setting of that name.
type UnknownError struct {
	Scope Scope
	Name  string
	// Nearest is the known setting whose name is most alike; empty if none is.
	Nearest string
}

// Error names the setting and the one that was probably meant.
func (e *UnknownError) Error() string {
	if e.Nearest == "" {
		return fmt.Sprintf("unknown %s setting %q", e.Scope, e.Name)
	}
	return fmt.Sprintf("unknown %s setting %q; did you mean %q?", e.Scope, e.Name, e.Nearest)
}

// InvalidError says that a setting cannot have that value.
type InvalidError struct {
	Scope  Scope
	Name   string
	Value  string
	Reason string // what is expected, such as "must be at least 0"
}

// Error names the setting, its value and what is expected.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s setting %s has invalid value %q: %s", e.Scope, e.Name, e.Value, e.Reason)
}
