package prefix

import (
	"math/bits"
	"sync/atomic"
)

// former maps a block that no server has any longer to the server that evicted it last. Each block
// has one place in the table, where a later block may replace it. The place depends only on the
// block, so that simulations have the same result in all processes. An entry has the upper bits of
// the block's hash, and the server's ID plus 1.
type former struct {
	table atomic.Pointer[[]atomic.Uint64]
}

const (
	minFormer = 1 << 10
	maxFormer = 1 << 20
	// formerIDs bounds the server IDs in entries. In an entry, the ID replaces the low bits of the
	// block's hash. The entry's index has these bits, because a table has at most maxFormer places.
	formerIDs = 1 << 20
)

// add records that server id evicted a block that no other server has. held counts the blocks of
// all servers. If held exceeds the table's size, a larger, empty table replaces the table.
func (f *former) add(key uint64, id uint32, held int64) {
	if id+1 >= formerIDs {
		return
	}
	t := f.table.Load()
	if size := min(max(minFormer, 1<<bits.Len64(uint64(max(held, 0)))), maxFormer); t == nil || len(*t) < size {
		larger := make([]atomic.Uint64, size)
		if !f.table.CompareAndSwap(t, &larger) {
			return
		}
		t = &larger
	}
	at := mix(key, formerIDs)
	(*t)[at&uint64(len(*t)-1)].Store(at&^(formerIDs-1) | uint64(id+1))
}

func (f *former) home(key uint64) (id uint32, ok bool) {
	t := f.table.Load()
	if t == nil {
		return 0, false
	}
	at := mix(key, formerIDs)
	entry := (*t)[at&uint64(len(*t)-1)].Load()
	if entry == 0 || entry&^(formerIDs-1) != at&^(formerIDs-1) {
		return 0, false
	}
	return uint32(entry&(formerIDs-1)) - 1, true
}

// Former finds the server that last had the blocks of a prompt that no server has now. tokens is
// the length of the longest prefix that a server has now. Former returns the server's index in
// servers, and until: how many of the prompt's first tokens the server had.
func (x *Index) Former(c Chain, tokens int, servers []*Server) (server, until int, ok bool) {
	first := blocksIn(tokens)
	if first >= len(c) {
		return 0, 0, false
	}
	id, ok := x.former.near(c, first)
	if !ok {
		return 0, 0, false
	}
	for server = range servers {
		if servers[server].id == id {
			return server, End(x.formerEnd(c, first, id)), true
		}
	}
	return 0, 0, false
}

func (x *Index) formerEnd(c Chain, first int, id uint32) int {
	low, high := first, len(c)
	for high-low > 1 {
		middle := (low + high) / 2
		if at, ok := x.former.near(c, middle); ok && at == id {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// near returns the last server of a block. If another block has replaced the block's entry, near
// tries the next two blocks.
func (f *former) near(c Chain, block int) (id uint32, ok bool) {
	for i := block; i < min(block+3, len(c)) && !ok; i++ {
		id, ok = f.home(c[i])
	}
	return id, ok
}

func blocksIn(tokens int) int {
	n, pieces := 0, tokens/pieceTokens
	for _, s := range spans {
		in := min(pieces/s.pieces, s.blocks)
		n += in
		if in < s.blocks {
			break
		}
		pieces -= in * s.pieces
	}
	return n
}
