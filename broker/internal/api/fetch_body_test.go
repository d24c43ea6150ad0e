package api

import (
	"bytes"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/wire"
)

// textRun is a run of the bytes of a string.
type textRun string

func (r textRun) Len() int     { return len(r) }
func (r textRun) Close() error { return nil }
func (r textRun) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(r))
	return int64(n), err
}

// TestFetchBodyIsWhatKmsgWouldEncode compares the encoder written by hand with
// kmsg's, at every version, over a reply that uses every field.
func TestFetchBodyIsWhatKmsgWouldEncode(t *testing.T) {
	rack := "r1"
	for version := range int16(19) {
		if version < 4 {
			continue // not served
		}
		want := kmsg.NewFetchResponse()
		want.Version = version
		want.ThrottleMillis, want.ErrorCode, want.SessionID = 1, 2, 3
		var runs []wire.Run
		for _, name := range []string{"a", "views"} {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = name, [16]byte{1, 2, byte(len(name))}
			for i := range int32(3) {
				p := kmsg.NewFetchResponseTopicPartition()
				p.Partition, p.ErrorCode = i, int16(i)
				p.HighWatermark, p.LastStableOffset, p.LogStartOffset = 100, 90, 80
				p.RecordBatches = []byte{}
				runs = append(runs, nil)
				switch i {
				case 1:
					p.RecordBatches = []byte("records of " + name)
					runs[len(runs)-1] = textRun(p.RecordBatches)
					p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 7, FirstOffset: 8}}
				case 2:
					p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
					if version >= 16 {
						p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 4, 5
					}
				}
				topic.Partitions = append(topic.Partitions, p)
			}
			want.Topics = append(want.Topics, topic)
		}
		if version >= 16 {
			want.Brokers = []kmsg.FetchResponseBroker{{NodeID: 4, Host: "h", Port: 9092, Rack: &rack}, {NodeID: 5, Host: "i"}}
		}
		head := wire.Header{Key: want.Key(), Version: version}
		var got, ref bytes.Buffer
		if _, err := encode(head, &fetchBody{&want, runs}).WriteTo(&got); err != nil {
			t.Fatal(err)
		}
		if _, err := wire.Encode(head, &want).WriteTo(&ref); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), ref.Bytes()) {
			t.Errorf("version %d:\n got %x\nwant %x", version, got.Bytes(), ref.Bytes())
		}
	}
}
