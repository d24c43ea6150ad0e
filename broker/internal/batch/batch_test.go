package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/ident"
)

var allCodecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

func sampleRecords() []Record {
	return []Record{
		{Timestamp: 1000, Key: []byte("k0"), Value: []byte("v0"), Headers: []Header{{"h", []byte("x")}, {"h", nil}, {"", []byte{}}}},
		{Timestamp: 3000, Key: nil, Value: []byte(strings.Repeat("long ", 20000))},
		{Timestamp: 2000, Key: []byte{}, Value: nil},
		{Timestamp: 500, Key: []byte("k3"), Value: []byte{}},
	}
}

func mustBuild(t testing.TB, b *Builder, recs ...Record) View {
	t.Helper()
	for _, r := range recs {
		b.Append(r)
	}
	v, err := b.Build()
	if err != nil {
		t.Fatalf("building a batch: %v", err)
	}
	return v
}

func collect(t testing.TB, v View, c *Codecs) []Record {
	t.Helper()
	var out []Record
	err := Records(v, c, func(r Record) bool {
		r.Key, r.Value = cloneNullable(r.Key), cloneNullable(r.Value)
		var hs []Header
		for _, h := range r.Headers {
			hs = append(hs, Header{h.Key, cloneNullable(h.Value)})
		}
		r.Headers = hs
		out = append(out, r)
		return true
	})
	if err != nil {
		t.Fatalf("reading records: %v", err)
	}
	return out
}

func cloneNullable(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}

// describe tells null from empty, which reflect.DeepEqual does for nil slices
// too, but readably.
func describe(r Record) string {
	show := func(b []byte) string {
		if b == nil {
			return "null"
		}
		if len(b) > 20 {
			return fmt.Sprintf("%q...%d", b[:20], len(b))
		}
		return fmt.Sprintf("%q", b)
	}
	s := fmt.Sprintf("%d@%d %s=%s", r.Offset, r.Timestamp, show(r.Key), show(r.Value))
	for _, h := range r.Headers {
		s += fmt.Sprintf(" %q:%s", h.Key, show(h.Value))
	}
	return s
}

func TestRecordsSurviveEveryCodec(t *testing.T) {
	codecs := NewCodecs()
	for _, codec := range allCodecs {
		t.Run(codec.String(), func(t *testing.T) {
			b := NewBuilder(codecs, codec)
			b.SetBaseOffset(40)
			v := mustBuild(t, b, sampleRecords()...)
			if v.Codec() != codec {
				t.Errorf("codec is %v, want %v", v.Codec(), codec)
			}
			if got, want := v.MaxTimestamp(), int64(3000); got != want {
				t.Errorf("max timestamp is %d, want %d", got, want)
			}
			got := collect(t, v, codecs)
			for i, want := range sampleRecords() {
				want.Offset = 40 + ident.Offset(i)
				if describe(got[i]) != describe(want) {
					t.Errorf("record %d is %s, want %s", i, describe(got[i]), describe(want))
				}
			}
		})
	}
}

func TestBuilderAgreesWithKmsg(t *testing.T) {
	b := NewBuilder(NewCodecs(), None)
	b.SetBaseOffset(7)
	b.SetLeaderEpoch(3)
	b.SetProducer(99, 2, 11)
	b.SetTransactional()
	v := mustBuild(t, b, sampleRecords()...)

	var got kmsg.RecordBatch
	if err := got.ReadFrom(v); err != nil {
		t.Fatalf("kmsg cannot read the batch: %v", err)
	}
	if got.FirstOffset != 7 || got.PartitionLeaderEpoch != 3 || got.ProducerID != 99 || got.ProducerEpoch != 2 ||
		got.FirstSequence != 11 || got.NumRecords != 4 || got.LastOffsetDelta != 3 || got.Attributes != 0x10 ||
		got.FirstTimestamp != 1000 || got.MaxTimestamp != 3000 || int(got.Length) != len(v)-PrefixLen {
		t.Errorf("kmsg reads other fields: %+v", got)
	}
	if uint32(got.CRC) != v.CRC() || v.VerifyCRC() != nil {
		t.Errorf("checksum differs")
	}
	if v.LastOffset() != 10 || v.NextOffset() != 11 || v.LastSequence() != 14 {
		t.Errorf("last offset %d, next %d, last sequence %d", v.LastOffset(), v.NextOffset(), v.LastSequence())
	}
}

