package batch

import "encoding/binary"

// Recompress returns v with its records compressed by codec instead: v itself
// when it is so already, else a new batch. Everything but codec, length and
// checksum is as before. Topics whose compression.type names a codec need it.
// The records are held in memory; more than rawBytesMax of them is ErrInvalid.
func Recompress(v View, codec Codec, c *Codecs, rawBytesMax int64) (View, error) {
	if v.Codec() == codec {
		return v, nil
	}
	p, err := newParser(v, c, rawBytesMax)
	if err != nil {
		return nil, err
	}
	defer p.close()
	raw, err := p.all()
	if err != nil {
		return nil, err
	}
	out := make([]byte, HeaderLen, HeaderLen+len(raw))
	copy(out, v[:HeaderLen])
	out, err = c.Compress(codec, out, raw)
	if err != nil {
		return nil, err
	}
	next := View(out)
	binary.BigEndian.PutUint32(next[atLength:], uint32(len(next)-PrefixLen))
	binary.BigEndian.PutUint16(next[atAttributes:], uint16(v.Attributes()&^codecMask|Attributes(codec)))
	next.setCRC()
	return next, nil
}

// all returns what is left of the payload, in memory. It is valid until the
// parser is closed.
func (p *parser) all() ([]byte, error) {
	for {
		have := len(p.buf) - p.pos
		if err := p.fill(have + 1); err != nil {
			return nil, err
		}
		if len(p.buf)-p.pos == have {
			return p.buf[p.pos:], nil
		}
	}
}
