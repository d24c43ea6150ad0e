package broker_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/brokertest"
	"github.com/millrace/millrace/broker/internal/batch"
)

func TestEveryCompressionIsStoredAsItCame(t *testing.T) {
	c := brokertest.Start(t)
	admin := newClient(t, c)
	cases := map[batch.Codec]kgo.CompressionCodec{
		batch.None: kgo.NoCompression(), batch.Gzip: kgo.GzipCompression(), batch.Snappy: kgo.SnappyCompression(),
		batch.LZ4: kgo.Lz4Compression(), batch.Zstd: kgo.ZstdCompression(),
	}
	for codec, option := range cases {
		t.Run(codec.String(), func(t *testing.T) {
			topic := "views-" + codec.String()
			createTopic(t, admin, topic, 1, nil)
			values := make([]string, 20)
			for i := range values {
				values[i] = strings.Repeat(string(rune('a'+i)), 1000)
			}
			produce(t, newClient(t, c, kgo.ProducerBatchCompression(option)), topic, values...)

			got := consume(t, newClient(t, c, fromStart(topic)...), len(values))
			for i, r := range got {
				if string(r.Value) != values[i] {
					t.Fatalf("record %d differs", i)
				}
			}
			stored := ask[*kmsg.FetchResponse](dial(t, c), fetchOf(0, topic)).Topics[0].Partitions[0].RecordBatches
			v, _, err := batch.Next(stored)
			if err != nil {
				t.Fatal(err)
			}
			if v.Codec() != codec {
				t.Errorf("the batch is stored with codec %v", v.Codec())
			}
		})
	}
}

func TestEveryLevelOfAcks(t *testing.T) {
	c := brokertest.Start(t)
	for name, acks := range map[string]kgo.Acks{"none": kgo.NoAck(), "leader": kgo.LeaderAck(), "all": kgo.AllISRAcks()} {
		t.Run(name, func(t *testing.T) {
			producer := newClient(t, c, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite(), kgo.AllowAutoTopicCreation())
			produce(t, producer, "acks-"+name, numbered(10)...)
			got := consume(t, newClient(t, c, fromStart("acks-"+name)...), 10)
			if string(got[9].Value) != "record 9" {
				t.Errorf("the last record is %q", got[9].Value)
			}
		})
	}
}

func TestRepeatedBatchOfAProducerIsWrittenOnce(t *testing.T) {
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "views", 1, nil)
	conn := dial(t, c)
	id := ask[*kmsg.InitProducerIDResponse](conn, initProducer()).ProducerID

	send := func(sequence int32) kmsg.ProduceResponseTopicPartition {
		records := []batch.Record{at(1, "x"), at(2, "y")}
		return conn.produceRaw(produceOf("views", 0, batchOf(t, batch.None, idempotent(id, 0, sequence), records...)))
	}
	for _, step := range []struct {
		what     string
		sequence int32
		offset   int64
		err      *kerr.Error
	}{
		{"first", 0, 0, nil},
		{"second", 2, 2, nil},
		{"first again", 0, 0, nil},
		{"second again", 2, 2, nil},
		{"a gap", 6, -1, kerr.OutOfOrderSequenceNumber},
		{"third", 4, 4, nil},
	} {
		got := send(step.sequence)
		wantCode(t, step.what, got.ErrorCode, step.err)
		if got.BaseOffset != step.offset {
			t.Errorf("%s: got offset %d, want %d", step.what, got.BaseOffset, step.offset)
		}
	}
	c.Kill()
	c.Start()
	conn = dial(t, c)
	if got := send(4); got.ErrorCode != 0 || got.BaseOffset != 4 {
		t.Errorf("the third batch again after a crash: got offset %d, error %v", got.BaseOffset, kerr.ErrorForCode(got.ErrorCode))
	}
	if n := len(consume(t, newClient(t, c, fromStart("views")...), 6)); n != 6 {
		t.Errorf("the log has %d records, want 6", n)
	}
}