func TestSequencesContinueAtZero(t *testing.T) {
	b := NewBuilder(NewCodecs(), None)
	b.SetProducer(1, 0, math.MaxInt32-1)
	v := mustBuild(t, b, sampleRecords()...)
	if got := v.LastSequence(); got != 1 {
		t.Errorf("last sequence is %d, want 1", got)
	}
}

func TestNextFrames(t *testing.T) {
	b := NewBuilder(NewCodecs(), None)
	one := mustBuild(t, b, sampleRecords()...)
	two := append(append([]byte{}, one...), one[:20]...)
	v, rest, err := Next(two)
	if err != nil || !bytes.Equal(v, one) || len(rest) != 20 {
		t.Fatalf("Next returned %d bytes, %d left, %v", len(v), len(rest), err)
	}
	if _, _, err := Next(rest); !errors.Is(err, ErrShort) {
		t.Errorf("half a batch gives %v, want ErrShort", err)
	}
	old := append([]byte{}, one...)
	old[atMagic] = 1
	if _, _, err := Next(old); !errors.Is(err, ErrMagic) {
		t.Errorf("magic 1 gives %v, want ErrMagic", err)
	}
	for _, length := range []int32{0, -1, math.MinInt32, HeaderLen - PrefixLen - 1} {
		bad := append([]byte{}, one...)
		binary.BigEndian.PutUint32(bad[atLength:], uint32(length))
		if _, _, err := Next(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("length %d gives %v, want ErrCorrupt", length, err)
		}
	}
}

// patched returns a copy of v with the change made and the checksum right
// again, as a faulty client would send it.
func patched(v View, change func(View)) View {
	c := append(View{}, v...)
	change(c)
	c.setCRC()
	return c
}

func TestCheckRefuses(t *testing.T) {
	codecs := NewCodecs()
	good := mustBuild(t, NewBuilder(codecs, None), sampleRecords()...)
	put32 := func(at int, n uint32) func(View) {
		return func(v View) { binary.BigEndian.PutUint32(v[at:], n) }
	}
	setAttr := func(a Attributes) func(View) {
		return func(v View) { binary.BigEndian.PutUint16(v[atAttributes:], uint16(a)) }
	}
	for _, tc := range []struct {
		name  string
		level Level // the laxest level that finds it
		v     View
		want  error
	}{
		{"flipped bit", LevelHeader, func() View { v := append(View{}, good...); v[len(v)-1] ^= 1; return v }(), ErrCorrupt},
		{"base offset", LevelHeader, patched(good, func(v View) { v.SetBaseOffset(5) }), ErrInvalid},
		{"no records", LevelHeader, patched(good, put32(atNumRecords, 0)), ErrInvalid},
		{"count and delta differ", LevelHeader, patched(good, put32(atNumRecords, 3)), ErrInvalid},
		{"delta at the limit", LevelHeader, patched(good, put32(atLastDelta, math.MaxInt32)), ErrInvalid},
		{"control", LevelHeader, patched(good, setAttr(controlBit)), ErrInvalid},
		{"log-append time", LevelHeader, patched(good, setAttr(logAppendTimeBit)), ErrTimestamp},
		{"unknown codec", LevelHeader, patched(good, setAttr(6)), ErrCodec},
		{"transaction without producer", LevelHeader, patched(good, setAttr(transactionalBit)), ErrInvalid},
		{"producer without sequence", LevelHeader, patched(good, func(v View) { binary.BigEndian.PutUint64(v[atProducerID:], 4) }), ErrInvalid},
		{"fewer records than said", LevelFull, patched(good, func(v View) { put32(atNumRecords, 5)(v); put32(atLastDelta, 4)(v) }), ErrInvalid},
		{"more records than said", LevelFull, patched(good, func(v View) { put32(atNumRecords, 3)(v); put32(atLastDelta, 2)(v) }), ErrInvalid},
		{"record length", LevelFull, patched(good, func(v View) { v[HeaderLen] += 2 }), ErrInvalid},
		{"offset delta", LevelFull, patched(good, func(v View) { v[HeaderLen+3] = 2 }), ErrInvalid},
		{"not what the codec says", LevelFull, patched(good, setAttr(Attributes(Gzip))), ErrInvalid},
		{"time overflows", LevelFull, patched(good, func(v View) { binary.BigEndian.PutUint64(v[atBaseTimestamp:], math.MaxInt64) }), ErrTimestamp},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := Validate(tc.v, LevelFull, codecs); !errors.Is(err, tc.want) {
				t.Errorf("full level gives %v, want %v", err, tc.want)
			}
			err := Validate(tc.v, LevelHeader, codecs)
			if found := err != nil; found != (tc.level == LevelHeader) {
				t.Errorf("header level gives %v", err)
			}
		})
	}
	if err := Validate(good, LevelFull, codecs); err != nil {
		t.Errorf("good batch is refused: %v", err)
	}
}

