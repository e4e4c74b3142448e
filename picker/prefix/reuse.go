package prefix

import (
	"math"
	"sync/atomic"
)

// A prompt that is read into a full cache evicts the least recently used blocks, which the server
// may have to read again for later requests. Let T be the age of the next block to evict. A block's
// age is the number of tokens used since its last use. Let M be the share of uses that miss the
// cache. Let A be the density of uses by age at about T, from the uses of blocks aged 3T/4 to T.
// One more token in the cache increases T by 1/M. So a token that is read, and then stays unused
// for T, costs T x A/M tokens (Che's approximation of LRU).

// reuse estimates how many tokens evictions cost. Server.mu guards all fields except evicted.
type reuse struct {
	clock  uint32   // used pieces so far; wraps
	stamps []uint32 // clock at the last use of each node
	// read counts the pieces read into the cache, and old the used pieces of age 3T/4 to T. Both
	// decay, so that they cover about the last T.
	read, old float64
	evicted   atomic.Uint64 // result of Evicts; bits of a float64
}

// maxEvicted bounds the result of Evicts: after few misses the estimate is uncertain.
const maxEvicted = 8

// Evicts returns how many tokens the server must later read again for each token read into its
// cache: from 0 (the cache has room) to maxEvicted.
func (s *Server) Evicts() float64 { return math.Float64frombits(s.reuse.evicted.Load()) }

var blockTokens = blockPieces(MaxBlocks-1) * pieceTokens

type visit struct{ age, used, old, read uint32 }

// The caller holds s.mu.
func (s *Server) visit() (v visit) {
	if s.blocks > 0 {
		v.age = s.reuse.clock - s.reuse.stamps[s.nodes[0].prev]
	}
	return v
}

// The caller holds s.mu.
func (s *Server) touch(v *visit, n uint32) {
	pieces := uint32(s.pieces[n])
	v.used += pieces
	if s.reuse.clock-s.reuse.stamps[n] > v.age-v.age/4 {
		v.old += pieces
	}
	s.reuse.stamps[n] = s.reuse.clock
}

// The caller holds s.mu.
func (s *Server) leave(v visit) {
	r := &s.reuse
	r.clock += v.used + v.read
	// The cache still has room, or the Index's limit evicts blocks before the server does.
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