func initProducer() *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.ProducerID, req.ProducerEpoch = 4, -1, -1
	return req
}

func TestProduceErrorsAreKafkas(t *testing.T) {
	c := brokertest.Start(t)
	admin := newClient(t, c)
	limit := "1000"
	createTopic(t, admin, "views", 2, map[string]*string{"max.message.bytes": &limit})
	compact := "compact"
	createTopic(t, admin, "compacted", 1, map[string]*string{"cleanup.policy": &compact})
	good := func() []byte { return batchOf(t, batch.None, nil, at(1, "x")) }
	corrupt := good()
	corrupt[len(corrupt)-1] ^= 1
	withMagic1 := good()
	withMagic1[16] = 1
	text := func(s string) *string { return &s }

	cases := map[string]struct {
		req  *kmsg.ProduceRequest
		want *kerr.Error
	}{
		"unknown topic":     {produceOf("nothing", 0, good()), kerr.UnknownTopicOrPartition},
		"unknown partition": {produceOf("views", 2, good()), kerr.UnknownTopicOrPartition},
		"negative number":   {produceOf("views", -1, good()), kerr.UnknownTopicOrPartition},
		"too large":         {produceOf("views", 0, batchOf(t, batch.None, nil, at(1, strings.Repeat("x", 2000)))), kerr.MessageTooLarge},
		"corrupt":           {produceOf("views", 0, corrupt), kerr.CorruptMessage},
		"old format":        {produceOf("views", 0, withMagic1), kerr.InvalidRecord},
		"cut short":         {produceOf("views", 0, good()[:65]), kerr.InvalidRecord},
		"control records":   {produceOf("views", 0, batchOf(t, batch.None, (*batch.Builder).SetControl, at(1, "x"))), kerr.InvalidRecord},
		"no records":        {produceOf("views", 0, nil), kerr.InvalidRecord},
		"two batches":       {produceOf("views", 0, slices.Concat(good(), good())), kerr.InvalidRecord},
		"no key":            {produceOf("compacted", 0, good()), kerr.InvalidRecord},
		"zstd in version 6": {with(produceOf("views", 0, batchOf(t, batch.Zstd, nil, at(1, "x"))), func(r *kmsg.ProduceRequest) { r.Version = 6 }), kerr.UnsupportedCompressionType},
		"acks 2":            {with(produceOf("views", 0, good()), func(r *kmsg.ProduceRequest) { r.Acks = 2 }), kerr.InvalidRequiredAcks},
		"in a transaction":  {with(produceOf("views", 0, good()), func(r *kmsg.ProduceRequest) { r.TransactionID = text("tx") }), kerr.InvalidTxnState},
		"unknown id": {with(produceOf("views", 0, good()), func(r *kmsg.ProduceRequest) {
			r.Version, r.Topics[0].TopicID = 13, [16]byte{1}
		}), kerr.UnknownTopicID},
	}
	conn := dial(t, c)
	for name, test := range cases {
		got := conn.produceRaw(test.req)
		wantCode(t, name, got.ErrorCode, test.want)
		if got.BaseOffset != -1 {
			t.Errorf("%s: got offset %d", name, got.BaseOffset)
		}
	}
}

func with[T any](v *T, change func(*T)) *T {
	change(v)
	return v
}

func TestProduceWithoutTimeIsWrittenAndAcknowledged(t *testing.T) {
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "views", 1, nil)
	conn := dial(t, c)
	for _, ms := range []int32{0, -1, 1} {
		req := produceOf("views", 0, batchOf(t, batch.None, nil, at(1, "x")))
		req.TimeoutMillis = ms
		wantCode(t, fmt.Sprintf("time-out %d ms", ms), conn.produceRaw(req).ErrorCode, nil)
	}
}

