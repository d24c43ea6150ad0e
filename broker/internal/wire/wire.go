// Package wire knows how Kafka requests and replies are framed.
//
// A frame is a length of four bytes, big-endian, and that many bytes. A
// request's frame begins with a header whose shape depends on the API key and
// version in its first four bytes; a reply's frame begins with the correlation
// id of its request. Since KIP-482 the newer ("flexible") versions of an API
// end their headers with tagged fields. docs/design/broker-front.md describes
// the limits.
//
// The package reads headers, bounds sizes and puts replies together. What the
// bodies mean is no business of it.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrMalformed says that bytes are not a request. Nothing after them on the
// same connection can be trusted.
var ErrMalformed = errors.New("malformed request")

// Header is the header of a request, of any version.
type Header struct {
	Key           int16
	Version       int16
	CorrelationID int32
	// ClientID is what the client calls itself; empty when it sent none.
	ClientID string
}

// ApiVersions is the key of the one API whose reply header is never flexible:
// a client reads it before it knows which versions the broker speaks (KIP-511).
const (
	keyProduce            = int16(kmsg.Produce)
	keyControlledShutdown = int16(kmsg.ControlledShutdown)
	keyApiVersions        = int16(kmsg.ApiVersions)
)

// PrefixLen is how many bytes of a frame [Peek] needs.
const PrefixLen = 4

// Peek reads the key and version from the first PrefixLen bytes of a frame.
func Peek(frame []byte) (key, version int16) {
	return int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
}

// ParseHeader splits a request's frame, without its length, into the header
// and the body. The body aliases the frame. A flexible header's tagged fields
// are skipped: Kafka defines none for requests.
//
// The header of an unknown key or version is read as far as the client id,
// and its body is nil: nobody can tell where the body begins.
func ParseHeader(frame []byte) (h Header, body []byte, err error) {
	if len(frame) < 8 {
		return Header{}, nil, fmt.Errorf("%w: a frame of %d bytes is shorter than any header", ErrMalformed, len(frame))
	}
	h.Key, h.Version = Peek(frame)
	h.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	rest := frame[8:]
	if h.Key == keyControlledShutdown && h.Version == 0 {
		return h, rest, nil // the only request without a client id
	}
	if h.ClientID, rest, err = readNullableString(rest); err != nil {
		return h, nil, fmt.Errorf("reading the client id of key %d version %d: %w", h.Key, h.Version, err)
	}
	flexible, known := Flexible(h.Key, h.Version)
	if !known {
		return h, nil, nil
	}
	if flexible {
		if rest, err = skipTags(rest); err != nil {
			return h, nil, fmt.Errorf("reading the header tags of key %d version %d: %w", h.Key, h.Version, err)
		}
	}
	return h, rest, nil
}

// Flexible reports whether a version of an API is flexible (KIP-482), and
// whether the pair is known at all.
func Flexible(key, version int16) (flexible, known bool) {
	req := kmsg.RequestForKey(key)
	if req == nil || version < 0 || version > req.MaxVersion() {
		return false, false
	}
	req.SetVersion(version)
	return req.IsFlexible(), true
}

func readNullableString(b []byte) (string, []byte, error) {
	if len(b) < 2 {
		return "", nil, fmt.Errorf("%w: no room for a string's length", ErrMalformed)
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n < 0 {
		return "", b, nil
	}
	if n > len(b) {
		return "", nil, fmt.Errorf("%w: a string of %d bytes in %d", ErrMalformed, n, len(b))
	}
	return string(b[:n]), b[n:], nil
}

func skipTags(b []byte) ([]byte, error) {
	count, b, err := readUvarint(b)
	if err != nil {
		return nil, err
	}
	for ; count > 0; count-- {
		if _, b, err = readUvarint(b); err != nil {
			return nil, err
		}
		var size uint64
		if size, b, err = readUvarint(b); err != nil {
			return nil, err
		}
		if size > uint64(len(b)) {
			return nil, fmt.Errorf("%w: a tag of %d bytes in %d", ErrMalformed, size, len(b))
		}
		b = b[size:]
	}
	return b, nil
}

func readUvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || n > 5 {
		return 0, nil, fmt.Errorf("%w: not a varint", ErrMalformed)
	}
	return v, b[n:], nil
}
