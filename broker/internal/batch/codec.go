package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
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

const (
	// zstdWindowMax is the largest window in bytes that a pooled zstd decoder
	// allocates. It is what RFC 8878 asks every decoder to support, and what
	// compression levels up to 19 use.
	zstdWindowMax = 8 << 20
	// zstdWideWindowMax is the window of level 22, Kafka's highest. Decoders
	// for it are made on demand, one at a time, so that many clients that
	// claim it cannot fill the memory.
	zstdWideWindowMax = 128 << 20
)

// Codecs keeps compressors and decompressors for reuse. All methods may be
// called concurrently. The zero value is ready to use; it must not be copied
// after its first use.
type Codecs struct {
	gzipReaders, lz4Readers, zstdReaders, snappyReaders sync.Pool
	gzipWriters, lz4Writers, zstdWriters                sync.Pool
	parsers                                             sync.Pool // with their windows

	// wideZstd is held while a decoder with a window above zstdWindowMax is
	// in use.
	wideZstd sync.Mutex
}

// NewCodecs returns empty pools. They fill as they are used, and the garbage
// collector empties them.
func NewCodecs() *Codecs { return &Codecs{} }

// Compress appends src, compressed at the codec's default level, to dst.
func (c *Codecs) Compress(codec Codec, dst, src []byte) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return c.compressGzip(dst, src)
	case Snappy:
		return appendXerial(dst, src), nil
	case LZ4:
		return c.compressLZ4(dst, src)
	case Zstd:
		return c.compressZstd(dst, src)
	}
	return dst, fmt.Errorf("%w: %v", ErrCodec, codec)
}

func (c *Codecs) compressGzip(dst, src []byte) ([]byte, error) {
	w, ok := c.gzipWriters.Get().(*gzip.Writer)
	if !ok {
		w = gzip.NewWriter(nil)
	}
	defer c.gzipWriters.Put(w)
	out := bytes.NewBuffer(dst)
	w.Reset(out)
	return finish(w, out, src, Gzip)
}

func (c *Codecs) compressLZ4(dst, src []byte) ([]byte, error) {
	w, ok := c.lz4Writers.Get().(*lz4.Writer)
	if !ok {
		w = lz4.NewWriter(nil)
		// The options of Kafka's own writer. Java consumers do not check a
		// content checksum.
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)); err != nil {
			return dst, fmt.Errorf("making an lz4 writer: %w", err)
		}
	}
	defer c.lz4Writers.Put(w)
	out := bytes.NewBuffer(dst)
	w.Reset(out)
	return finish(w, out, src, LZ4)
}

// finish writes src through w and returns what out holds then.
func finish(w io.WriteCloser, out *bytes.Buffer, src []byte, codec Codec) ([]byte, error) {
	if _, err := w.Write(src); err != nil {
		return out.Bytes(), fmt.Errorf("compressing with %v: %w", codec, err)
	}
	if err := w.Close(); err != nil {
		return out.Bytes(), fmt.Errorf("compressing with %v: %w", codec, err)
	}
	return out.Bytes(), nil
}

func (c *Codecs) compressZstd(dst, src []byte) ([]byte, error) {
	w, ok := c.zstdWriters.Get().(*zstd.Encoder)
	if !ok {
		var err error
		w, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
		if err != nil {
			return dst, fmt.Errorf("making a zstd writer: %w", err)
		}
	}
	defer c.zstdWriters.Put(w)
	return w.EncodeAll(src, dst), nil
}

// reader is a decompressor on loan from a Codecs.
type reader interface {
	io.Reader
	// release gives it back. It must not be used after that.
	release()
}

// decompress returns a stream of src decompressed. It keeps src until it is
// released. Errors of the stream wrap ErrInvalid, not ErrCorrupt: the checksum
// covers the compressed bytes, so a client sent what cannot be decompressed,
// and sending it again will not help.
func (c *Codecs) decompress(codec Codec, src []byte) (reader, error) {
	switch codec {
	case Gzip:
		return c.gunzip(src)
	case Snappy:
		return c.unsnappy(src)
	case LZ4:
		return c.unlz4(src)
	case Zstd:
		return c.unzstd(src)
	}
	return nil, fmt.Errorf("%w: %v", ErrCodec, codec)
}

func badStream(codec Codec, err error) error {
	return fmt.Errorf("%w: decompressing with %v: %v", ErrInvalid, codec, err)
}

