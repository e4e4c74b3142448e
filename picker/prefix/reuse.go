package prefix

import (
	"math"
	"sync/atomic"
)

// A prompt read into a full cache evicts the least recently used blocks, which a later request may
// have to read again. A server's list shows how much. Its clock counts used tokens, in pieces, and
// T is the age of the next block to evict. One more token in the cache increases T by 1 / (share of
// uses that miss). So a token that stays for T unused costs T times the share of uses of blocks
// aged about T (3T/4 to T), divided by the share that miss (Che's approximation of LRU).

// reuse is a server's cache usage by the uses of its blocks. Server.mu guards all but evicted.
type reuse struct {
	clock  uint32   // used pieces; wraps
	stamps []uint32 // by node: the clock at its last use
	// Over about the last T: pieces read into the cache, and used pieces aged about T.
	read, old float64
	evicted   atomic.Uint64 // bits of a float64
}

// maxEvicted bounds the evictions per token: few misses are weak evidence.
const maxEvicted = 8

// Evicts is how many tokens the server must read again per token read into its cache, 0 to 8; 0
// while the cache has room.
func (s *Server) Evicts() float64 { return math.Float64frombits(s.reuse.evicted.Load()) }

var blockTokens = blockPieces(MaxBlocks-1) * pieceTokens

type visit struct{ age, used, old, read uint32 }

// s.mu is held.
func (s *Server) visit() (v visit) {
	if s.blocks > 0 {
		v.age = s.reuse.clock - s.reuse.stamps[s.nodes[0].prev]
	}
	return v
}

// touch records that an Add uses an existing block. s.mu is held.
func (s *Server) touch(v *visit, n uint32) {
	pieces := uint32(s.pieces[n])
	v.used += pieces
	if s.reuse.clock-s.reuse.stamps[n] > v.age-v.age/4 {
		v.old += pieces
	}
	s.reuse.stamps[n] = s.reuse.clock
}

// s.mu is held.
func (s *Server) leave(v visit) {
	r := &s.reuse
	r.clock += v.used + v.read
	// A list limited by the Index shows nothing about the server's cache.
	if s.tokens+blockTokens <= s.capacity || v.age == 0 {
		if v.read > 0 {
			r.read, r.old = 0, 0
			r.evicted.Store(0)
		}
		return
	}
	stays := math.Exp(-float64(v.used+v.read) / float64(v.age))
	r.read, r.old = r.read*stays+float64(v.read), r.old*stays+float64(v.old)
	r.evicted.Store(math.Float64bits(min(4*r.old/max(r.read, 1), maxEvicted)))
}
