package selection

import "math/bits"

// blocks is a set of prompt blocks with least-recently-used eviction: a linked list, and a hash
// table with open addressing.
type blocks struct {
	secret uint64
	max    int
	count  int
	// Node 0 is the list's end, not a block: its next is the most recently used block, its prev the
	// least.
	nodes []node
	free  uint32 // the first unused node, linked by next; 0: none
	slots []uint32
}

type node struct {
	hash       uint64
	prev, next uint32
}

func newBlocks(secret uint64) blocks { return blocks{secret: secret} }

// match returns how many leading blocks of a chain are in the set. A binary search is enough,
// because add evicts a prompt's first blocks last.
func (b *blocks) match(chain []uint64) int {
	if b.count == 0 || len(chain) == 0 || b.find(chain[0]) == 0 {
		return 0
	}
	low, high := 1, len(chain)+1
	for high-low > 1 {
		if middle := (low + high) / 2; b.find(chain[middle-1]) != 0 {
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
		n := b.find(hash)
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
	if b.count <= n {
		return
	}
	for b.count > n {
		b.evict()
	}
	// A new table frees the memory of evicted blocks.
	old, last := b.nodes, b.nodes[0].prev
	b.nodes, b.slots, b.free, b.count = nil, nil, 0, 0
	for n := last; n != 0; n = old[n].prev {
		b.insert(old[n].hash, 0)
	}
}

func (b *blocks) insert(hash uint64, at uint32) uint32 {
	if b.count == b.max {
		b.evict() // never evicts nodes[at]: a chain has at most max blocks
	}
	if b.free == 0 {
		b.grow()
	}
	n := b.free
	b.free = b.nodes[n].next
	b.nodes[n].hash = hash
	b.link(n, at)
	b.slots[b.place(hash)] = n
	b.count++
	return n
}

func (b *blocks) evict() {
	n := b.nodes[0].prev
	b.unslot(n)
	b.unlink(n)
	b.count--
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

func (b *blocks) find(hash uint64) uint32 {
	if len(b.slots) == 0 {
		return 0
	}
	return b.slots[b.place(hash)]
}

// home returns a block's preferred slot. It depends on the secret, so that prompts cannot be chosen
// to fill neighboring slots.
func (b *blocks) home(hash uint64) int {
	high, low := bits.Mul64(hash^b.secret, 0x9e3779b97f4a7c15)
	return int(high^low) & (len(b.slots) - 1)
}

func (b *blocks) place(hash uint64) int {
	at := b.home(hash)
	for b.slots[at] != 0 && b.nodes[b.slots[at]].hash != hash {
		at = (at + 1) & (len(b.slots) - 1)
	}
	return at
}

// unslot frees a node's slot, and moves later nodes of the run of used slots, because place stops
// at a free slot.
func (b *blocks) unslot(n uint32) {
	mask := len(b.slots) - 1
	at := b.place(b.nodes[n].hash)
	for next := at; ; {
		next = (next + 1) & mask
		other := b.slots[next]
		if other == 0 {
			break
		}
		if (next-b.home(b.nodes[other].hash))&mask < (next-at)&mask {
			continue // the preferred slot of that node is after the free slot
		}
		b.slots[at] = other
		at = next
	}
	b.slots[at] = 0
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
	slots := 64
	for 3*slots < 4*size {
		slots *= 2
	}
	if slots <= len(b.slots) {
		return
	}
	b.slots = make([]uint32, slots)
	for n := b.nodes[0].next; n != 0; n = b.nodes[n].next {
		b.slots[b.place(b.nodes[n].hash)] = n
	}
}
