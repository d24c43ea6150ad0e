// Package coord runs coordinators: state machines that are replicated through
// the partitions of an internal topic, one machine a partition.
//
// # The rule
//
// A machine keeps durable state and changes it in one way only: by replaying a
// record. A request that wants to change something writes records with
// [Turn.Write]; they are appended to the partition, and in the same moment
// replayed into the machine by the very function that replays the partition
// when another broker takes over. So what the machine holds is always what its
// log says, and a new leader comes to the same state.
//
// A machine may also keep soft state, such as who is waiting in a rebalance.
// It is lost when leadership moves, and the protocol has to bear that.
//
// # Replies wait
//
// A record that was appended is not yet safe: it counts once it is committed
// (flushed and, with replicas, replicated). A machine does not wait for that.
// It goes on to the next request at once; what waits is the reply. A [Call]
// that is answered in a turn is delivered when everything is committed that
// the machine had written up to then, whether this call wrote it or an earlier
// one did. That holds for calls that only read as well: no client ever sees a
// state that a crash could take back.
//
// # No roll-back
//
// An append that fails has written nothing and replayed nothing, and the
// machine learns so at once. An append that succeeded but does not get
// committed has two ends: the partition loses its leader or its disk, then the
// shard is dropped with all its state; or the wait was too long, then the caller is
// told, while the record stays in the log and most likely commits later. Both
// leave nothing to undo.
//
// # Who runs what
//
// Each shard that this broker leads has one goroutine, which alone touches the
// machine: it replays the log, takes requests from a bounded queue, and
// wakes the machine when its next deadline is due. All that happens without
// goroutine or clock of its own is in [Shard], which tests drive by hand.
package coord
