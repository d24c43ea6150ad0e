// Package batch reads, checks and writes record batches of format version 2,
// the unit in which records travel and are stored (docs/format/record-batch.md).
//
// A [View] is a batch in place: a slice of bytes with accessors, never a
// decoded copy. The broker keeps batches as clients compressed them; it
// rewrites only the base offset and the leader epoch, which lie outside the
// checksum, and for topics with log-append time the timestamps.
//
// Three steps lead from bytes off the network to a batch that may be stored:
// [Next] frames it, [View.VerifyCRC] shows that it arrived whole, and
// [Rules.Check] shows that any client will be able to read it. Compressed
// batches are checked by streaming them through a decoder that keeps nothing.
//
// Compressors are costly to make, so they live in the pools of a [Codecs].
// A broker has one Codecs and passes it on; the package has no state.
package batch
