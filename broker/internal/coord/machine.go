package coord

import "time"

// Machine is a coordinator's state machine for one shard. It reads no clock
// and no random source of its own and starts no goroutine: given the same
// turns it does the same. All methods are called by one goroutine.
type Machine interface {
	// Replay applies one record, that of a former leader or one that the
	// machine wrote just now. Records of kinds unknown are an error only if
	// skipping them would be wrong; an error fails the shard. It may keep the
	// record's bytes.
	Replay(Record) error

	// Loaded is called once, after the log was replayed and before any
	// request: the machine sets its deadlines.
	Loaded(*Turn)

	// NextDeadline says when Expire is to be called at the latest; false: not
	// at all. It is asked after each turn.
	NextDeadline() (time.Time, bool)

	// Expire does what was due at the turn's time or before.
	Expire(*Turn)
}

// Turn is one exclusive run of a machine, in answer to a request or a
// deadline. It ends when the function that got it returns.
type Turn struct {
	core *core
	now  time.Time
}

// Now is the time of the turn. It does not change while the turn lasts.
func (t *Turn) Now() time.Time { return t.now }

// Write appends the records in one batch and replays them into the machine.
// When it returns nil, the machine's state has changed, and all calls answered
// from now on wait until the records are committed. When it returns an error,
// which wraps one of this package's, nothing has changed. Writing no records
// does nothing.
func (t *Turn) Write(records ...Record) error {
	if len(records) == 0 {
		return nil
	}
	return t.core.write(records)
}
