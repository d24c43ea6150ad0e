package api

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/partition"
	"github.com/millrace/millrace/broker/internal/storage"
)

func TestErrorsBecomeCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		want *kerr.Error
	}{
		{kerr.PolicyViolation, kerr.PolicyViolation},
		{&cluster.Error{Code: kerr.TopicAlreadyExists, Message: "there is one"}, kerr.TopicAlreadyExists},
		{&storage.OutOfRangeError{Offset: 9, End: 5}, kerr.OffsetOutOfRange},
		{&partition.TooLargeError{Size: 9, Max: 5}, kerr.MessageTooLarge},
		{&partition.EpochError{Asked: 1, Current: 2}, kerr.FencedLeaderEpoch},
		{&partition.EpochError{Asked: 2, Current: 1}, kerr.UnknownLeaderEpoch},
		{&batch.RecordError{Index: 3, Err: batch.ErrTimestamp}, kerr.InvalidTimestamp},
		// The partition's verdict counts, not what the disk said.
		{fmt.Errorf("%w: %w", partition.ErrStorage, disk.ErrNoSpace), kerr.KafkaStorageError},
		{errors.New("a bug"), kerr.UnknownServerError},
	} {
		wrapped := fmt.Errorf("doing something: %w", test.err)
		if got := errorCode(wrapped); got != test.want.Code {
			t.Errorf("%v: got %v, want %v", test.err, kerr.ErrorForCode(got), test.want)
		}
	}
	if errorCode(nil) != 0 {
		t.Error("no error has a code")
	}
	for _, s := range sentinels() {
		if got := errorCode(fmt.Errorf("doing something: %w", s.err)); got != s.code.Code {
			t.Errorf("%v: got %v, want %v", s.err, kerr.ErrorForCode(got), s.code)
		}
	}
}