func TestTopicRules(t *testing.T) {
	codecs := NewCodecs()
	v := mustBuild(t, NewBuilder(codecs, Zstd), sampleRecords()...)
	_, err := Rules{RequireKeys: true}.Check(v, codecs)
	var re *RecordError
	if !errors.As(err, &re) || re.Index != 1 || !errors.Is(err, ErrInvalid) {
		t.Errorf("keyless record gives %v, want record 1 refused", err)
	}
	_, err = Rules{CheckTimestamps: true, TimestampMin: 600, TimestampMax: 5000}.Check(v, codecs)
	if !errors.As(err, &re) || re.Index != 3 || !errors.Is(err, ErrTimestamp) {
		t.Errorf("time below the bound gives %v, want record 3 refused", err)
	}
	facts, err := Rules{CheckTimestamps: true, TimestampMin: 500, TimestampMax: 3000}.Check(v, codecs)
	if err != nil || facts.MaxTimestamp != 3000 || facts.Records != 4 {
		t.Errorf("got %+v, %v", facts, err)
	}
}

func TestMaxTimestampIsFoundWhateverTheHeaderClaims(t *testing.T) {
	codecs := NewCodecs()
	v := mustBuild(t, NewBuilder(codecs, LZ4), sampleRecords()...)
	lie := patched(v, func(v View) { binary.BigEndian.PutUint64(v[atMaxTimestamp:], 9999) })
	facts, err := Rules{}.Check(lie, codecs)
	if err != nil || facts.MaxTimestamp != 3000 {
		t.Errorf("got %+v, %v; want 3000", facts, err)
	}
}

func TestLogAppendTimeReplacesAllTimes(t *testing.T) {
	codecs := NewCodecs()
	v := mustBuild(t, NewBuilder(codecs, Gzip), sampleRecords()...)
	v.SetMaxTimestamp(LogAppendTime, 7777)
	if err := v.VerifyCRC(); err != nil {
		t.Fatal(err)
	}
	for _, r := range collect(t, v, codecs) {
		if r.Timestamp != 7777 {
			t.Errorf("record %d has time %d", r.Offset, r.Timestamp)
		}
	}
}

