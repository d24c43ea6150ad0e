package connector

import (
	"fmt"
	"time"
)

// Record is one message: an envelope and a value.
type Record struct {
	// Topic is where the record comes from, in a sink. In a source it is
	// where it is to go; empty means the topic that the user configured for
	// the connector.
	Topic string

	// Partition of the topic. A source sets it to [AnyPartition], as
	// [NewRecord] does, to have it chosen by the key's hash; 0 means
	// partition 0.
	Partition int32

	// Offset of the record in its partition, in a sink. A source leaves it.
	Offset int64

	// Key decides the partition, and names the row or document that the
	// value is about. The zero Value is a null key.
	Key Value

	// Value is what the record says. The zero Value is null: a tombstone,
	// which asks sinks to delete what Key names.
	Value Value

	// Timestamp is event time, kept to the millisecond in topics. The zero
	// time means that there is none; a source's record then gets the time at
	// which it is produced.
	Timestamp time.Time

	// Headers are in order, and names may repeat.
	Headers []Header

	// Operation is what happened at a change-capture source.
	Operation Operation

	// Origin says where a source found the record, so that the task can
	// resume behind it. It is zero in a sink.
	Origin Origin
}

// AnyPartition leaves the choice of the partition to the key's hash.
const AnyPartition int32 = -1

// NewRecord returns a record of a source, to go to the connector's topic and
// any partition of it.
func NewRecord(origin Origin, key, value Value) Record {
	return Record{Partition: AnyPartition, Offset: -1, Key: key, Value: value, Origin: origin}
}

// Header is a named piece of bytes beside a record's value. A nil Value is a
// null, which is not the same as an empty one.
type Header struct {
	Name  string
	Value []byte
}

// Origin is a place in what a source reads. Both parts are texts (UTF-8) of the
// source's own making; JSON is a good choice if there is more than one thing to
// say, as users can see and reset positions.
type Origin struct {
	// Partition names a part of the source that has an order of its own, such
	// as a file or a table. Positions are kept for each, so the name has to
	// stay the same from one run to the next. It may be empty if there is but
	// one.
	Partition string
	// Position is where to resume behind this very record; it must not be
	// empty. Records of a partition must be appended in their order. If
	// several records come of one thing, such as the rows of one transaction,
	// their positions must tell them apart: the task may be asked to resume
	// behind any of them.
	Position string
}

// Operation says what a change-capture source saw happen.
type Operation uint8

const (
	// OperationNone is for sources to which the question does not apply.
	OperationNone Operation = iota
	// OperationSnapshot is a row that was there when reading began.
	OperationSnapshot
	OperationInsert
	OperationUpdate
	OperationDelete
	OperationTruncate
)

// String returns the operation's name in lower case, such as "insert".
func (o Operation) String() string {
	switch o {
	case OperationNone:
		return "none"
	case OperationSnapshot:
		return "snapshot"
	case OperationInsert:
		return "insert"
	case OperationUpdate:
		return "update"
	case OperationDelete:
		return "delete"
	case OperationTruncate:
		return "truncate"
	}
	return fmt.Sprintf("operation(%d)", uint8(o))
}

// MarshalText returns the operation's name, for logs.
func (o Operation) MarshalText() ([]byte, error) { return []byte(o.String()), nil }
