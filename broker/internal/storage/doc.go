// Package storage keeps the log of one partition: a folder of segments with
// their indexes, in Apache Kafka's own on-disk format (docs/format/log-folder.md,
// design in docs/design/storage.md).
//
// A [Log] is a run of record batches with increasing offsets, from its start
// to its end. Batches are appended at the end; whole segments are dropped at
// the start. Between the two lies a third mark, the flushed end: everything
// before it survives a crash.
//
//	start                    flushed end        end
//	  |  segment | segment | seg.|.ment ........ |
//
// An append writes and returns; it never waits for the disk. [Log.Flush]
// syncs all that was appended before it was called, for however many writers
// wait for it, and moves the flushed end.
//
// A crash may lose, tear and reorder whatever was not flushed. [Open] cuts the
// log at the first batch that does not check, when that lies at or above the
// recovery point, and refuses with a [DamageError] when it lies below, because
// there the bytes were once known to be safe.
//
// The package knows batches by their headers only. It decodes records in one
// place, the lookup of offsets by time.
package storage