func TestTimesGivesOffsetsAndTimes(t *testing.T) {
	codecs := NewCodecs()
	b := NewBuilder(codecs, Snappy)
	b.SetBaseOffset(10)
	v := mustBuild(t, b, sampleRecords()...)
	var got []string
	if err := Times(v, codecs, func(o ident.Offset, ms int64) bool {
		got = append(got, fmt.Sprintf("%d@%d", o, ms))
		return ms != 2000
	}); err != nil {
		t.Fatal(err)
	}
	if want := "[10@1000 11@3000 12@2000]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// withPayload makes a batch of one record whose payload is given compressed.
func withPayload(codec Codec, payload []byte) View {
	v := make(View, HeaderLen, HeaderLen+len(payload))
	v = append(v, payload...)
	binary.BigEndian.PutUint32(v[atLength:], uint32(len(v)-PrefixLen))
	v[atMagic] = Magic
	binary.BigEndian.PutUint16(v[atAttributes:], uint16(codec))
	binary.BigEndian.PutUint32(v[atNumRecords:], 1)
	for i := atProducerID; i < atNumRecords; i++ {
		v[i] = 0xff
	}
	v.setCRC()
	return v
}

func TestPlainSnappyIsRead(t *testing.T) {
	codecs := NewCodecs()
	raw := mustBuild(t, NewBuilder(codecs, None), sampleRecords()[0]).payload()
	framed := appendXerial(nil, raw)
	v := withPayload(Snappy, framed[xerialHeaderLen+4:])
	if err := Validate(v, LevelFull, codecs); err != nil {
		t.Errorf("bare snappy block is refused: %v", err)
	}
}

func TestSnappyFramingIsJavas(t *testing.T) {
	framed := appendXerial(nil, bytes.Repeat([]byte{'a'}, 40000))
	if got, want := fmt.Sprintf("%x", framed[:16]), "82534e41505059000000000100000001"; got != want {
		t.Errorf("header is %s, want %s", got, want)
	}
	var blocks []int
	for rest := framed[16:]; len(rest) > 0; {
		n := int(binary.BigEndian.Uint32(rest))
		blocks = append(blocks, n)
		rest = rest[4+n:]
	}
	if len(blocks) != 2 {
		t.Errorf("40000 bytes are in %d blocks, want 2 of at most 32 KiB", len(blocks))
	}
}

func TestLZ4DependentBlocksAreRefused(t *testing.T) {
	codecs := NewCodecs()
	v := mustBuild(t, NewBuilder(codecs, LZ4), sampleRecords()...)
	bad := patched(v, func(v View) { v[HeaderLen+4] &^= 0x20 })
	if err := Validate(bad, LevelFull, codecs); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
	var legacy bytes.Buffer
	w := lz4.NewWriter(&legacy)
	if err := w.Apply(lz4.LegacyOption(true)); err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("old frame"))
	w.Close()
	if err := Validate(withPayload(LZ4, legacy.Bytes()), LevelFull, codecs); !errors.Is(err, ErrInvalid) {
		t.Errorf("legacy frame gives %v, want ErrInvalid", err)
	}
}

