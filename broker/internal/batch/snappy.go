package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/golang/snappy"
)

// Snappy itself compresses one block. Kafka's Java clients cut the records
// into blocks and frame them as the library xerial/snappy-java does
// (docs/format/record-batch.md); some other clients send one bare block.
// Both are read; the framed form is written.

const (
	// xerialMagic begins the framed form. It cannot begin a bare block, whose
	// length would then be absurd.
	xerialMagic = "\x82SNAPPY\x00"
	// xerialHeaderLen is magic, version and lowest compatible version.
	xerialHeaderLen = len(xerialMagic) + 8
	xerialVersion   = 1
	// xerialBlockBytes is how many bytes of input Java's writer puts into a
	// block.
	xerialBlockBytes = 32 << 10
	// snappyRatioMax bounds how much larger than a block its content can be:
	// the densest element makes 64 bytes of 3.
	snappyRatioMax = 22
)

// appendXerial appends src to dst, compressed and framed.
func appendXerial(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	for len(src) > 0 {
		n := min(len(src), xerialBlockBytes)
		at := len(dst)
		dst = append(dst, make([]byte, 4+snappy.MaxEncodedLen(n))...)
		block := snappy.Encode(dst[at+4:], src[:n])
		binary.BigEndian.PutUint32(dst[at:], uint32(len(block)))
		dst = dst[:at+4+len(block)]
		src = src[n:]
	}
	return dst
}

// snappyReader decompresses block by block.
type snappyReader struct {
	src    []byte // blocks not decompressed yet
	framed bool
	buf    []byte // decompressed block, kept for reuse
	out    []byte // what of buf has not been read
	pool   *sync.Pool
}

func (c *Codecs) unsnappy(src []byte) (reader, error) {
	r, ok := c.snappyReaders.Get().(*snappyReader)
	if !ok {
		r = &snappyReader{pool: &c.snappyReaders}
	}
	r.src, r.framed, r.out = src, bytes.HasPrefix(src, []byte(xerialMagic)), nil
	if !r.framed {
		return r, nil
	}
	if len(src) < xerialHeaderLen {
		r.release()
		return nil, badStream(Snappy, io.ErrUnexpectedEOF)
	}
	r.src = src[xerialHeaderLen:]
	return r, nil
}

func (r *snappyReader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if len(r.src) == 0 {
			return 0, io.EOF
		}
		if err := r.nextBlock(); err != nil {
			return 0, badStream(Snappy, err)
		}
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

func (r *snappyReader) nextBlock() error {
	block := r.src
	r.src = nil
	if r.framed {
		if len(block) < 4 {
			return io.ErrUnexpectedEOF
		}
		size := uint64(binary.BigEndian.Uint32(block))
		block = block[4:]
		if size > uint64(len(block)) {
			return io.ErrUnexpectedEOF
		}
		block, r.src = block[:size], block[size:]
	}
	rawLen, err := snappy.DecodedLen(block)
	if err != nil {
		return err
	}
	if rawLen > snappyRatioMax*len(block) {
		return fmt.Errorf("block of %d bytes claims to hold %d", len(block), rawLen)
	}
	if cap(r.buf) < rawLen {
		r.buf = make([]byte, rawLen)
	}
	r.out, err = snappy.Decode(r.buf[:cap(r.buf)], block)
	return err
}

func (r *snappyReader) release() {
	r.src, r.out = nil, nil
	r.pool.Put(r)
}
