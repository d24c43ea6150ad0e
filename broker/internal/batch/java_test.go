package batch

import (
	"os"
	"strings"
	"testing"
)

// TestJavasBatchesAreRead reads batches that Kafka's Java client 4.4.0 made, with
// MemoryRecords.withIdempotentRecords: producer 77, epoch 3, from sequence 11.
func TestJavasBatchesAreRead(t *testing.T) {
	want := []Record{
		{Offset: 0, Timestamp: 1000, Key: []byte("k0"), Value: []byte("v0"), Headers: []Header{{"h", []byte("x")}, {"h", nil}}},
		{Offset: 1, Timestamp: 3000, Value: []byte(strings.Repeat("abcdefg", 10000))},
		{Offset: 2, Timestamp: 2000, Key: []byte{}},
		{Offset: 3, Timestamp: 500, Key: []byte("k3"), Value: []byte{}},
	}
	codecs := NewCodecs()
	for _, codec := range []Codec{Gzip, Snappy, LZ4, Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			b, err := os.ReadFile("testdata/java/" + codec.String() + ".batch")
			if err != nil {
				t.Fatal(err)
			}
			v, rest, err := Next(b)
			if err != nil || len(rest) != 0 {
				t.Fatalf("framing: %d bytes left, %v", len(rest), err)
			}
			facts, err := Rules{}.Check(v, codecs)
			if err != nil || facts.MaxTimestamp != 3000 || v.MaxTimestamp() != 3000 {
				t.Fatalf("check gives %+v, %v", facts, err)
			}
			if v.Codec() != codec || v.ProducerID() != 77 || v.ProducerEpoch() != 3 || v.BaseSequence() != 11 || v.LastSequence() != 14 {
				t.Errorf("header says %v, producer %d epoch %d sequences %d to %d", v.Codec(), v.ProducerID(), v.ProducerEpoch(), v.BaseSequence(), v.LastSequence())
			}
			for i, got := range collect(t, v, codecs) {
				if describe(got) != describe(want[i]) || string(got.Value) != string(want[i].Value) {
					t.Errorf("record %d is %s, want %s", i, describe(got), describe(want[i]))
				}
			}
		})
	}
}
