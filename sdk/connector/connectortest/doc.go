// Package connectortest holds what every connector must pass.
//
// A connector's tests describe how to make something to read or to write to,
// and the suite does the rest: it runs the connector in the test's process,
// and again as a real one that it kills, as a Connect worker would have it.
//
//	func TestMain(m *testing.M) { connectortest.Main(m, plugin()) }
//
//	func TestSource(t *testing.T) {
//		connectortest.TestSource(t, connectortest.Source{
//			Plugin: plugin(),
//			Setup: func(t *testing.T, records int) map[string]string {
//				path := filepath.Join(t.TempDir(), "in")
//				writeLines(t, path, records)
//				return map[string]string{"path": path}
//			},
//		})
//	}
//
// What the suite cannot know, such as what a record should look like, is for
// the connector's own tests.
package connectortest
