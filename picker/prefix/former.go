package prefix

import (
	"math/bits"
	"sync/atomic"
)

// former leads from a block that no server has any more to its former home: the server that evicted
// the last copy. It is a table with one place for a block, so a later block replaces an earlier
// one. Places follow from blocks alone: simulations give equal results in all processes. Clients
// who make blocks collide lose hints, as by many prompts. An entry has the upper bits of the
// block's place, and the server's ID plus 1; 0 is none.
type former struct {
	table atomic.Pointer[[]atomic.Uint64]
}

const (
	minFormer = 1 << 10 // entries
	maxFormer = 1 << 20
	// formerIDs bounds the IDs of servers in entries. The bits that select one of maxFormer places
	// are not kept.
	formerIDs = 1 << 20
)

// add records the former home of a block. held is how many blocks all servers have: the table has
// up to twice as many places, and a larger one begins empty.
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

// of returns the ID of a block's former home.
func (f *former) of(key uint64) (id uint32, ok bool) {
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

// Former returns which of servers is the former home of what follows the first tokens of a prompt,
// and up to which token; ok is false if there is none. No server has more of the prompt than these
// first tokens.
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

// formerEnd returns the last block after first that has the same former home. The end of a prompt
// is evicted first, so such blocks follow each other.
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

// near returns the former home of a block, or of one of the next two: later blocks may have taken
// its place.
func (f *former) near(c Chain, block int) (id uint32, ok bool) {
	for i := block; i < min(block+3, len(c)) && !ok; i++ {
		id, ok = f.of(c[i])
	}
	return id, ok
}

// blocksIn returns how many whole blocks a number of tokens has.
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
