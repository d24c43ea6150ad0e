package config

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/sdk/connector"
)

// A connector's own setting must not take the name of one that the runtime
// reads: the SDK refuses such a plugin when it is served.
func TestPluginsCannotTakeCommonSettings(t *testing.T) {
	for _, kind := range []Kind{Source, Sink} {
		for _, common := range Fields(kind, nil) {
			p := connector.Plugin{Name: "p", Version: "1", NewSource: func() connector.Source { return nil },
				Spec: connector.Spec{Doc: "d", Source: []connector.Field{{Name: common.Name, Type: connector.String, Doc: "d"}}}}
			if err := p.Check(); err == nil || !strings.Contains(err.Error(), common.Name) {
				t.Errorf("a plugin with a setting %s of its own is accepted: %v", common.Name, err)
			}
		}
	}
}
