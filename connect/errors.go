package connect

import (
	"errors"
	"strings"

	"github.com/millrace/millrace/sdk/connector"
)

var (
	// ErrNotFound says that there is no connector or task of that name.
	ErrNotFound = errors.New("not found")
	// ErrExists says that there is a connector of that name already.
	ErrExists = errors.New("already exists")
	// ErrStopping says that the worker is about to end.
	ErrStopping = errors.New("the worker is stopping")
)

// ConfigError lists all that is wrong with a connector's configuration.
type ConfigError struct {
	Connector string
	Problems  []connector.Problem
}

// Error names every problem, a line each.
func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return "connector " + e.Connector + " is not configured right:\n  " + strings.Join(lines, "\n  ")
}
