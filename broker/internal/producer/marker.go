package producer

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace/millrace/broker/internal/batch"
)

// Marker is the end of a transaction, as its control record says (KIP-98).
type Marker struct {
	Commit           bool
	CoordinatorEpoch int32
}

// The keys and the value of a control record (docs/format/record-batch.md).
const (
	markerKeyLen   = 4 // version, type
	markerValueLen = 6 // version, coordinator epoch
	markerAbort    = 0
	markerCommit   = 1
)

// ReadMarker reads the marker of a control batch. ok is false for control
// batches of another kind. The error wraps batch.ErrInvalid.
func ReadMarker(v batch.View, c *batch.Codecs) (m Marker, ok bool, err error) {
	found := false
	err = batch.Records(v, c, func(r batch.Record) bool {
		found = true
		m, ok = parseMarker(r)
		return false
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: control batch at %d has no record", batch.ErrInvalid, v.BaseOffset())
	}
	return m, ok, err
}

func parseMarker(r batch.Record) (Marker, bool) {
	if len(r.Key) < markerKeyLen || len(r.Value) < markerValueLen {
		return Marker{}, false
	}
	kind := binary.BigEndian.Uint16(r.Key[2:])
	if kind != markerAbort && kind != markerCommit {
		return Marker{}, false
	}
	return Marker{
		Commit:           kind == markerCommit,
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(r.Value[2:])),
	}, true
}