func TestOneBadPartitionDoesNotHarmTheOthers(t *testing.T) {
	c := brokertest.Start(t)
	createTopic(t, newClient(t, c), "views", 2, nil)
	req := produceOf("nothing", 0, batchOf(t, batch.None, nil, at(1, "x")))
	req.Topics = append(req.Topics, produceOf("views", 5, batchOf(t, batch.None, nil, at(1, "x"))).Topics...)
	req.Topics = append(req.Topics, produceOf("views", 1, batchOf(t, batch.None, nil, at(1, "good"))).Topics...)
	resp := ask[*kmsg.ProduceResponse](dial(t, c), req)
	if len(resp.Topics) != 3 || resp.Topics[0].Topic != "nothing" || resp.Topics[2].Partitions[0].Partition != 1 {
		t.Fatalf("the reply is not in the order of the request: %+v", resp.Topics)
	}
	wantCode(t, "unknown topic", resp.Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "unknown partition", resp.Topics[1].Partitions[0].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "good partition", resp.Topics[2].Partitions[0].ErrorCode, nil)
}

func TestRefusedRecordsWithoutAcksCloseTheConnection(t *testing.T) {
	c := brokertest.Start(t)
	conn := dial(t, c)
	conn.send(with(produceOf("nothing", 0, batchOf(t, batch.None, nil, at(1, "x"))), func(r *kmsg.ProduceRequest) { r.Acks = 0 }))
	conn.wantClosed()
}

func TestLargeBatch(t *testing.T) {
	c := brokertest.Start(t)
	limit := "20000000"
	createTopic(t, newClient(t, c), "views", 1, map[string]*string{"max.message.bytes": &limit})
	large := bytes.Repeat([]byte("0123456789"), 1<<20)
	producer := newClient(t, c, kgo.ProducerBatchMaxBytes(19<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err := producer.ProduceSync(testContext(t), &kgo.Record{Topic: "views", Value: large}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	got := consume(t, newClient(t, c, fromStart("views")...), 1)
	if !bytes.Equal(got[0].Value, large) {
		t.Error("the large record came back changed")
	}
}

func TestTopicDecidesOnTimesAndCompression(t *testing.T) {
	c := brokertest.Start(t)
	appendTime, zstd := "LogAppendTime", "zstd"
	createTopic(t, newClient(t, c), "views", 1, map[string]*string{"message.timestamp.type": &appendTime, "compression.type": &zstd})
	conn := dial(t, c)
	before := time.Now().UnixMilli()
	got := conn.produceRaw(produceOf("views", 0, batchOf(t, batch.Gzip, nil, at(1, strings.Repeat("x", 1000)))))
	wantCode(t, "produce", got.ErrorCode, nil)
	if got.LogAppendTime < before || got.LogAppendTime > time.Now().UnixMilli() {
		t.Errorf("the reply names the time %d, not now", got.LogAppendTime)
	}
	v, _, err := batch.Next(ask[*kmsg.FetchResponse](conn, fetchOf(0, "views")).Topics[0].Partitions[0].RecordBatches)
	if err != nil {
		t.Fatal(err)
	}
	if v.Codec() != batch.Zstd || v.MaxTimestamp() != got.LogAppendTime || v.VerifyCRC() != nil {
		t.Errorf("the batch is stored with codec %v, time %d, checksum %v", v.Codec(), v.MaxTimestamp(), v.VerifyCRC())
	}
}

func TestConsumerReadsAcrossSegments(t *testing.T) {
	c := brokertest.Start(t)
	segment := "1048576"
	createTopic(t, newClient(t, c), "views", 1, map[string]*string{"segment.bytes": &segment})
	producer := newClient(t, c, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(100_000))
	values := make([]string, 400)
	for i := range values {
		values[i] = strings.Repeat(string(rune('a'+i%26)), 10_000)
	}
	produce(t, producer, "views", values...)
	got := consume(t, newClient(t, c, fromStart("views")...), len(values))
	for i, r := range got {
		if r.Offset != int64(i) || string(r.Value) != values[i] {
			t.Fatalf("record %d is at offset %d, or differs", i, r.Offset)
		}
	}
}
