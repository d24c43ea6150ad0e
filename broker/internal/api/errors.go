package api

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/partition"
	"github.com/millrace/millrace/broker/internal/producer"
	"github.com/millrace/millrace/broker/internal/storage"
)

// errorCode is the one place where Go errors become Kafka's error codes: 0 for
// nil, the code of a [kerr.Error] anywhere in the chain, the code of the
// domain's typed errors, and UNKNOWN_SERVER_ERROR for everything else, which
// Kafka's clients do not retry.
func errorCode(err error) int16 {
	if err == nil {
		return 0
	}
	return kafkaError(err).Code
}

func kafkaError(err error) *kerr.Error {
	if k, ok := errors.AsType[*kerr.Error](err); ok {
		return k
	}
	for _, known := range sentinels() {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	if _, ok := errors.AsType[*storage.OutOfRangeError](err); ok {
		return kerr.OffsetOutOfRange
	}
	if _, ok := errors.AsType[*partition.TooLargeError](err); ok {
		return kerr.MessageTooLarge
	}
	if e, ok := errors.AsType[*partition.EpochError](err); ok {
		if e.Fenced() {
			return kerr.FencedLeaderEpoch
		}
		return kerr.UnknownLeaderEpoch
	}
	return kerr.UnknownServerError
}

// sentinel is an error value and its code.
type sentinel struct {
	err  error
	code *kerr.Error
}

// sentinels lists the domain's error values. The first that is in the chain
// counts.
func sentinels() []sentinel {
	return []sentinel{
		{partition.ErrNotLeader, kerr.NotLeaderForPartition},
		{partition.ErrClosed, kerr.NotLeaderForPartition},
		{partition.ErrDeleted, kerr.UnknownTopicOrPartition},
		{partition.ErrStorage, kerr.KafkaStorageError},
		{partition.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
		{partition.ErrNotEnoughReplicasAfterAppend, kerr.NotEnoughReplicasAfterAppend},
		{partition.ErrTimedOut, kerr.RequestTimedOut},
		{partition.ErrBatchCount, kerr.InvalidRecord},
		{partition.ErrAcks, kerr.InvalidRequiredAcks},
		{producer.ErrSequence, kerr.OutOfOrderSequenceNumber},
		{producer.ErrFenced, kerr.InvalidProducerEpoch},
		{batch.ErrShort, kerr.InvalidRecord}, // CORRUPT_MESSAGE would have the client send it again
		{batch.ErrCorrupt, kerr.CorruptMessage},
		{batch.ErrMagic, kerr.InvalidRecord},
		{batch.ErrInvalid, kerr.InvalidRecord},
		{batch.ErrCodec, kerr.UnsupportedCompressionType},
		{batch.ErrTimestamp, kerr.InvalidTimestamp},
		{storage.ErrTooLarge, kerr.RecordListTooLarge},
		{storage.ErrFailed, kerr.KafkaStorageError},
		{storage.ErrClosed, kerr.NotLeaderForPartition},
		{cluster.ErrClosed, kerr.NotController},
		{context.DeadlineExceeded, kerr.RequestTimedOut},
		{context.Canceled, kerr.NotController}, // the broker is stopping
	}
}
