package prefix

import (
	"math"
	"net/netip"
	"sync"
)

// DefaultCapacity is the assumed size of an unreported cache, in tokens.
const DefaultCapacity = 2_000_000

// Server is the LRU list of the blocks that a model server has cached.
type Server struct {
	index *Index
	key   netip.AddrPort
	id    uint32
	refs  int // guarded by Index.mu

	reported reported
	reuse    reuse

	mu       sync.Mutex
	released bool
	capacity int
	tokens   int

	// nodes is a ring. Node 0 has no block: its next node is the most recently used block, and its
	// previous node is the block to evict next.
	nodes  []node
	pieces []uint8 // of each node's block, in pieces of 64 tokens
	// uses counts, for each node, the prompts with its block that were added and not reverted
	// (Forget), up to alwaysUsed.
	uses   []uint8
	free   uint32 // first free node, linked by next; 0 if all nodes are in use
	blocks int
	slots  []uint32 // hash table of nodes; 0 means free
}

type node struct {
	hash       uint64
	prev, next uint32
}

// SetCapacity sets the size of the server's cache in tokens; 0 or less means DefaultCapacity.
func (s *Server) SetCapacity(tokens int) {
	if tokens <= 0 {
		tokens = DefaultCapacity
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity = tokens
	s.shrink(0, 0)
}

// Blocks returns the size of the server's cache, in blocks of 64 tokens.
func (s *Server) Blocks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capacity / pieceTokens
}

// Forget never removes a block whose count is alwaysUsed.
const alwaysUsed = math.MaxUint8

// longBytesPerToken is the mean length of long tokens in text, in bytes.
const longBytesPerToken = 5

// Fits reports whether a server's cache can hold a prompt even if the prompt's tokens are long.
// tokens is the prompt's length at BytesPerToken. A server rejects prompts that do not fit.
func (s *Server) Fits(tokens int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return tokens*BytesPerToken/longBytesPerToken <= s.capacity
}

func (s *Server) room(c Chain) Chain {
	c = c[:min(len(c), s.index.share())]
	for len(c) > 0 && End(len(c)-1) > s.capacity {
		c = c[:len(c)-1]
	}
	return c
}

func (s *Server) add(c Chain) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return
	}
	c = s.room(c)
	v := s.visit()
	at, known := uint32(0), 0
	for follows := uint32(0); known < len(c); known++ {
		// The blocks of a chain are usually adjacent in the list, so the next block needs no
		// look-up.
		n := follows
		if n == 0 || s.nodes[n].hash != c[known] {
			if n = s.find(c[known]); n == 0 {
				break
			}
		}
		follows = s.nodes[n].next
		s.touch(&v, n)
		s.useBehind(n, at)
		at = n
	}
	for i := known; i < len(c); i++ {
		// The server has this block, but lacks an earlier one: Forget removed it for a prompt that
		// was never added here, such as a peer's.
		if n := s.find(c[i]); n != 0 {
			s.touch(&v, n)
			s.useBehind(n, at)
			at = n
			continue
		}
		s.shrink(1, blockPieces(i)*pieceTokens)
		at = s.insertBehind(c[i], uint8(blockPieces(i)), at)
		v.read += uint32(blockPieces(i))
		s.index.holders.add(c[i], s.id)
	}
	s.leave(v)
}

// forget reverts one add of a chain. The counts of a block's successors add up to at most its own
// count, so forget never removes a block before its successors. If the chain's last block was
// evicted, forget has no effect: the counts may no longer include the add.
func (s *Server) forget(c Chain) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.room(c)
	if s.released || len(c) == 0 || s.find(c[len(c)-1]) == 0 {
		return
	}
	for i := len(c) - 1; i >= 0; i-- {
		n := s.find(c[i])
		switch {
		case n == 0 || s.uses[n] == alwaysUsed:
		case s.uses[n] == 1:
			s.evict(n)
		default:
			s.uses[n]--
		}
	}
}

func (s *Server) shrink(blocks, tokens int) {
	limit := s.index.share()
	for s.blocks > 0 && (s.blocks+blocks > limit || s.tokens+tokens > s.capacity) {
		oldest := s.nodes[0].prev
		if hash := s.nodes[oldest].hash; s.evict(oldest) {
			s.index.former.add(hash, s.id, s.index.held.Load())
		}
	}
}