type gzipReader struct {
	src  bytes.Reader
	gz   gzip.Reader
	pool *sync.Pool
}

func (c *Codecs) gunzip(src []byte) (reader, error) {
	r, ok := c.gzipReaders.Get().(*gzipReader)
	if !ok {
		r = &gzipReader{pool: &c.gzipReaders}
	}
	r.src.Reset(src)
	if err := r.gz.Reset(&r.src); err != nil {
		r.release()
		return nil, badStream(Gzip, err)
	}
	return r, nil
}

func (r *gzipReader) Read(p []byte) (int, error) {
	n, err := r.gz.Read(p)
	if err != nil && err != io.EOF {
		err = badStream(Gzip, err)
	}
	return n, err
}

func (r *gzipReader) release() {
	r.src.Reset(nil)
	r.pool.Put(r)
}

type lz4Reader struct {
	src  bytes.Reader
	lz   *lz4.Reader
	pool *sync.Pool
}

func (c *Codecs) unlz4(src []byte) (reader, error) {
	if err := checkLZ4Header(src); err != nil {
		return nil, badStream(LZ4, err)
	}
	r, ok := c.lz4Readers.Get().(*lz4Reader)
	if !ok {
		r = &lz4Reader{pool: &c.lz4Readers, lz: lz4.NewReader(nil)}
	}
	r.src.Reset(src)
	r.lz.Reset(&r.src)
	return r, nil
}

// checkLZ4Header refuses what Kafka's Java consumer could not read although
// the library here could: legacy frames, and blocks that depend on others.
func checkLZ4Header(src []byte) error {
	const (
		magic            = 0x184d2204
		versionMask      = 0xc0
		version1         = 0x40
		independenceFlag = 0x20
	)
	if len(src) < 7 {
		return io.ErrUnexpectedEOF
	}
	if got := binary.LittleEndian.Uint32(src); got != magic {
		return fmt.Errorf("frame begins with %08x instead of %08x", got, uint32(magic))
	}
	flags := src[4]
	if flags&versionMask != version1 {
		return fmt.Errorf("frame version %d instead of 1", flags>>6)
	}
	if flags&independenceFlag == 0 {
		return fmt.Errorf("blocks depend on each other, which Kafka clients do not support")
	}
	return nil
}

func (r *lz4Reader) Read(p []byte) (int, error) {
	n, err := r.lz.Read(p)
	if err != nil && err != io.EOF {
		err = badStream(LZ4, err)
	}
	return n, err
}

func (r *lz4Reader) release() {
	r.src.Reset(nil)
	r.pool.Put(r)
}

type zstdReader struct {
	src bytes.Reader
	zr  *zstd.Decoder
	// giveBack ends the loan.
	giveBack func(*zstdReader)
}

func (c *Codecs) unzstd(src []byte) (reader, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, badStream(Zstd, err)
	}
	r, err := c.zstdDecoder(h.WindowSize)
	if err != nil {
		return nil, err
	}
	r.src.Reset(src)
	if err := r.zr.Reset(&r.src); err != nil {
		r.release()
		return nil, badStream(Zstd, err)
	}
	return r, nil
}

// zstdDecoder returns a decoder whose window may have windowBytes.
func (c *Codecs) zstdDecoder(windowBytes uint64) (*zstdReader, error) {
	wide := windowBytes > zstdWindowMax
	if !wide {
		if r, ok := c.zstdReaders.Get().(*zstdReader); ok {
			return r, nil
		}
	}
	windowMax := uint64(zstdWindowMax)
	if wide {
		windowMax = zstdWideWindowMax
	}
	zr, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowMax))
	if err != nil {
		return nil, fmt.Errorf("making a zstd reader: %w", err)
	}
	if wide {
		c.wideZstd.Lock()
		return &zstdReader{zr: zr, giveBack: func(*zstdReader) { zr.Close(); c.wideZstd.Unlock() }}, nil
	}
	return &zstdReader{zr: zr, giveBack: func(r *zstdReader) { c.zstdReaders.Put(r) }}, nil
}

func (r *zstdReader) Read(p []byte) (int, error) {
	n, err := r.zr.Read(p)
	if err != nil && err != io.EOF {
		err = badStream(Zstd, err)
	}
	return n, err
}

func (r *zstdReader) release() {
	r.src.Reset(nil)
	r.giveBack(r)
}
