package cli

import (
	"context"

	"github.com/millrace/millrace/plugins/file"
	"github.com/millrace/millrace/plugins/sql"
	"github.com/millrace/millrace/sdk/connector"
)

// bundled lists the connectors that are in this binary. Each runs as a process
// of its own all the same: `millrace plugin serve NAME`.
func bundled() []connector.Plugin {
	return []connector.Plugin{file.Plugin(), sql.Plugin()}
}

func bundledNames(context.Context) ([]string, error) {
	var names []string
	for _, p := range bundled() {
		names = append(names, p.Name)
	}
	return names, nil
}