func (s *Server) evict(n uint32) (last bool) {
	last = s.index.holders.remove(s.nodes[n].hash, s.id)
	s.unslot(n)
	s.unlink(n)
	s.tokens -= int(s.pieces[n]) * pieceTokens
	s.blocks--
	s.index.held.Add(-1)
	s.nodes[n].next = s.free
	s.free = n
	return last
}

func (s *Server) insertBehind(hash uint64, pieces uint8, at uint32) uint32 {
	n := s.free
	if n == 0 {
		s.grow()
		n = s.free
	}
	s.free = s.nodes[n].next
	s.nodes[n].hash, s.pieces[n], s.uses[n], s.reuse.stamps[n] = hash, pieces, 1, s.reuse.clock
	s.link(n, at)
	s.slots[s.place(hash)] = n
	s.tokens += int(pieces) * pieceTokens
	s.blocks++
	s.index.held.Add(1)
	return n
}

func (s *Server) useBehind(n, at uint32) {
	s.moveBehind(n, at)
	s.uses[n] = min(s.uses[n], alwaysUsed-1) + 1
}

func (s *Server) moveBehind(n, at uint32) {
	if s.nodes[at].next == n {
		return
	}
	s.unlink(n)
	s.link(n, at)
}

func (s *Server) link(n, at uint32) {
	next := s.nodes[at].next
	s.nodes[n].prev, s.nodes[n].next = at, next
	s.nodes[at].next, s.nodes[next].prev = n, n
}

func (s *Server) unlink(n uint32) {
	prev, next := s.nodes[n].prev, s.nodes[n].next
	s.nodes[prev].next, s.nodes[next].prev = next, prev
}

func (s *Server) find(hash uint64) uint32 {
	if len(s.slots) == 0 {
		return 0
	}
	return s.slots[s.place(hash)]
}

func (s *Server) place(hash uint64) int {
	mask := len(s.slots) - 1
	at := int(home(hash)) & mask
	for s.slots[at] != 0 && s.nodes[s.slots[at]].hash != hash {
		at = (at + 1) & mask
	}
	return at
}

func (s *Server) unslot(n uint32) {
	mask := len(s.slots) - 1
	at := s.place(s.nodes[n].hash)
	for next := at; ; {
		next = (next + 1) & mask
		other := s.slots[next]
		if other == 0 {
			break
		}
		if from := int(home(s.nodes[other].hash)) & mask; (next-from)&mask < (next-at)&mask {
			continue
		}
		s.slots[at] = other
		at = next
	}
	s.slots[at] = 0
}

func (s *Server) grow() {
	size := min(max(2*len(s.nodes), minSlots), max(s.index.share(), s.blocks)+2)
	nodes, pieces, uses, stamps := make([]node, size), make([]uint8, size), make([]uint8, size), make([]uint32, size)
	copy(nodes, s.nodes)
	copy(stamps, s.reuse.stamps)
	copy(pieces, s.pieces)
	copy(uses, s.uses)
	for n := size - 1; n >= max(len(s.nodes), 1); n-- {
		nodes[n].next = s.free
		s.free = uint32(n)
	}
	s.nodes, s.pieces, s.uses, s.reuse.stamps = nodes, pieces, uses, stamps
	if 3*len(s.slots) >= 4*size {
		return
	}
	slots := max(len(s.slots), minSlots)
	for 3*slots < 4*size {
		slots *= 2
	}
	s.slots = make([]uint32, slots)
	for n := s.nodes[0].next; n != 0; n = s.nodes[n].next {
		s.slots[s.place(s.nodes[n].hash)] = n
	}
}

func (s *Server) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks <= s.index.share() {
		return
	}
	s.shrink(0, 0)
	old, last := s.nodes, s.nodes[0].prev
	sizes, uses, stamps := s.pieces, s.uses, s.reuse.stamps
	s.reset()
	for n := last; n != 0; n = old[n].prev {
		to := s.insertBehind(old[n].hash, sizes[n], 0)
		s.uses[to], s.reuse.stamps[to] = uses[n], stamps[n]
	}
}

func (s *Server) clear() {
	if s.blocks == 0 {
		return
	}
	for n := s.nodes[0].next; n != 0; n = s.nodes[n].next {
		s.index.holders.remove(s.nodes[n].hash, s.id)
	}
	s.reset()
}

func (s *Server) reset() {
	s.index.held.Add(-int64(s.blocks))
	s.nodes, s.pieces, s.uses, s.slots, s.free, s.blocks, s.tokens = nil, nil, nil, nil, 0, 0, 0
	s.reuse.stamps = nil
}
