// Package state holds the state of stream jobs: what a job counts, aggregates
// and remembers between records.
//
// A job names a store with a reference, [KeyValueRef], [WindowRef] or
// [SessionRef], which carries the types and codecs of its keys and values.
// Operators that keep state make references themselves; a processor of your
// own makes one with [NewKeyValue], [NewWindow] or [NewSession] and passes it
// to Process:
//
//	seen := state.NewKeyValue("seen", serde.String, serde.Int64)
//
// While a task runs, the reference opens as a typed store over bytes:
// [KeyValue], [Window], [Session]. From outside, an App's Query gives a
// [ReadOnly] view over all partitions that its process holds.
//
// Range, All, Fetch and Overlapping call a function for each entry, as
// sync.Map.Range does, and return an error; they are not iterators to range
// over, which would have to hide that a store can fail:
//
//	err := view.All(func(key string, value int64, at window.Instant) bool {
//		total += value
//		return true // go on
//	})
//
// # Commit
//
// Each task (a part of the topology and a partition) has one [Stores]. Writes
// go to a pending batch. The task's own reads see through it; everybody else
// sees committed state only. [Stores.Commit] writes the batch together with
// the offsets of the changelogs, so that data and offsets never disagree,
// whatever happens to the process; [Stores.Drop] forgets the batch.
//
// # Changelogs
//
// Every write is also handed to [Config.Capture] as a [Change], which the
// runtime sends to the store's changelog topic. Another instance rebuilds the
// store from there with [Stores.Restore]. The bytes are described in
// docs/format/state-store.md.
//
// # Time
//
// Window and session stores forget by stream time, not by the clock on the
// wall: an entry expires when the store has seen a time that is its retention
// later. Times in stores are never before 1970: writing one is an error.
package state
