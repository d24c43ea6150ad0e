// Package connector is all that the author of a connector for Millrace Connect
// needs.
//
// A connector moves records between topics and some other system. A source
// reads from that system, a sink writes to it. Both are Go types of three
// methods, which a plugin, an executable of its own, offers by calling [Serve].
// A package that makes the [Plugin], so that tests can have it, and a main of
// one line are all that there is to it:
//
//	func main() { connector.Serve(queue.Plugin()) }
//
//	func Plugin() connector.Plugin {
//		return connector.Plugin{
//			Name:    "queue",
//			Version: "1.0.0",
//			Spec: connector.Spec{
//				Doc: "Reads messages of a queue.",
//				Source: []connector.Field{
//					{Name: "url", Type: connector.String, Required: true, Doc: "the queue's address"},
//					{Name: "poll.interval", Type: connector.Duration, Default: "1s", Min: int64(time.Millisecond),
//						Doc: "the pause before looking for more"},
//				},
//			},
//			NewSource: func() connector.Source { return &source{} },
//		}
//	}
//
// Built as millrace-plugin-queue and put into a plugin folder of a Connect
// worker (--plugin-dir), it is there for users, who create a connector of it by
// a configuration with connector.class=queue (of a plugin that has both a
// source and a sink, queue-source or queue-sink). Run with the argument "spec"
// it prints what it is and which settings it has.
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
// decodes them into a struct.
//
// If Open finds a setting wrong that looked right, return [Problemf] with its
// name. What can be found out without opening, such as that a server answers,
// belongs in Validate of a [Validator] as well: users then hear it when they
// create the connector. Settings of the host's own, such as topics and
// converters, are not among yours; [Field] lists the names that it keeps.
//
// # A source
//
//	type source struct {
//		cfg struct {
//			URL  string        `setting:"url"`
//			Poll time.Duration `setting:"poll.interval"`
//		}
//		last int64 // the id of the last message that was read
//	}
//
//	func (s *source) Open(ctx context.Context, task connector.Task) error {
//		if err := task.Settings.Decode(&s.cfg); err != nil {
//			return err
//		}
//		if position, ok := task.Resume["messages"]; ok {
//			var err error
//			if s.last, err = strconv.ParseInt(position, 10, 64); err != nil {
//				return fmt.Errorf("resuming behind %q: %w", position, err)
//			}
//		}
//		return nil
//	}
//
//	func (s *source) Read(ctx context.Context, out *connector.Batch) error {
//		for {
//			messages, err := s.fetch(ctx, s.last) // those with a higher id, in order
//			if err != nil {
//				return connector.Retry(err, 0) // the server is away
//			}
//			for _, m := range messages {
//				s.last = m.ID
//				out.Append(connector.NewRecord(
//					connector.Origin{Partition: "messages", Position: strconv.FormatInt(m.ID, 10)},
//					connector.TextValue(m.User),      // the key
//					connector.DocumentValue(m.Body))) // the value
//				if out.Full() {
//					return nil
//				}
//			}
//			if len(messages) > 0 {
//				return nil
//			}
//			select {
//			case <-time.After(s.cfg.Poll):
//			case <-ctx.Done():
//				return ctx.Err()
//			}
//		}
//	}
//
//	func (s *source) Close(context.Context) error { return nil }
//
// Each record has an [Origin]: the source partition, which is any part with an
// order of its own (a file, a table), and a position, a text that says where
// to go on behind this record. The host stores positions once the records are
// safe in their topic, and hands the latest for each source partition to Open
// as Task.Resume. That is all there is to it: keep nothing else, and never
// lose a record by moving on before it was returned.
//
// Name source partitions by something that stays: a new name is a new
// partition, which begins at its beginning, and the old one's position is kept
// for nothing. Let later versions of your connector read the positions of
// earlier ones. What a [Progresser] shows should follow from the position as
// well, or it begins at 0 after each restart.
//
// The key decides which partition of the topic a record goes to, and records
// of one partition stay in order: choose what has to stay in order, or what
// names the thing that the record is about, such as the primary key of a row.
// A null key spreads records evenly. Make records with [NewRecord]; the
// Partition of a [Record] literal would be 0, which means partition 0.
//
// # A sink
//
//	func (s *sink) Write(ctx context.Context, in *connector.Batch) error {
//		bad := connector.RecordErrors{}
//		for i, r := range in.Rows() {
//			if r.Value.Kind() != connector.KindDocument {
//				bad[i] = fmt.Errorf("the value is %s; JSON is needed", r.Value.Kind())
//				continue
//			}
//			id := fmt.Sprintf("%s-%d-%d", r.Topic, r.Partition, r.Offset) // the same when it comes again
//			if err := s.put(ctx, id, r.Value.Document()); err != nil {
//				return connector.Retry(err, 0) // the whole batch comes again
//			}
//		}
//		if len(bad) > 0 {
//			return bad
//		}
//		return nil
//	}
//
// Write returns nil when all records of the batch are durable where they went;
// only then are their offsets committed. Records can come again after a crash,
// in order, with the same topic, partition and offset. Make writing them twice
// harmless if you can: upsert by key, or remember offsets.
//
// # Records
//
// A [Record] has an envelope and a [Value]. The value, and the key likewise, is
// one of: null, bytes, text, a [Row] of typed cells with a [Schema], or a
// [Document] of JSON. Sources produce whichever is closest to what they read:
//
//	connector.TextValue("a line")               // text; bytes that are not UTF-8 pass, too
//	connector.RowValue(row)                     // row, err := schema.Row(connector.Int(1), connector.Null)
//	connector.DocumentValue(doc)                // doc, err := connector.NewDocument(v), or ParseDocument(json)
//
// Converters, which the user chooses, turn values and keys into the bytes of a
// topic and back. With json, the default, a sink gets documents (a text key is
// then the document "a", in its quotes, which [Document.Decode] takes off), with
// string it gets text, with bytes it gets bytes: look at [Value.Kind]. A null
// value is a tombstone: it asks for the deletion of what the key names. All
// values are exact, numbers included; see [Decimal] and [Micros].
//
// # Errors
//
//   - [Retry] asks for the same call again later: a server that is away.
//   - [RecordErrors] names the records of a batch that a sink cannot write
//     because of what they hold. All others must have been written. Users
//     choose whether bad ones go to a dead-letter topic or stop the task
//     (errors.tolerance and errors.deadletterqueue.topic.name).
//   - [Problem] names the setting that is to blame, from Open, Validate and
//     Split.
//   - io.EOF from Read ends a source for good.
//   - ctx.Err() says that the call was given up because the task is to stop.
//   - Any other error fails the task until a user restarts it.
//
// A source has nobody to give a bad record to: pass on what it read as text or
// bytes, or leave it out and log it, rather than fail for ever over it.
//
// A panic ends the process, which is started again, and again, and failed in
// the end if it never gets anywhere.
//
// # Optional interfaces
//
// Implement these on your source or sink for more: [Validator] checks settings
// against the real system, [Splitter] divides the work among tasks, [Acker]
// hears which records are stored, [Flusher] makes a sink durable in larger
// steps, [Progresser] shows users how far a source is. State at compile time
// that you do, as a method that does not fit is not noticed otherwise:
//
//	var _ connector.Validator = (*source)(nil)
//
// # Logging
//
// Use Task.Log; lines arrive in the worker's log under the connector's name.
// What is printed to standard output or error arrives there as well, but
// nothing may be printed to standard output before Serve is called. Secret
// settings are hidden in what a plugin logs and in its errors (those shorter
// than 4 bytes only where they stand alone).
//
// # Testing
//
// Package github.com/millrace/millrace/sdk/connector/connectortest runs what
// every connector must pass, in the test's process and as a real one that it
// kills. TestMain is part of it:
//
//	func TestMain(m *testing.M) { connectortest.Main(m, queue.Plugin()) }
//
//	func TestSource(t *testing.T) {
//		connectortest.TestSource(t, connectortest.Source{Plugin: queue.Plugin(), Setup: setup, Endless: true})
//	}
//
// For tests of your own, call the methods yourself: make a [Task] with
// [NewSettings] and a logger, and a [Batch] with new.
//
// The example of this package is another complete plugin. How hosts and
// plugins talk, for plugins in other languages, is in
// docs/format/connector-protocol.md; package connect/host is the other side,
// for programs that run connectors.
package connector
