// Package streams builds jobs that read topics of a Kafka cluster, compute, and write topics: ordinary Go programs that scale by
// being started more often, keep their state across restarts, and run in a test without a cluster.
//
// # A job
//
// This one counts the views of each page per minute:
//
//	b := streams.NewBuilder("page-views") // the application id
//
//	b.Stream("views", serde.String, serde.JSON[View]()).
//		Filter(func(_ string, v View) bool { return v.Status < 400 }).
//		GroupBy("by-page", func(_ string, v View) string { return v.Path }, serde.String).
//		WindowedBy(window.Tumbling(time.Minute).Grace(24 * time.Hour)). // catches up after a day: see Time
//		Count("views-per-minute").
//		ToStream().
//		Map(func(w window.Windowed[string], n int64, present bool) (PageMinute, int64, bool) {
//			return PageMinute{w.Key, w.Start.Time()}, n, present
//		}).
//		With(serde.JSON[PageMinute](), serde.Int64).
//		To("views-per-minute")
//
//	topology, err := b.Build()
//	app, err := streams.New(topology, streams.Config{Brokers: []string{"localhost:9092"}})
//	err = app.Run(ctx)
//
// A [Builder] starts with topics and ends in a [Topology]. In between are operators, methods that return what the next one
// is called on. Functions get key and value, of the types that the topic's serdes have (package serde). Nothing runs before
// [New] and [App.Run]. Errors in how the job is put together come out of [Builder.Build], all at once.
//
// Input and output topics must exist, those of ToFunc and of dead letters included; a job makes its internal topics itself.
//
// # Streams and tables
//
//   - A [Stream] is a sequence of events: Filter, Map, MapValues, FlatMap, Merge, Split and so on make other streams of it, one
//     record at a time and without memory. Peek and ForEach look at it, To writes it to a topic.
//   - A [Table] is a value per key. It comes from a topic of changes ([Builder.Table]), from the latest values of a stream (ToTable),
//     or from an aggregation. It is kept in a store.
//   - [Changes] is what a table emits (Table.ToStream): its functions get a third argument, present, which is false when the key
//     was deleted. Deletes are written as null values, so that tables downstream, and databases, delete too. Present drops
//     the deletes and returns a Stream.
//   - A [WindowedTable] is a value per key and window of time, and [WindowedChanges] is what it emits. Their functions get a
//     [window.Windowed], with the key and the window's Start and End. Map turns that into a key of your own.
//
// To aggregate, group a stream: GroupByKey, or GroupBy with a new key. Then Count, Reduce or Aggregate keep a value per key; after
// WindowedBy, one per key and window of time; after WindowedBySession, one per key and session. Every update is emitted at
// once; nothing waits for a window to end.
//
// [Stream.Process] is for what is missing: a [Processor] of your own, with stores and timers.
//
// # Names, and what they name
//
// An operator that keeps state or makes an internal topic takes a name, and whatever outlives the process is named after it: a
// Count("visits") keeps the store "visits" with the changelog topic <application>-visits-changelog; a GroupBy("by-page", ...) makes
// the topic <application>-by-page-repartition. So a job can be edited and deployed again, and each operator finds its own
// state, as long as its name stays. Changing what a store holds needs a new name. [Topology.String] shows all names: keep a
// golden copy in a test.
//
// # Tasks
//
// Records of one key are in one partition of a topic. A job is cut where records have to change partition (that is, where a
// new key is grouped by), and each part runs as one task per partition of its input. A task is one goroutine with its own stores;
// tasks share nothing, so functions of a job must not share what they change. Tasks are spread over all processes that run
// the job, and move when processes come and go. A store's changelog lets another process rebuild it.
//
// Processing is at-least-once: after a crash, a task repeats what it did since its last commit. Results may be written
// again, and what was counted in that time may be counted twice; nothing is left out. A clean stop repeats nothing.
//
// # Time
//
// Windows go by event time: the record's timestamp, or what the [EventTime] option finds in the record. A task's stream time is the
// highest event time it has seen; records move it, never a clock. A window closes when stream time passes its end by the
// grace. A record for a closed window is late: it is dropped, counted, and warned of in the log with the grace that would
// have kept it; [LateTo] writes it to a topic instead.
//
// Records of one partition come in order. A thread takes the records of its tasks in order of event time, and waits for
// those that the broker has (even if MaxIdle is zero), so that one thread keeps an ordered input in order behind
// repartition topics too. Several threads or processes have speeds of their own: when they start on old data, or catch up
// after a stop, some read ahead of others, and behind a repartition topic the records of all of them meet. There a record
// can be late by as much as the data spans, although every partition is in perfect order. So let the grace cover
//
//   - how far out of order each partition is written, and
//   - behind a GroupBy with a new key, a Repartition or a Merge, the longest time that the job may be behind: the outage that
//     it has to survive, or, to be able to read all of its input again, the input's retention.
//
// A long grace costs room in the store, where windows stay for as long. It costs no latency, for every update is emitted at
// once. Without a grace, windows close at their end. What a grace is good for can be tested: see Apart in package
// streamstest.
//
// [InvalidTimes] says what to do with a record that has no valid time.
//
// # Parsing, and the time in a record
//
// EventTime gets what the source's serdes decoded. There are two ways to take the time from a text that has to be parsed:
//
//   - Parse in the serde, one whose Decode is your parser. EventTime then picks a field. What does not parse is a failure of
//     deserialization, with the parser's error. As serdes go along with the stream, and such a one cannot read what it
//     wrote, set others right behind the source, using With.
//   - Read the text as it is, take only the time from it with [TryEventTime], and parse in a TryMap, whose failures name
//     the operator. A text without a time never comes to it, for it has no place in the order of events: it is a failure of
//     deserialization, with the error of the extractor. To have all failures in one place, give such records
//     the time of their neighbours with InvalidTimes(UsePartitionTime), and let the TryMap refuse them.
//
// # What goes wrong
//
// A function of type func(...) R cannot fail. For what can, such as parsing, there are TryMap, TryMapValues, TryFlatMapValues and
// Processor. Their errors, panics of any function, records that a serde cannot decode or encode or that have no event
// time, and records that the broker refuses go to [Handlers], which fail the job (the default), skip the record, or send
// it to a dead-letter topic with the cause in its headers:
//
//	dead := streams.Always(streams.DeadLetter("views.dead"))
//	streams.Config{
//		Handlers: streams.Handlers{Deserialization: dead, Processing: dead},
//	}
//
// Trouble that passes, such as a broker that restarts, is waited out and never seen by a handler. A processor that cannot
// begin (an error or a panic in Init) ends the job.
//
// # Serdes
//
// Serdes go along with a stream. An operator that changes a type loses that type's serde, unless the type is one of the plain ones
// ([serde.Default]: strings, numbers, bool, time.Time, []byte). Before an operator that writes a struct to a topic or a store,
// set serdes with the stream's With; Build names the operator and the type where one is missing.
//
// # Testing
//
// Package streamstest runs a topology in a test, synchronously and without a broker:
//
//	job := streamstest.New(t, topology)
//	job.Input("views", serde.String, serde.JSON[View]()).Send("alice", View{Path: "/"}, noon)
//	got := job.Output("views-per-minute", serde.JSON[PageMinute](), serde.Int64).All()
//
// Against a broker, package broker/brokertest starts one within the test, and [App.WaitCaughtUp] waits until all of the input
// is processed.
package streams
