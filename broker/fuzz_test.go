package broker_test

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/brokertest"
)

// FuzzRequestToBroker sends any bytes as the body of any API's version to a
// whole broker. It may answer or hang up, and must go on serving others.
func FuzzRequestToBroker(f *testing.F) {
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for version := range req.MaxVersion() + 1 {
			req := kmsg.RequestForKey(key)
			req.SetVersion(version)
			f.Add(key, version, kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)[12:])
		}
	}
	c := brokertest.Start(f, brokertest.LogTo(slog.DiscardHandler))
	health, err := net.Dial("tcp", c.Addr())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { health.Close() })
	ping := kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)

	f.Fuzz(func(t *testing.T, key, version int16, rest []byte) {
		frame := binary.BigEndian.AppendUint32(nil, uint32(8+len(rest)))
		frame = binary.BigEndian.AppendUint16(frame, uint16(key))
		frame = binary.BigEndian.AppendUint16(frame, uint16(version))
		frame = append(frame, 0, 0, 0, 1)
		frame = append(frame, rest...)
		conn, err := net.Dial("tcp", c.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// A parked answer is not waited for: the next input comes at once.
		_ = conn.SetDeadline(time.Now().Add(5 * time.Millisecond))
		if _, err := conn.Write(frame); err == nil {
			_, _ = io.ReadFull(conn, make([]byte, 4))
		}

		_ = health.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := health.Write(ping); err != nil {
			t.Fatalf("the broker serves nobody any more: %v", err)
		}
		var head [4]byte
		if _, err := io.ReadFull(health, head[:]); err != nil {
			t.Fatalf("the broker serves nobody any more: %v", err)
		}
		if _, err := io.CopyN(io.Discard, health, int64(binary.BigEndian.Uint32(head[:]))); err != nil {
			t.Fatalf("the broker serves nobody any more: %v", err)
		}
	})
}
