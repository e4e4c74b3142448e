package extproc

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

var errTruncated = errors.New("message ends inside a field")

const maxGroupDepth = 32

// cursor reads protobuf from gRPC's buffers without joining them.
type cursor struct {
	bufs mem.BufferSlice
	cur  []byte // rest of bufs[idx]
	idx  int
	left int
}

func newCursor(bufs mem.BufferSlice) cursor {
	c := cursor{bufs: bufs, left: bufs.Len()}
	if len(bufs) > 0 {
		c.cur = bufs[0].ReadOnlyData()
	}
	return c
}

// advance makes c.cur non-empty. The caller checks that bytes are left.
func (c *cursor) advance() {
	for len(c.cur) == 0 {
		c.idx++
		c.cur = c.bufs[c.idx].ReadOnlyData()
	}
}

func (c *cursor) varint() (uint64, error) {
	var v uint64
	for shift := uint(0); shift < 64; shift += 7 {
		if c.left == 0 {
			return 0, errTruncated
		}
		c.advance()
		b := c.cur[0]
		c.cur = c.cur[1:]
		c.left--
		if shift == 63 && b > 1 {
			break
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, errors.New("varint overflows 64 bits")
}

func (c *cursor) tag() (protowire.Number, protowire.Type, error) {
	v, err := c.varint()
	if err != nil {
		return 0, 0, err
	}
	num, typ := protowire.DecodeTag(v)
	if num < protowire.MinValidNumber {
		return 0, 0, fmt.Errorf("field number %d is out of range", num)
	}
	return num, typ, nil
}

func (c *cursor) length() (int, error) {
	v, err := c.varint()
	if err != nil {
		return 0, err
	}
	if v > uint64(c.left) {
		return 0, errTruncated
	}
	return int(v), nil
}

// bytes copies only if the bytes are in several buffers.
func (c *cursor) bytes(n int) []byte {
	if n == 0 {
		return nil
	}
	c.advance()
	if n <= len(c.cur) {
		b := c.cur[:n:n]
		c.cur = c.cur[n:]
		c.left -= n
		return b
	}
	b := make([]byte, 0, n)
	for n > 0 {
		c.advance()
		k := min(n, len(c.cur))
		b = append(b, c.cur[:k]...)
		c.cur = c.cur[k:]
		c.left -= k
		n -= k
	}
	return b
}

// slice appends views of the next n bytes to dst. Each view holds a reference.
func (c *cursor) slice(dst mem.BufferSlice, n int) mem.BufferSlice {
	for n > 0 {
		c.advance()
		k := min(n, len(c.cur))
		from := c.bufs[c.idx].Len() - len(c.cur)
		dst = append(dst, c.bufs[c.idx].Slice(from, from+k))
		c.cur = c.cur[k:]
		c.left -= k
		n -= k
	}
	return dst
}

func (c *cursor) discard(n int) error {
	if n > c.left {
		return errTruncated
	}
	for n > 0 {
		c.advance()
		k := min(n, len(c.cur))
		c.cur = c.cur[k:]
		c.left -= k
		n -= k
	}
	return nil
}

func (c *cursor) skip(num protowire.Number, typ protowire.Type, depth int) error {
	switch typ {
	case protowire.VarintType:
		_, err := c.varint()
		return err
	case protowire.Fixed32Type:
		return c.discard(4)
	case protowire.Fixed64Type:
		return c.discard(8)
	case protowire.BytesType:
		n, err := c.length()
		if err != nil {
			return err
		}
		return c.discard(n)
	case protowire.StartGroupType:
		if depth == maxGroupDepth {
			return errors.New("groups nested too deep")
		}
		for {
			inner, innerType, err := c.tag()
			if err != nil {
				return err
			}
			if innerType == protowire.EndGroupType {
				if inner != num {
					return errors.New("group ends with another number")
				}
				return nil
			}
			if err := c.skip(inner, innerType, depth+1); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("wire type %d does not exist", typ)
}

// fields calls f for each field of b that is length-delimited (value in val) or a varint (in
// num64).
func fields(b []byte, f func(num protowire.Number, val []byte, num64 uint64, typ protowire.Type) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		switch typ {
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			if err := f(num, v, 0, typ); err != nil {
				return err
			}
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			if err := f(num, nil, v, typ); err != nil {
				return err
			}
		default:
			n := protowire.ConsumeFieldValue(num, typ, b)
			if n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
		}
	}
	return nil
}
