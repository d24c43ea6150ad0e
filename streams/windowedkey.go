package streams

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/window"
)

// WindowedKey returns the serde of keys in windows of time: the key as k writes it, then the window's start as eight
// bytes, big-endian milliseconds. It is what [WindowedChanges.To] writes, and Kafka's TimeWindowedSerializer. The end is
// not written: w, which must be the windows that were used, gives it.
func WindowedKey[K any](k serde.Serde[K], w window.Time) serde.Serde[window.Windowed[K]] {
	return windowedKey[K]{k, w}
}

// SessionKey returns the serde of keys of sessions: the key as k writes it, then the times of the session's last and first
// record as eight bytes each, big-endian milliseconds. It is what [WindowedChanges.To] writes for sessions, and Kafka's
// SessionWindowedSerializer.
func SessionKey[K any](k serde.Serde[K]) serde.Serde[window.Windowed[K]] { return sessionKey[K]{k} }

type windowedKey[K any] struct {
	k serde.Serde[K]
	w window.Time
}

func (s windowedKey[K]) Append(dst []byte, v window.Windowed[K]) ([]byte, error) {
	dst, err := s.k.Append(dst, v.Key)
	return binary.BigEndian.AppendUint64(dst, uint64(v.Start)), err
}

func (s windowedKey[K]) Decode(src []byte) (window.Windowed[K], error) {
	var w window.Windowed[K]
	n := len(src) - 8
	if n < 0 {
		return w, fmt.Errorf("a windowed key of %d bytes has no room for the window's start", len(src))
	}
	start := window.Instant(binary.BigEndian.Uint64(src[n:]))
	if start < 0 {
		return w, errors.New("a windowed key has a window that starts before 1970")
	}
	k, err := s.k.Decode(src[:n:n])
	return window.Windowed[K]{Key: k, Span: s.w.Starting(start)}, err
}

func (s windowedKey[K]) For(topic string, part serde.Part) serde.Serde[window.Windowed[K]] {
	return windowedKey[K]{serde.Bind(s.k, topic, part), s.w}
}

type sessionKey[K any] struct{ k serde.Serde[K] }

func (s sessionKey[K]) Append(dst []byte, v window.Windowed[K]) ([]byte, error) {
	dst, err := s.k.Append(dst, v.Key)
	return state.AppendSessionKey(dst, nil, v.Span), err
}

func (s sessionKey[K]) Decode(src []byte) (window.Windowed[K], error) {
	raw, span, err := state.SplitSessionKey(src)
	if err != nil {
		return window.Windowed[K]{}, err
	}
	k, err := s.k.Decode(raw)
	return window.Windowed[K]{Key: k, Span: span}, err
}

func (s sessionKey[K]) For(topic string, part serde.Part) serde.Serde[window.Windowed[K]] {
	return sessionKey[K]{serde.Bind(s.k, topic, part)}
}
