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
//			WrongSettings: []connectortest.WrongSettings{
//				{Setting: "path", Settings: map[string]string{"path": "/nowhere"}},
//			},
//		})
//	}
//
// TestMain is not optional: the suite starts the test's executable again, as
// the connector's process, and [Main] is what makes a connector of it.
//
// A source passes if it reads all there is, each record with a position of its
// own; goes on behind any record that it is resumed behind, with exactly what
// came after it; ends with io.EOF, or waits and stops within seconds when its
// context ends; and loses and invents nothing when it is killed. A sink passes
// if what it said is durable is there, before Close and after being killed;
// records that come again do no harm (or none that it does not own up to, see
// Sink.Idempotent); and bad records are named while all others are written.
// Both must accept the settings that Setup returns, refuse wrong ones by the
// setting's name, and keep secrets out of logs and errors.
//
// What the suite cannot know, such as what a record should look like, is for
// the connector's own tests.
package connectortest
