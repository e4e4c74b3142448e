package prefix

import (
	"math"
	"sync/atomic"
)

// A prompt that is read into a full cache evicts what was used longest ago, and a later request may
// have to read that again. How much follows from what a server's list shows. Its clock counts the
// tokens that were used, in pieces, and T is the age of the block to be evicted next. One token
// more in the cache makes T longer by 1 over the share of uses that miss. So a token that stays for
// T without another use costs T times the share of uses whose block had about the age T, over the
// share that miss (Che's approximation of LRU). Ages from 3T/4 to T count as about T.

// reuse has what the uses of a server's blocks show about its cache. Server.mu guards it, but for
// evicted.
type reuse struct {
	clock  uint32   // pieces used; it wraps
	stamps []uint32 // by node: the clock at its last use
	// Of about the last T: pieces that were read into the cache, and pieces used whose age was
	// about T.
	read, old float64
	evicted   atomic.Uint64 // bits of a float64
}

// maxEvicted bounds what a token evicts: few misses show little.
const maxEvicted = 8

// Evicts is how many tokens the server will have to read again because of one token that is read
// into its cache: 0 while the cache has room, at most 8.
func (s *Server) Evicts() float64 { return math.Float64frombits(s.reuse.evicted.Load()) }

// blockTokens is the size of the largest block.
var blockTokens = blockPieces(MaxBlocks-1) * pieceTokens

// visit counts what one Add uses and reads, in pieces, of a list whose oldest block has an age.
type visit struct{ age, used, old, read uint32 }

// visit begins an Add. s.mu is held.
func (s *Server) visit() (v visit) {
	if s.blocks > 0 {
		v.age = s.reuse.clock - s.reuse.stamps[s.nodes[0].prev]
	}
	return v
}

// touch notes that an Add uses a block that the server has. s.mu is held.
func (s *Server) touch(v *visit, n uint32) {
	pieces := uint32(s.pieces[n])
	v.used += pieces
	if s.reuse.clock-s.reuse.stamps[n] > v.age-v.age/4 {
		v.old += pieces
	}
	s.reuse.stamps[n] = s.reuse.clock
}

// leave ends an Add. s.mu is held.
func (s *Server) leave(v visit) {
	r := &s.reuse
	r.clock += v.used + v.read
	// A list that is limited by the room of the Index shows nothing about the server's cache.
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
