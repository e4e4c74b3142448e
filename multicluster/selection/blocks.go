package selection

// blocks is a set of prompt blocks with least-recently-used eviction. The zero value is empty.
type blocks struct {
	max int
	at  map[uint64]uint32 // the node of each block
	// Node 0 is the list's end, not a block: its next is the most recently used block, its prev the
	// least.
	nodes []node
	free  uint32 // the first unused node, linked by next; 0: none
}

type node struct {
	hash       uint64
	prev, next uint32
}

// match returns how many leading blocks of a chain are in the set. A binary search is enough,
// because add evicts a prompt's first blocks last.
func (b *blocks) match(chain []uint64) int {
	if len(chain) == 0 || b.at[chain[0]] == 0 {
		return 0
	}
	low, high := 1, len(chain)+1
	for high-low > 1 {
		if middle := (low + high) / 2; b.at[chain[middle-1]] != 0 {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

func (b *blocks) add(chain []uint64) {
	at := uint32(0)
	for _, hash := range chain[:min(len(chain), b.max)] {
		n := b.at[hash]
		switch {
		case n == 0:
			n = b.insert(hash, at)
		case n != at && b.nodes[at].next != n:
			b.unlink(n)
			b.link(n, at)
		}
		at = n
	}
}

func (b *blocks) limit(n int) {
	b.max = n
	if len(b.at) <= n {
		return
	}
	for len(b.at) > n {
		b.evict()
	}
	// A new map frees the memory of evicted blocks.
	old, last := b.nodes, b.nodes[0].prev
	b.nodes, b.at, b.free = nil, nil, 0
	for n := last; n != 0; n = old[n].prev {
		b.insert(old[n].hash, 0)
	}
}

func (b *blocks) insert(hash uint64, at uint32) uint32 {
	if len(b.at) == b.max {
		b.evict() // never evicts nodes[at]: a chain has at most max blocks
	}
	if b.free == 0 {
		b.grow()
	}
	n := b.free
	b.free = b.nodes[n].next
	b.nodes[n].hash = hash
	b.link(n, at)
	b.at[hash] = n
	return n
}

func (b *blocks) evict() {
	n := b.nodes[0].prev
	delete(b.at, b.nodes[n].hash)
	b.unlink(n)
	b.nodes[n].next, b.free = b.free, n
}

func (b *blocks) link(n, at uint32) {
	next := b.nodes[at].next
	b.nodes[n].prev, b.nodes[n].next = at, next
	b.nodes[at].next, b.nodes[next].prev = n, n
}

func (b *blocks) unlink(n uint32) {
	prev, next := b.nodes[n].prev, b.nodes[n].next
	b.nodes[prev].next, b.nodes[next].prev = next, prev
}

func (b *blocks) grow() {
	size := min(max(2*len(b.nodes), 64), b.max+1)
	nodes := make([]node, size)
	copy(nodes, b.nodes)
	for n := size - 1; n >= max(len(b.nodes), 1); n-- {
		nodes[n].next = b.free
		b.free = uint32(n)
	}
	b.nodes = nodes
	if b.at == nil {
		b.at = map[uint64]uint32{}
	}
}
