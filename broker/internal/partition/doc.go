// Package partition hosts one partition of a topic on this broker: its log, its
// replica machine, its producers' sequence windows, and those who wait for it
// (docs/design/partition.md).
//
// The life of an append:
//
//	check the batch      without the lock: checksum, records, topic's rules
//	lock
//	check the sequence   duplicates go straight to waiting
//	write                the log gives the offsets
//	apply the sequence   only now, as the write succeeded
//	step the machine     the log end moved
//	unlock
//	wait                 parked; a syncer flushes, the high watermark moves
//	done
//
// Nothing waits for the disk while it holds the lock, and no caller's function
// is called while it is held. One sync serves all appends that came before it.
package partition