func TestWideZstdWindowIsRead(t *testing.T) {
	codecs := NewCodecs()
	raw := mustBuild(t, NewBuilder(codecs, None), sampleRecords()[0]).payload()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(32<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	w.Write(raw[:5])
	w.Flush() // now the frame cannot tell its size, and needs the window
	w.Write(raw[5:])
	w.Close()
	v := withPayload(Zstd, out.Bytes())
	for range 3 {
		if err := Validate(v, LevelFull, codecs); err != nil {
			t.Fatalf("32 MiB window is refused: %v", err)
		}
	}
}

// zeros is an endless record body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestBombIsBounded(t *testing.T) {
	codecs := NewCodecs()
	const rawBytes = 64 << 20
	var payload bytes.Buffer
	w, err := zstd.NewWriter(&payload, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	head := binary.AppendVarint(nil, rawBytes) // record length
	head = append(head, 0, 0, 0, 1)            // attributes, deltas, no key
	head = binary.AppendVarint(head, rawBytes-9)
	w.Write(head)
	io.CopyN(w, zeros{}, rawBytes-9+1) // the value, and no headers
	w.Close()
	v := withPayload(Zstd, payload.Bytes())

	_, err = Rules{RawBytesMax: 1 << 20}.Check(v, codecs)
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("got %v, want the limit named", err)
	}
	// Within the limit, nothing of the 64 MiB is kept.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := (Rules{}).Check(v, codecs); err != nil {
		t.Fatalf("a large record is refused: %v", err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > rawBytes/2 {
		t.Errorf("checking %d bytes, compressed to %d, allocates %d bytes", rawBytes, len(v), got)
	}
	if _, err := Recompress(v, Gzip, codecs, 1<<20); !errors.Is(err, ErrInvalid) {
		t.Errorf("recompressing gives %v, want ErrInvalid", err)
	}
}

func TestRecompressKeepsEverythingElse(t *testing.T) {
	codecs := NewCodecs()
	for _, from := range allCodecs {
		for _, to := range allCodecs {
			b := NewBuilder(codecs, from)
			b.SetBaseOffset(3)
			b.SetProducer(8, 1, 2)
			v := mustBuild(t, b, sampleRecords()...)
			next, err := Recompress(v, to, codecs, 1<<20)
			if err != nil {
				t.Fatalf("%v to %v: %v", from, to, err)
			}
			if next.Codec() != to || next.VerifyCRC() != nil || next.ProducerID() != 8 || next.MaxTimestamp() != 3000 {
				t.Errorf("%v to %v: header changed", from, to)
			}
			if framed, rest, err := Next(next); err != nil || len(rest) != 0 || len(framed) != len(next) {
				t.Errorf("%v to %v: length is wrong: %v", from, to, err)
			}
			got, want := collect(t, next, codecs), collect(t, v, codecs)
			for i := range want {
				if describe(got[i]) != describe(want[i]) {
					t.Errorf("%v to %v: record %d is %s, want %s", from, to, i, describe(got[i]), describe(want[i]))
				}
			}
		}
	}
}

func TestParseCodec(t *testing.T) {
	for _, c := range allCodecs {
		if got, err := ParseCodec(c.String()); err != nil || got != c {
			t.Errorf("%v parses as %v, %v", c, got, err)
		}
	}
	if c, err := ParseCodec("uncompressed"); c != None || err != nil {
		t.Errorf("uncompressed is %v, %v", c, err)
	}
	if _, err := ParseCodec("brotli"); !errors.Is(err, ErrCodec) {
		t.Errorf("brotli gives %v", err)
	}
}

func TestBuilderIsReusedAfterReset(t *testing.T) {
	codecs := NewCodecs()
	b := NewBuilder(codecs, None)
	if _, err := b.Build(); err == nil {
		t.Error("a batch without records was built")
	}
	first := mustBuild(t, b, sampleRecords()...)
	b.Reset()
	again := mustBuild(t, b, sampleRecords()...)
	if !bytes.Equal(first, again) {
		t.Error("the same records give another batch after Reset")
	}
	if b.SizeEstimate() != len(again) {
		t.Errorf("size estimate is %d, want %d", b.SizeEstimate(), len(again))
	}
}

func FuzzCheck(f *testing.F) {
	codecs := NewCodecs()
	for _, codec := range allCodecs {
		few := sampleRecords()
		few[1].Value = few[1].Value[:100] // minimizing long inputs takes the fuzzer long
		f.Add([]byte(mustBuild(f, NewBuilder(codecs, codec), few...)))
		small := NewBuilder(codecs, codec)
		f.Add([]byte(mustBuild(f, small, Record{Timestamp: 5, Key: []byte("k"), Headers: []Header{{"a", []byte("b")}}})))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, _, err := Next(b)
		if err != nil {
			return
		}
		// The checksum is mended so that the fuzzer gets past it.
		v = patched(v, func(v View) {})
		rules := Rules{RawBytesMax: 1 << 20}
		facts, err := rules.Check(v, codecs)
		if err != nil {
			for _, kind := range []error{ErrCorrupt, ErrInvalid, ErrCodec, ErrTimestamp} {
				if errors.Is(err, kind) {
					return
				}
			}
			t.Fatalf("error of no known kind: %v", err)
		}
		// What passed the check must be readable, and stay so recompressed.
		want := collect(t, v, codecs)
		if len(want) != int(facts.Records) {
			t.Fatalf("%d records, but facts say %d", len(want), facts.Records)
		}
		next, err := Recompress(v, LZ4, codecs, 1<<20)
		if err != nil {
			t.Fatalf("recompressing a good batch: %v", err)
		}
		for i, got := range collect(t, next, codecs) {
			if describe(got) != describe(want[i]) {
				t.Fatalf("record %d is %s after recompression, want %s", i, describe(got), describe(want[i]))
			}
		}
	})
}
