// Package connector is all that the author of a connector for Millrace Connect
// needs.
//
// A connector moves records between topics and some other system. A source
// reads from that system, a sink writes to it. Both are Go types of three
// methods, which a plugin, an executable of its own, offers by calling [Serve]:
//
//	func main() {
//		connector.Serve(connector.Plugin{
//			Name:      "queue",
//			Version:   "1.0.0",
//			Spec:      connector.Spec{Doc: "Reads messages of a queue.", Source: fields},
//			NewSource: func() connector.Source { return &source{} },
//		})
//	}
//
// Built as millrace-plugin-queue and put into a plugin folder of a Connect
// worker, it is there for users as connector.class "queue" (one that has both a
// source and a sink is "queue-source" and "queue-sink"). Run with the
// argument "spec" it prints what it is and which settings it has.
//
// # The life of a task
//
// A user creates a connector: a name, a class, settings. Its work is done by
// one task or several, each in a process of its own that runs your plugin. A
// task makes one [Source] or [Sink], opens it, reads or writes in a loop, and
// closes it. The methods are never called two at a time, so they need no
// locks. Processes may be killed at any moment and are then started again;
// nothing that matters may live in memory only.
//
// The context of each call ends when the task is to stop: return soon then.
//
// # Settings
//
// A plugin's [Spec] lists its settings as [Field] values: name, type, default,
// doc, whether it is required or secret, which values are valid. The host
// checks what users write against it, so that Open gets settings that fit, and
// decodes them into a struct:
//
//	type config struct {
//		URL     string        `setting:"url"`
//		Timeout time.Duration `setting:"timeout"`
//	}
//
//	func (s *source) Open(ctx context.Context, task connector.Task) error {
//		var cfg config
//		if err := task.Settings.Decode(&cfg); err != nil {
//			return err
//		}
//		...
//	}
//
// If Open finds a setting wrong that looked right, return [Problemf] with its
// name. Settings of the host's own, such as topics and converters, are not
// among yours.
//
// # Records
//
// A [Record] has an envelope and a [Value]. The value, and the key likewise, is
// one of: null, bytes, text, a [Row] of typed cells with a [Schema], or a
// [Document] of JSON. Sources produce whichever is closest to what they read:
//
//	connector.TextValue("a line")               // text; bytes that are not UTF-8 pass, too
//	connector.RowValue(row)                     // row, err := schema.Row(connector.Int(1), connector.Null)
//	connector.DocumentValue(doc)                // doc, err := connector.ParseDocument(json)
//
// Converters, which the user chooses, turn values into the bytes of a topic
// and back. So a sink gets documents from a topic of JSON, text or bytes from
// others: look at [Value.Kind]. A null value is a tombstone: it asks for the
// deletion of what the key names. All values are exact, numbers included; see
// [Decimal] and [Micros].
//
// # Sources resume by positions
//
// Each record of a source has an [Origin]: the source partition, which is any
// part with an order of its own (a file, a table), and a position, a text that
// says where to go on behind this record. The host stores positions once the
// records are safe in their topic, and hands the latest for each source
// partition to Open as Task.Resume. That is all there is to it: keep nothing
// else, and never lose a record by moving on before it was returned.
//
// # Sinks say when records are durable
//
// Write returns nil when all records of the batch are durable where they went;
// only then are their offsets committed. Records can come again after a crash,
// in order, with the same topic, partition and offset. Make writing them twice
// harmless if you can: upsert by key, or remember offsets.
//
// # Errors
//
//   - [Retry] asks for the same call again later: a server that is away.
//   - [RecordErrors] names the records of a batch that a sink cannot write
//     because of what they hold. All others must have been written. Users
//     choose whether bad ones go to a dead-letter topic or stop the task.
//   - io.EOF from Read ends a source for good.
//   - Any other error fails the task until a user restarts it.
//
// A panic ends the process, which is started again, and again, and failed in
// the end if it never gets anywhere.
//
// # Optional interfaces
//
// Implement these on your source or sink for more: [Validator] checks settings
// against the real system, [Splitter] divides the work among tasks, [Acker]
// hears which records are stored, [Flusher] makes a sink durable in larger
// steps, [Progresser] shows users how far a source is.
//
// # Logging
//
// Use Task.Log; lines arrive in the worker's log under the connector's name.
// What is printed to standard output or error arrives there as well, but
// nothing may be printed to standard output before Serve is called. Secret
// settings are hidden in what a plugin logs and in its errors.
//
// # Testing
//
// In a test, call the methods yourself: make a [Task] with [NewSettings], and a
// [Batch] with new. Then let package connectortest run what every connector
// must pass, in the test's process and as a real one that it kills.
//
// The example of this package is a complete plugin. How hosts and plugins
// talk, for plugins in other languages, is in docs/format/connector-protocol.md.
package connector
