package producer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/millrace/millrace/broker/internal/ident"
)

// ErrSnapshot says that a snapshot cannot be read.
var ErrSnapshot = errors.New("producer snapshot is damaged")

// The layout of a snapshot (docs/format/producer-snapshot.md).
const (
	snapshotVersion    = 1
	snapshotCRCAt      = 2
	snapshotEntriesAt  = 6
	snapshotHeaderLen  = 10
	snapshotEntryBytes = 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8
)

// Encode returns the state as a snapshot file.
//
// An entry has place for one batch. Where the window holds more, the producer
// has an entry for each, the oldest first. Kafka, which writes one entry a
// producer, takes the last it finds and so reads the file as one of its own;
// but with the older batches in it, a client that had several requests in
// flight when the broker stopped can send them all again.
func (s *State) Encode() []byte {
	producers := s.Producers()
	b := make([]byte, snapshotHeaderLen, snapshotHeaderLen+len(producers)*snapshotEntryBytes)
	binary.BigEndian.PutUint16(b, snapshotVersion)
	count := 0
	for i := range producers {
		p := &producers[i]
		older := *p
		older.TxnFirst = ident.NoOffset
		for _, w := range p.window[:max(0, len(p.window)-1)] {
			older.LastMs = w.Timestamp
			b = older.appendTo(b, w)
		}
		last, ok := p.Last()
		if !ok {
			last = Batch{FirstSequence: -1, LastSequence: -1, FirstOffset: ident.NoOffset, LastOffset: ident.NoOffset}
		}
		b = p.appendTo(b, last)
		count += max(1, len(p.window))
	}
	binary.BigEndian.PutUint32(b[snapshotEntriesAt:], uint32(count))
	binary.BigEndian.PutUint32(b[snapshotCRCAt:], snapshotCRC(b))
	return b
}

// snapshotCRC sums everything after the checksum.
func snapshotCRC(b []byte) uint32 {
	return crc32.Checksum(b[snapshotEntriesAt:], crc32.MakeTable(crc32.Castagnoli))
}

func (p *Producer) appendTo(b []byte, last Batch) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.ID))
	b = binary.BigEndian.AppendUint16(b, uint16(p.Epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(last.LastSequence))
	b = binary.BigEndian.AppendUint64(b, uint64(last.LastOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(last.LastOffset-last.FirstOffset))
	b = binary.BigEndian.AppendUint64(b, uint64(p.LastMs))
	b = binary.BigEndian.AppendUint32(b, uint32(p.CoordinatorEpoch))
	return binary.BigEndian.AppendUint64(b, uint64(p.TxnFirst))
}

// Decode reads a snapshot file. The error wraps ErrSnapshot.
func Decode(b []byte) (*State, error) {
	if len(b) < snapshotHeaderLen {
		return nil, fmt.Errorf("%w: it has %d bytes, but the header alone has %d", ErrSnapshot, len(b), snapshotHeaderLen)
	}
	if v := binary.BigEndian.Uint16(b); v != snapshotVersion {
		return nil, fmt.Errorf("%w: version is %d instead of %d", ErrSnapshot, v, snapshotVersion)
	}
	if want, got := binary.BigEndian.Uint32(b[snapshotCRCAt:]), snapshotCRC(b); want != got {
		return nil, fmt.Errorf("%w: checksum is %08x, but the bytes sum to %08x", ErrSnapshot, want, got)
	}
	count := int(int32(binary.BigEndian.Uint32(b[snapshotEntriesAt:])))
	entries := b[snapshotHeaderLen:]
	if count < 0 || len(entries) != count*snapshotEntryBytes {
		return nil, fmt.Errorf("%w: %d entries do not fit %d bytes", ErrSnapshot, count, len(entries))
	}
	s := &State{producers: make(map[ident.ProducerID]*Producer, count)}
	for i := range count {
		p, err := decodeProducer(entries[i*snapshotEntryBytes:])
		if err != nil {
			return nil, fmt.Errorf("%w: entry %d: %v", ErrSnapshot, i, err)
		}
		s.add(p)
	}
	return s, nil
}

// add takes an entry in. One that continues the window of an earlier entry joins
// it; any other replaces it.
func (s *State) add(p *Producer) {
	if was := s.producers[p.ID]; was != nil {
		if was.TxnFirst != ident.NoOffset {
			s.openTxns--
		}
		older, ok := was.Last()
		if ok && was.Epoch == p.Epoch && len(p.window) > 0 && next(older.LastSequence) == p.window[0].FirstSequence {
			window := append(was.window, p.window...)
			p.window = window[max(0, len(window)-WindowBatches):]
		}
	}
	if p.TxnFirst != ident.NoOffset {
		s.openTxns++
	}
	s.producers[p.ID] = p
}

// decodeProducer reads one entry; b holds at least that.
func decodeProducer(b []byte) (*Producer, error) {
	p := &Producer{
		ID:               ident.ProducerID(binary.BigEndian.Uint64(b)),
		Epoch:            ident.ProducerEpoch(binary.BigEndian.Uint16(b[8:])),
		LastMs:           int64(binary.BigEndian.Uint64(b[26:])),
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(b[34:])),
		TxnFirst:         ident.Offset(binary.BigEndian.Uint64(b[38:])),
	}
	lastSequence := int32(binary.BigEndian.Uint32(b[10:]))
	lastOffset := ident.Offset(binary.BigEndian.Uint64(b[14:]))
	delta := int32(binary.BigEndian.Uint32(b[22:]))
	switch {
	case p.ID < 0 || p.Epoch < ident.NoProducerEpoch:
		return nil, fmt.Errorf("producer %d with epoch %d", p.ID, p.Epoch)
	case p.TxnFirst < ident.NoOffset:
		return nil, fmt.Errorf("transaction begins at %d", p.TxnFirst)
	case lastSequence < 0:
		return p, nil // nothing remembered of this epoch
	case lastOffset < 0 || delta < 0 || ident.Offset(delta) > lastOffset:
		return nil, fmt.Errorf("last batch ends at %d and covers %d more", lastOffset, delta)
	}
	p.window = append(p.window, Batch{
		FirstSequence: back(lastSequence, delta),
		LastSequence:  lastSequence,
		FirstOffset:   lastOffset - ident.Offset(delta),
		LastOffset:    lastOffset,
		Timestamp:     p.LastMs,
	})
	return p, nil
}

// back returns the sequence n before seq.
func back(seq, n int32) int32 {
	if seq >= n {
		return seq - n
	}
	return math.MaxInt32 - (n - seq) + 1
}
