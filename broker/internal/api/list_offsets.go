package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
	"github.com/millrace/millrace/broker/internal/storage"
)

// Times that stand for a place in the log (ListOffsetsRequest.java).
const (
	latestTime         = -1 // the end of what the client may read
	earliestTime       = -2 // the start of the log
	maxTime            = -3 // the record with the highest timestamp (KIP-734)
	earliestLocalTime  = -4 // the start of what is on this broker's disk (KIP-405)
	latestTieredTime   = -5 // the end of what is in remote storage (KIP-1005)
	earliestUploadTime = -6 // the start of what is not in remote storage yet (KIP-1023)
)

// ListOffsets (key 2), versions 1 to 11.
//
// KIP-79 (one offset by time, version 1), KIP-98 (isolation, version 2),
// KIP-320 (leader epochs, version 4), KIP-734 (max timestamp, version 7),
// KIP-405 (earliest local, version 8), KIP-1005 (latest tiered, version 9),
// KIP-1075 (time-out, version 10; nothing waits here), KIP-1023 (earliest
// pending upload, version 11). There is no remote storage, so what asks for its
// ends is answered with offset -1, and earliest local is earliest.
//
// Errors of a partition: those of [topicRef.find], [Service.leader] and of
// reading the log; INVALID_REQUEST for a partition that is asked for twice;
// UNSUPPORTED_VERSION for a time below -6, or one that the version lacks.
func (s *Service) listOffsets(r *Request, in *kmsg.ListOffsetsRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.ListOffsetsResponse)
	image := s.Cluster.Image()
	seen := make(map[ident.TopicPartition]bool)
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(in.Topics))
	for i := range in.Topics {
		inTopic, outTopic := &in.Topics[i], &resp.Topics[i]
		outTopic.Topic = inTopic.Topic
		outTopic.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(inTopic.Partitions))
		topic, err := topicRef{name: inTopic.Topic}.find(image)
		for j := range inTopic.Partitions {
			q, out := &inTopic.Partitions[j], &outTopic.Partitions[j]
			tp := ident.TopicPartition{Topic: inTopic.Topic, Partition: q.Partition}
			stamp, err := noStamp, err
			switch {
			case seen[tp]:
				err = kerr.InvalidRequest
			case err == nil:
				var log *partition.Partition
				if log, err = s.leader(topic, q.Partition, q.CurrentLeaderEpoch); err == nil {
					stamp, err = lookup(log, q.Timestamp, in.Version, isolation(in.IsolationLevel))
				}
			}
			seen[tp] = true
			out.Default()
			out.Partition = q.Partition
			out.ErrorCode = errorCode(err)
			out.Timestamp, out.Offset, out.LeaderEpoch = stamp.Timestamp, int64(stamp.Offset), int32(stamp.Epoch)
		}
	}
	reply(resp)
}

// noStamp is the answer when there is no such record.
var noStamp = storage.Stamp{Offset: ident.NoOffset, Timestamp: -1, Epoch: ident.NoLeaderEpoch}

// lookup answers one question about one partition.
func lookup(log *partition.Partition, time int64, version int16, iso partition.Isolation) (storage.Stamp, error) {
	switch {
	case time >= 0:
		return found(log.OffsetForTime(time, iso))
	case time == latestTime:
		marks := log.Marks()
		end := marks.HighWatermark
		if iso == partition.ReadCommitted {
			end = marks.LastStable
		}
		return storage.Stamp{Offset: end, Timestamp: -1, Epoch: log.LeaderEpoch()}, nil
	case time == earliestTime, time == earliestLocalTime && version >= 8:
		start := log.Marks().Start
		return storage.Stamp{Offset: start, Timestamp: -1, Epoch: log.EpochAt(start)}, nil
	case time == maxTime && version >= 7:
		return found(log.MaxTimestamp(iso))
	case time == latestTieredTime && version >= 9, time == earliestUploadTime && version >= 11:
		return noStamp, nil
	}
	return noStamp, kerr.UnsupportedVersion
}

// found turns a lookup that found nothing into the answer for that.
func found(s storage.Stamp, ok bool, err error) (storage.Stamp, error) {
	if err != nil || !ok {
		return noStamp, err
	}
	return s, nil
}
