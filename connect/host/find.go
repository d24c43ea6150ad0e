package host

import (
	"context"

	"github.com/millrace/millrace/sdk/connector"
)

// Info is what is known of a plugin without opening it.
type Info struct {
	connector.Manifest
	// Path is the executable of a third-party plugin, and empty for a bundled
	// one.
	Path string
	// Err says why the plugin cannot be used; the manifest then holds its name
	// only.
	Err error
}

type finder struct{}

func newFinder(Config) *finder { return nil }

// Plugins returns all plugins, in the order of their names.
func (h *Host) Plugins(ctx context.Context) []Info { panic("soon") }

// Plugin returns the plugin of that name. The error wraps ErrUnknownPlugin if
// there is none, and names the nearest that there is.
func (h *Host) Plugin(ctx context.Context, name string) (Info, error) { panic("soon") }

// Validate has the plugin check a connector's settings: first against its
// spec, without starting anything, and if that found nothing, by running it,
// for what only its own code can tell. It returns what is wrong. The error
// says that it could not be found out.
func (h *Host) Validate(ctx context.Context, plugin string, kind Kind, settings map[string]string) ([]connector.Problem, error) {
	panic("soon")
}

// Split has the plugin divide a connector's work among at most max tasks, and
// returns the complete settings of each.
func (h *Host) Split(ctx context.Context, plugin string, kind Kind, settings map[string]string, max int) ([]map[string]string, error) {
	panic("soon")
}
