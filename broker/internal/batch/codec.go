package batch

import (
	"fmt"
	"io"
)

// Codec is how the records of a batch are compressed.
type Codec int8

// The codecs of the Kafka protocol.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

// String returns the name that compression.type uses.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

// ParseCodec returns the codec of a name that compression.type uses:
// none, uncompressed, gzip, snappy, lz4 or zstd. The name "producer", which
// means to keep what the client chose, is not a codec.
func ParseCodec(name string) (Codec, error) {
	if name == "uncompressed" {
		return None, nil
	}
	for c := None; c <= Zstd; c++ {
		if c.String() == name {
			return c, nil
		}
	}
	return None, fmt.Errorf("%w: %q; known are none, gzip, snappy, lz4 and zstd", ErrCodec, name)
}

// Codecs keeps compressors and decompressors for reuse. All methods may be
// called concurrently. The zero value is not usable: call [NewCodecs].
type Codecs struct{}

// NewCodecs returns empty pools. They fill as they are used, and the garbage
// collector empties them.
func NewCodecs() *Codecs { return &Codecs{} }

// Compress appends src, compressed, to dst.
func (c *Codecs) Compress(codec Codec, dst, src []byte) ([]byte, error) { panic("being written") }

// reader is a decompressor on loan.
type reader interface {
	io.Reader
	release()
}

func (c *Codecs) decompress(codec Codec, src []byte) (reader, error) { panic("being written") }
