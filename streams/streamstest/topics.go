package streamstest

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/sdk/serde"
)

// Input writes to a topic that the job reads.
type Input[K, V any] struct {
	d     *Driver
	topic string
	k     serde.Serde[K]
	v     serde.Serde[V]
}

// Input returns what writes to a topic with these serdes. A topic that the job does not read fails the test.
func (d *Driver) Input[K, V any](topic string, k serde.Serde[K], v serde.Serde[V]) Input[K, V] {
	d.t.Helper()
	d.mustRead(topic)
	return Input[K, V]{d, topic, serde.Bind(k, topic, serde.Key), serde.Bind(v, topic, serde.Value)}
}

// Send writes a record with a timestamp and runs the job until it has nothing to do. An error that ends the job fails the
// test.
func (in Input[K, V]) Send(key K, value V, at time.Time, headers ...kgo.RecordHeader) {
	in.d.t.Helper()
	in.send(in.encodeKey(key), in.encodeValue(value), at, headers)
}

// Delete writes a tombstone: a record with a null value.
func (in Input[K, V]) Delete(key K, at time.Time) {
	in.d.t.Helper()
	in.send(in.encodeKey(key), nil, at, nil)
}

// SendKeyless writes a record without a key.
func (in Input[K, V]) SendKeyless(value V, at time.Time) {
	in.d.t.Helper()
	in.send(nil, in.encodeValue(value), at, nil)
}

func (in Input[K, V]) send(key, value []byte, at time.Time, headers []kgo.RecordHeader) {
	in.d.t.Helper()
	err := in.d.TrySend(&kgo.Record{Topic: in.topic, Partition: -1, Key: key, Value: value, Timestamp: at, Headers: headers})
	if err != nil {
		in.d.t.Fatal(err)
	}
}

func (in Input[K, V]) encodeKey(key K) []byte {
	in.d.t.Helper()
	b, err := in.k.Append([]byte{}, key)
	if err != nil {
		in.d.t.Fatalf("encoding a key for topic %q: %v", in.topic, err)
	}
	return b
}

func (in Input[K, V]) encodeValue(value V) []byte {
	in.d.t.Helper()
	b, err := in.v.Append([]byte{}, value)
	if err != nil {
		in.d.t.Fatalf("encoding a value for topic %q: %v", in.topic, err)
	}
	return b
}

// Record is one record of an output, decoded.
type Record[K, V any] struct {
	// Key is the zero value when the record has none; HasKey tells.
	Key    K
	HasKey bool
	// Value is the zero value when the record is a tombstone; then Present is false.
	Value     V
	Present   bool
	Time      time.Time
	Partition int32
	Headers   []kgo.RecordHeader
}

// Output reads a topic that the job writes.
type Output[K, V any] struct {
	d     *Driver
	topic string
	k     serde.Serde[K]
	v     serde.Serde[V]
	read  int
}

// Output returns what reads a topic with these serdes, from its start. A topic that the job does not have fails the test; but
// where a ToFunc chooses topics, or a handler may choose one for dead letters, any name is accepted.
func (d *Driver) Output[K, V any](topic string, k serde.Serde[K], v serde.Serde[V]) *Output[K, V] {
	d.t.Helper()
	d.mustKnow(topic)
	return &Output[K, V]{d: d, topic: topic, k: serde.Bind(k, topic, serde.Key), v: serde.Bind(v, topic, serde.Value)}
}

// All returns the records that this Output has not returned yet, in the order of writing. A record that cannot be decoded
// fails the test.
func (o *Output[K, V]) All() []Record[K, V] {
	o.d.t.Helper()
	var out []Record[K, V]
	for _, rec := range o.d.Records(o.topic)[o.read:] {
		o.read++
		out = append(out, o.decode(rec))
	}
	return out
}

func (o *Output[K, V]) decode(rec *kgo.Record) Record[K, V] {
	o.d.t.Helper()
	r := Record[K, V]{HasKey: rec.Key != nil, Present: rec.Value != nil, Time: rec.Timestamp, Partition: rec.Partition, Headers: rec.Headers}
	var err error
	if r.HasKey {
		if r.Key, err = o.k.Decode(rec.Key); err != nil {
			o.d.t.Fatalf("decoding a key of topic %q, %q: %v", o.topic, rec.Key, err)
		}
	}
	if r.Present {
		if r.Value, err = o.v.Decode(rec.Value); err != nil {
			o.d.t.Fatalf("decoding a value of topic %q, %q: %v", o.topic, rec.Value, err)
		}
	}
	return r
}

// Rows returns what a table of the topic would hold now: the last value of each key, without the deleted ones. It does not
// count as reading. K must be comparable.
func Rows[K comparable, V any](o *Output[K, V]) map[K]V {
	o.d.t.Helper()
	rows := map[K]V{}
	for _, rec := range o.d.Records(o.topic) {
		switch r := o.decode(rec); {
		case !r.HasKey:
		case r.Present:
			rows[r.Key] = r.Value
		default:
			delete(rows, r.Key)
		}
	}
	return rows
}
