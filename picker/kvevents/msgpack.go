package kvevents

import (
	"encoding/binary"
	"math"
)

// reader reads MessagePack without allocations. Lengths in the input may be wrong: an array of n
// elements must have at least n bytes. After an error, bad is true and all results are zero.
type reader struct {
	p   []byte
	at  int
	bad bool
}

func (r *reader) fail() { r.bad, r.at = true, len(r.p) }

func (r *reader) left() int { return len(r.p) - r.at }

func (r *reader) take(n int) []byte {
	if n < 0 || n > r.left() {
		r.fail()
		return nil
	}
	r.at += n
	return r.p[r.at-n : r.at]
}

func (r *reader) number(size int) uint64 {
	b := r.take(size)
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	case 8:
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

type kind uint8

const (
	invalid kind = iota
	null
	integer
	text
	array
	mapping
	other
)

type value struct {
	kind kind
	n    uint64
}

func (r *reader) head() value {
	b := r.take(1)
	if r.bad {
		return value{}
	}
	switch c := b[0]; {
	case c <= 0x7f:
		return value{integer, uint64(c)}
	case c <= 0x8f:
		return r.counted(mapping, uint64(c&0x0f))
	case c <= 0x9f:
		return r.counted(array, uint64(c&0x0f))
	case c <= 0xbf:
		return r.counted(text, uint64(c&0x1f))
	case c >= 0xe0:
		return value{integer, uint64(int8(c))}
	case c == 0xc0:
		return value{kind: null}
	case c == 0xc2, c == 0xc3:
		return value{kind: other}
	case c >= 0xc4 && c <= 0xc6:
		return r.counted(text, r.number(1<<(c-0xc4)))
	case c >= 0xc7 && c <= 0xc9:
		return r.skipped(int(r.number(1<<(c-0xc7))) + 1)
	case c == 0xca || c == 0xcb:
		return r.skipped(4 << (c - 0xca))
	case c >= 0xcc && c <= 0xcf:
		return value{integer, r.number(1 << (c - 0xcc))}
	case c >= 0xd0 && c <= 0xd3:
		size := 1 << (c - 0xd0)
		shift := 64 - 8*size
		return value{integer, uint64(int64(r.number(size)<<shift) >> shift)}
	case c >= 0xd4 && c <= 0xd8:
		return r.skipped(1<<(c-0xd4) + 1)
	case c >= 0xd9 && c <= 0xdb:
		return r.counted(text, r.number(1<<(c-0xd9)))
	case c == 0xdc || c == 0xdd:
		return r.counted(array, r.number(2<<(c-0xdc)))
	case c == 0xde || c == 0xdf:
		return r.counted(mapping, r.number(2<<(c-0xde)))
	}
	r.fail()
	return value{}
}

func (r *reader) counted(k kind, n uint64) value {
	need := n
	if k == mapping {
		need = 2 * n
	}
	if r.bad || n > math.MaxInt32 || need > uint64(r.left()) {
		r.fail()
		return value{}
	}
	return value{k, n}
}

func (r *reader) skipped(n int) value {
	if r.take(n); r.bad {
		return value{}
	}
	return value{kind: other}
}

func (r *reader) skip() []byte {
	from := r.at
	for pending := uint64(1); pending > 0 && !r.bad; pending-- {
		switch v := r.head(); v.kind {
		case text:
			r.take(int(v.n))
		case array:
			pending += v.n
		case mapping:
			pending += 2 * v.n
		}
		if pending > uint64(r.left())+1 {
			r.fail()
		}
	}
	if r.bad {
		return nil
	}
	return r.p[from:r.at]
}

func (r *reader) text() []byte {
	v := r.head()
	if v.kind != text {
		return nil
	}
	return r.take(int(v.n))
}
