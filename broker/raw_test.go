package broker_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/broker/internal/batch"
	"github.com/millrace/millrace/broker/internal/ident"
)

// rawConn is a connection on which a test says exactly what is sent.
type rawConn struct {
	t *testing.T
	net.Conn
	correlation int32
}

func dial(t *testing.T, c *brokertest.Cluster) *rawConn {
	t.Helper()
	return dialAddress(t, c.Addr())
}

func dialAddress(t *testing.T, address string) *rawConn {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &rawConn{t: t, Conn: nc}
}

// send writes a request at the version that is set in it, or the newest that
// kmsg has if that is none.
func (c *rawConn) send(req kmsg.Request) {
	c.t.Helper()
	c.correlation++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, c.correlation)
	if _, err := c.Write(frame); err != nil {
		c.t.Fatalf("sending %s: %v", kmsg.NameForKey(req.Key()), err)
	}
}

// readFrame reads a reply without its length.
func (c *rawConn) readFrame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(c, frame)
	return frame, err
}

// receive reads the reply to the request into resp.
func (c *rawConn) receive(resp kmsg.Response) {
	c.t.Helper()
	name := kmsg.NameForKey(resp.Key())
	frame, err := c.readFrame()
	if err != nil {
		c.t.Fatalf("reading the reply to %s version %d: %v", name, resp.GetVersion(), err)
	}
	body := frame[4:]
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("decoding the reply to %s version %d: %v", name, resp.GetVersion(), err)
	}
}

func ask[R kmsg.Response](c *rawConn, req kmsg.Request) R {
	c.t.Helper()
	c.send(req)
	resp := req.ResponseKind()
	c.receive(resp)
	return resp.(R)
}

// wantClosed waits for the broker to close the connection.
func (c *rawConn) wantClosed() {
	c.t.Helper()
	n, err := c.Read(make([]byte, 1))
	if timeout, ok := errors.AsType[net.Error](err); n != 0 || err == nil || ok && timeout.Timeout() {
		c.t.Fatalf("the connection was not closed: read %d bytes, %v", n, err)
	}
}

// wantCode compares an error code.
func wantCode(t *testing.T, what string, got int16, want *kerr.Error) {
	t.Helper()
	code := int16(0)
	if want != nil {
		code = want.Code
	}
	if got != code {
		t.Errorf("%s: got error %v, want %v", what, kerr.ErrorForCode(got), kerr.ErrorForCode(code))
	}
}

// batchOf builds a batch; change may be nil.
func batchOf(t *testing.T, codec batch.Codec, change func(*batch.Builder), records ...batch.Record) batch.View {
	t.Helper()
	b := batch.NewBuilder(batch.NewCodecs(), codec)
	if change != nil {
		change(b)
	}
	for _, r := range records {
		b.Append(r)
	}
	v, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// idempotent makes a batch that of a producer.
func idempotent(id int64, epoch int16, sequence int32) func(*batch.Builder) {
	return func(b *batch.Builder) { b.SetProducer(ident.ProducerID(id), ident.ProducerEpoch(epoch), sequence) }
}

func at(ms int64, value string) batch.Record {
	return batch.Record{Timestamp: ms, Value: []byte(value)}
}

// produceOf is a Produce request of version 9 for one partition, acks all.
func produceOf(topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 10_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	return req
}

// produceRaw sends the request and returns its only partition's answer.
func (c *rawConn) produceRaw(req *kmsg.ProduceRequest) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	return ask[*kmsg.ProduceResponse](c, req).Topics[0].Partitions[0]
}

// fetchOf is a Fetch request of version 12 for partition 0 of topics, all from
// offset from, which waits for nothing.
func fetchOf(from int64, topics ...string) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MinBytes, req.MaxBytes, req.SessionEpoch = 12, 1, 1<<20, -1
	for _, name := range topics {
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = from, 1<<20, -1
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = name
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
	}
	return req
}
