// Package producer knows which batches of idempotent producers a partition
// has already taken (KIP-98), so that a batch sent again is written once.
//
// Every such batch carries the producer's id and epoch and the sequence number
// of its first record. For each producer the partition remembers the last five
// batches, because a client has at most five requests in flight. A batch that
// repeats one of them is a duplicate and gets the offsets of the first time; a
// batch that follows the last one is new; anything else has a gap.
//
// [State.Check] only looks, [State.Apply] changes; between the two lies the
// write to the log, which may fail. A State is data: no clock, no lock, no I/O.
//
// A State is saved beside each segment in Kafka's snapshot format
// (docs/format/producer-snapshot.md), so that opening a log reads the
// snapshot and then only the batches after it.
package producer
