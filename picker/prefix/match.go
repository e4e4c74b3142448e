package prefix

import (
	"math/bits"
	"sync"
)

// Match sets cached[i] to the number of the prompt's first tokens that servers[i] has cached. No
// server may be nil. Both slices have the same length.
func (x *Index) Match(c Chain, servers []*Server, cached []int32) {
	clear(cached)
	if len(c) == 0 || len(servers) == 0 {
		return
	}
	m := matches.Get().(*match)
	defer matches.Put(m)
	m.begin(&x.holders, c, servers)
	if m.holders.intersect(c[0], m.first, m.sets[0], m.sets[1]) {
		m.search(0, len(c), 1, 0, m.words)
	}
	for i, s := range servers {
		cached[i] = int32(m.depths[s.id-32*m.first])
	}
}

var matches = sync.Pool{New: func() any { return new(match) }}

type match struct {
	holders *holders
	chain   Chain
	first   uint32
	words   int
	memory  []uint32
	// sets has one set for the given servers, and two for each halving of the chain by search.
	sets   [2 + 2*10][]uint32
	depths []int32 // cached tokens by server; the first element is for ID 32 x first
}

func (m *match) begin(h *holders, c Chain, servers []*Server) {
	m.holders, m.chain = h, c
	low, high := servers[0].id/32, servers[0].id/32
	for _, s := range servers {
		low, high = min(low, s.id/32), max(high, s.id/32)
	}
	m.first, m.words = low, int(high-low)+1
	if need := len(m.sets) * m.words; cap(m.memory) < need {
		m.memory = make([]uint32, need)
		m.depths = make([]int32, 32*m.words)
	}
	for i := range m.sets {
		m.sets[i] = m.memory[i*m.words : (i+1)*m.words]
	}
	m.depths = m.depths[:32*m.words]
	clear(m.depths)
	clear(m.sets[0])
	for _, s := range servers {
		m.sets[0][s.id/32-low] |= 1 << (s.id % 32)
	}
}

// search finds the number of cached tokens of each server in sets[set], by a binary search for all
// servers at once. All these servers have block low and lack block high. search reads only the
// words [from, to) of a set: servers that were added together often have the same part cached.
func (m *match) search(low, high, set, from, to int) {
	for from < to && m.sets[set][from] == 0 {
		from++
	}
	for from < to && m.sets[set][to-1] == 0 {
		to--
	}
	all := m.sets[set][from:to]
	if high-low == 1 {
		m.found(all, from, int32(End(low)))
		return
	}
	middle := (low + high) / 2
	rest, has := m.sets[set+1][from:to], m.sets[set+2][from:to]
	if !m.holders.intersect(m.chain[middle], m.first+uint32(from), all, has) {
		m.search(low, middle, set, from, to)
		return
	}
	left := uint32(0)
	for i := range all {
		rest[i] = all[i] &^ has[i]
		left |= rest[i]
	}
	m.search(middle, high, set+2, from, to)
	if left != 0 {
		m.search(low, middle, set+1, from, to)
	}
}

func (m *match) found(set []uint32, from int, tokens int32) {
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			m.depths[32*(from+i)+bits.TrailingZeros32(word)] = tokens
		}
	}
}
