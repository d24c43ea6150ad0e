package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// everyRequest calls f with a default request of every key and version that
// kmsg knows.
func everyRequest(f func(kmsg.Request)) {
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for version := range req.MaxVersion() + 1 {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			f(req)
		}
	}
}

func TestHeaderOfEveryVersion(t *testing.T) {
	everyRequest(func(req kmsg.Request) {
		const id = "kcat-1.7"
		frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(id)).AppendRequest(nil, req, 42)[4:]
		h, body, err := ParseHeader(frame)
		if err != nil {
			t.Errorf("%s version %d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
			return
		}
		want := Header{Key: req.Key(), Version: req.GetVersion(), CorrelationID: 42, ClientID: id}
		if req.Key() == keyControlledShutdown && req.GetVersion() == 0 {
			return // kmsg writes neither client id nor body
		}
		if h != want {
			t.Errorf("got header %+v, want %+v", h, want)
		}
		if got := req.AppendTo(nil); !bytes.Equal(body, got) {
			t.Errorf("%s version %d: the body is not where the header ends", kmsg.NameForKey(req.Key()), req.GetVersion())
		}
	})
}

func TestHeaderTagsAreSkipped(t *testing.T) {
	frame := []byte{0, 18, 0, 3, 0, 0, 0, 9, 0xff, 0xff, 2, 0, 1, 'x', 0x80, 0x01, 2, 'y', 'z', 'b'}
	h, body, err := ParseHeader(frame)
	if err != nil || h.CorrelationID != 9 || h.ClientID != "" || string(body) != "b" {
		t.Errorf("got %+v, body %q, %v", h, body, err)
	}
}

func TestTornHeadersAreMalformed(t *testing.T) {
	whole := kmsg.NewRequestFormatter(kmsg.FormatterClientID("me")).AppendRequest(nil, kmsg.NewPtrMetadataRequest(), 1)[4:]
	headerLen := 8 + 2 + 2 // version 0 is not flexible
	for n := range headerLen {
		if _, _, err := ParseHeader(whole[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes of a header: got %v", n, err)
		}
	}
}

func TestUnknownVersionsHaveNoBody(t *testing.T) {
	frame := []byte{0, 18, 0, 99, 0, 0, 0, 9, 0, 1, 'x', 1, 2, 3}
	if h, body, err := ParseHeader(frame); err != nil || h.ClientID != "x" || body != nil {
		t.Errorf("got %+v, body %q, %v", h, body, err)
	}
}

func TestLimitsDependOnTheKey(t *testing.T) {
	l := Limits{}.WithDefaults()
	produce, fetch := int16(kmsg.Produce), int16(kmsg.Fetch)
	if l.Check(produce, 100<<20) != nil || l.Check(fetch, 1<<20) != nil {
		t.Error("a frame of the limit's size was refused")
	}
	for key, size := range map[int16]int{produce: 100<<20 + 1, fetch: 1<<20 + 1} {
		if err := l.Check(key, size); !errors.Is(err, ErrMalformed) {
			t.Errorf("key %d, %d bytes: got %v", key, size, err)
		}
	}
}

// run is a Run over a string.
type run string

func (r run) Len() int { return len(r) }
func (r run) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(r))
	return int64(n), err
}
func (r run) Close() error { return nil }
func appendString(s string) func(b []byte) []byte {
	return func(b []byte) []byte { return append(b, s...) }
}

func TestReplyPutsRunsBetweenItsBytes(t *testing.T) {
	r := NewReply(Header{Key: int16(kmsg.Fetch), CorrelationID: 7}, true)
	r.Append(appendString("before,"))
	r.AppendRun(run("first run,"))
	r.AppendRun(run("second run,"))
	r.Append(appendString("after"))
	var out bytes.Buffer
	n, err := r.WriteTo(&out)
	if err != nil || n != int64(out.Len()) || r.Size() != out.Len() {
		t.Fatalf("wrote %d of %d, size %d, %v", n, out.Len(), r.Size(), err)
	}
	want := "\x00\x00\x00\x07" + "\x00" + "before,first run,second run,after"
	if got := out.String()[4:]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if size := binary.BigEndian.Uint32(out.Bytes()); int(size) != len(want) {
		t.Errorf("the length says %d, want %d", size, len(want))
	}
}

// vast is a run that claims to be too large for a frame.
type vast struct{ run }

func (vast) Len() int { return 1 << 31 }

func TestReplyThatFitsNoFrameIsAnError(t *testing.T) {
	r := NewReply(Header{Key: int16(kmsg.Fetch)}, true)
	r.AppendRun(vast{})
	var out bytes.Buffer
	if n, err := r.WriteTo(&out); !errors.Is(err, ErrReplyTooLarge) || n != 0 || out.Len() != 0 {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
}

func TestApiVersionsReplyHeaderIsNeverFlexible(t *testing.T) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(3)
	resp := req.ResponseKind()
	r := Encode(Header{Key: req.Key(), Version: 3}, resp)
	if want := 8 + len(resp.AppendTo(nil)); r.Size() != want {
		t.Errorf("the reply has %d bytes, want %d", r.Size(), want)
	}
}

func produceRequest(version int16, partitions int, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version = version
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "views"
	for i := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), records
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	return req
}

func TestProduceMadeOfEmptyElementsIsMalformed(t *testing.T) {
	for version := range int16(14) {
		real := produceRequest(version, 10_000, make([]byte, 61+8)).AppendTo(nil)
		if err := CheckProduce(version, real); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
		if err := CheckProduce(version, real[:len(real)-3]); !errors.Is(err, ErrMalformed) {
			t.Errorf("version %d, cut short: got %v", version, err)
		}
		empty := produceRequest(version, 10_000, nil).AppendTo(nil)
		if err := CheckProduce(version, empty); !errors.Is(err, ErrMalformed) {
			t.Errorf("version %d: 10,000 partitions without records: got %v", version, err)
		}
	}
}

// FuzzRequest feeds bytes to the header and, when that gives a body, to kmsg's
// decoder as the broker does. Whatever decodes must encode and decode again.
func FuzzRequest(f *testing.F) {
	everyRequest(func(req kmsg.Request) {
		f.Add(req.Key(), req.GetVersion(), kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)[8:])
	})
	f.Fuzz(func(t *testing.T, key, version int16, rest []byte) {
		frame := binary.BigEndian.AppendUint16(nil, uint16(key))
		frame = binary.BigEndian.AppendUint16(frame, uint16(version))
		frame = append(frame, rest...)
		h, body, err := ParseHeader(frame)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("not ErrMalformed: %v", err)
			}
			return
		}
		if _, known := Flexible(h.Key, h.Version); !known {
			if body != nil && !(key == keyControlledShutdown && version == 0) {
				t.Fatalf("a body of an unknown version: %q", body)
			}
			return
		}
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		var walked error
		if key == keyProduce {
			walked = CheckProduce(version, body)
		}
		if req.ReadFrom(body) != nil {
			return
		}
		if walked != nil && len(body) < produceSlack/produceTagCost {
			t.Fatalf("a produce request that decodes is refused: %v", walked)
		}
		again := kmsg.RequestForKey(key)
		again.SetVersion(version)
		if err := again.ReadFrom(req.AppendTo(nil)); err != nil {
			t.Fatalf("%s version %d does not decode after encoding: %v", kmsg.NameForKey(key), version, err)
		}
	})
}
