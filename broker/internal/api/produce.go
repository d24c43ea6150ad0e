package api

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
)

// Produce (key 0), versions 3 to 13; advertised from 0 (see advertised).
//
// KIP-98 (record batches, version 3), KIP-110 (zstd, version 7), KIP-467
// (error messages, version 8), KIP-951 (the new leader in the reply, version
// 10), KIP-890 (versions 11 and 12, for transactions), KIP-516 (topic ids,
// version 13).
//
// Errors, each of its own partition: those of [topicRef.find], [Service.leader]
// and partition.Append; INVALID_REQUIRED_ACKS; INVALID_TOPIC_EXCEPTION for an
// internal topic; UNSUPPORTED_COMPRESSION_TYPE for zstd below version 7;
// REQUEST_TIMED_OUT, after which the records may still become visible;
// INVALID_TXN_STATE for a transactional id: there are no transactions yet.
//
// acks=0 gets no reply. If such a request fails, the connection is closed, so
// that the producer learns of it and refreshes its metadata, as in Kafka.
func (s *Service) produce(r *Request, in *kmsg.ProduceRequest, reply Reply) {
	p := &produceRequest{
		s: s, r: r, in: in, reply: reply,
		resp:  in.ResponseKind().(*kmsg.ProduceResponse),
		image: s.Cluster.Image(),
	}
	parts := p.prepare()
	p.left = len(parts) + 1 // this function is one of those waited for
	for _, part := range parts {
		p.append(part)
	}
	p.arm()
	p.done(func() {})
}

// produceRequest is a Produce request while it is answered.
type produceRequest struct {
	s     *Service
	r     *Request
	in    *kmsg.ProduceRequest
	reply Reply
	image *cluster.Image
	waits []*partition.Wait

	mu    sync.Mutex // guards resp too, until left is 0
	resp  *kmsg.ProduceResponse
	left  int // parts that are not done
	timer *time.Timer
}

// producePart is one partition of the request.
type producePart struct {
	topic   *cluster.Topic
	records []byte
	out     *kmsg.ProduceResponseTopicPartition
}

// prepare lays out the reply in the order of the request, and returns the
// parts that have no error so far.
func (p *produceRequest) prepare() []producePart {
	var parts []producePart
	p.resp.Topics = make([]kmsg.ProduceResponseTopic, len(p.in.Topics))
	for i := range p.in.Topics {
		inTopic, outTopic := &p.in.Topics[i], &p.resp.Topics[i]
		outTopic.Topic, outTopic.TopicID = inTopic.Topic, inTopic.TopicID
		outTopic.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(inTopic.Partitions))
		topic, err := p.topic(inTopic)
		for j := range inTopic.Partitions {
			out := &outTopic.Partitions[j]
			out.Default()
			out.Partition = inTopic.Partitions[j].Partition
			out.BaseOffset, out.LogAppendTime, out.LogStartOffset = -1, -1, -1
			if err != nil {
				p.fail(out, err)
				continue
			}
			parts = append(parts, producePart{topic, inTopic.Partitions[j].Records, out})
		}
	}
	return parts
}

// topic checks what concerns all partitions of a topic.
func (p *produceRequest) topic(in *kmsg.ProduceRequestTopic) (*cluster.Topic, error) {
	if p.in.Acks < -1 || p.in.Acks > 1 {
		return nil, kerr.InvalidRequiredAcks
	}
	if p.in.TransactionID != nil {
		return nil, kerr.InvalidTxnState
	}
	topic, err := topicRef{in.Topic, in.TopicID, p.in.Version >= 13}.find(p.image)
	if err != nil {
		return nil, err
	}
	if topic.Internal() {
		return nil, kerr.InvalidTopicException
	}
	return topic, nil
}

// append hands one partition's batches to it.
func (p *produceRequest) append(part producePart) {
	log, err := p.s.leader(part.topic, part.out.Partition, noEpoch)
	if err == nil && p.in.Version < 7 {
		err = refuseZstd(part.records)
	}
	if err != nil {
		p.done(func() { p.fail(part.out, err) })
		return
	}
	wait := log.Append(partition.AppendRequest{
		Batches: part.records,
		Acks:    partition.Acks(p.in.Acks),
		Epoch:   ident.NoLeaderEpoch,
	}, func(res partition.AppendResult) {
		p.done(func() { p.record(part.out, res) })
	})
	if wait != nil {
		p.waits = append(p.waits, wait)
	}
}

// refuseZstd fails if the batch is compressed with zstd, which requests could
// not carry before version 7, as consumers of that age could not read it.
func refuseZstd(records []byte) error {
	if v, _, err := batch.Next(records); err == nil && v.Codec() == batch.Zstd {
		return kerr.UnsupportedCompressionType
	}
	return nil
}

// produceTimeoutMin is how long a Produce waits whatever time-out it names. That
// is meant for replicas; the records are on their way to this broker's own disk,
// and a client that is told of a time-out at once writes them again.
const produceTimeoutMin = time.Second

// arm starts the clock, if anything is left to wait for.
func (p *produceRequest) arm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left > 1 {
		timeout := max(produceTimeoutMin, time.Duration(p.in.TimeoutMillis)*time.Millisecond)
		p.timer = time.AfterFunc(timeout, func() {
			for _, w := range p.waits {
				w.Cancel(partition.ErrTimedOut)
			}
		})
	}
}

// done ends one part. The last one sends the reply.
func (p *produceRequest) done(change func()) {
	p.mu.Lock()
	change()
	p.left--
	last := p.left == 0
	p.mu.Unlock()
	if !last {
		return
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	p.finish()
}

// record puts what became of an append into the reply.
func (p *produceRequest) record(out *kmsg.ProduceResponseTopicPartition, res partition.AppendResult) {
	if res.Err != nil {
		p.fail(out, res.Err)
		return
	}
	out.ErrorCode = 0
	out.BaseOffset = int64(res.Base)
	out.LogAppendTime = res.AppendTime
	out.LogStartOffset = int64(res.LogStart)
}

// fail puts an error into the reply, with its words if the client reads them
// and can do something about them.
func (p *produceRequest) fail(out *kmsg.ProduceResponseTopicPartition, err error) {
	out.ErrorCode = errorCode(err)
	if known := kerr.TypedErrorForCode(out.ErrorCode); known != nil && !known.Retriable {
		message := err.Error()
		out.ErrorMessage = &message
	}
}

// finish gives the reply, or for acks=0 none.
func (p *produceRequest) finish() {
	if p.in.Acks != 0 {
		p.reply(p.resp)
		return
	}
	p.reply(nil)
	for i := range p.resp.Topics {
		for j := range p.resp.Topics[i].Partitions {
			if code := p.resp.Topics[i].Partitions[j].ErrorCode; code != 0 {
				p.s.Log.Info("closing the connection of a producer with acks=0, whose records were refused",
					"client", p.r.ClientAddr.String(), "err", kerr.ErrorForCode(code))
				p.r.Disconnect()
				return
			}
		}
	}
}
