package file

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/sdk/connector"
	"github.com/millrace/millrace/sdk/connector/connectortest"
)

func TestMain(m *testing.M) { connectortest.Main(m, Plugin()) }

func TestSourceIsAGoodConnector(t *testing.T) {
	for _, follow := range []bool{false, true} {
		t.Run(fmt.Sprintf("follow %v", follow), func(t *testing.T) {
			connectortest.TestSource(t, connectortest.Source{
				Plugin: Plugin(),
				Setup: func(t *testing.T, records int) map[string]string {
					path := filepath.Join(t.TempDir(), "in.log")
					var lines strings.Builder
					for i := range records {
						fmt.Fprintf(&lines, "line %d\n", i)
					}
					write(t, path, lines.String())
					return map[string]string{"paths": path, "follow": strconv.FormatBool(follow), "poll.interval": "10ms"}
				},
				Endless: follow,
				WrongSettings: []connectortest.WrongSettings{
					{Setting: "paths", Settings: map[string]string{"paths": ""}},
					{Setting: "paths", Settings: map[string]string{"paths": "["}},
					{Setting: "follow", Settings: map[string]string{"follow": "perhaps"}},
					{Setting: "poll.interval", Settings: map[string]string{"poll.interval": "0.1"}},
				},
			})
		})
	}
}

func TestSinkIsAGoodConnector(t *testing.T) {
	connectortest.TestSink(t, connectortest.Sink{
		Plugin: Plugin(),
		Setup: func(t *testing.T) map[string]string {
			return map[string]string{"path": t.TempDir(), "rotate.bytes": "4KiB"}
		},
		Record: func(i int) connector.Record {
			return connector.Record{Key: connector.TextValue("k"), Value: connector.TextValue(strconv.Itoa(i))}
		},
		BadRecord:  func() connector.Record { return connector.Record{Value: connector.TextValue("\xff")} },
		Written:    writtenNumbers,
		Idempotent: true,
		WrongSettings: []connectortest.WrongSettings{
			{Setting: "path", Settings: map[string]string{"path": ""}},
			{Setting: "format", Settings: map[string]string{"format": "xml"}},
		},
	})
}

// writtenNumbers returns the numbers in all files of the folder.
func writtenNumbers(t *testing.T, settings map[string]string) []int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(settings["path"], "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var numbers []int
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var record struct {
				Value string `json:"value"`
			}
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatalf("%s holds the line %q: %v", path, line, err)
			}
			n, err := strconv.Atoi(record.Value)
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, n)
		}
	}
	return numbers
}
