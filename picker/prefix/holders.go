package prefix

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// holders maps each block to the set of servers that have it. A shard is so small that copying its
// table takes a fraction of a millisecond.
type holders struct{ shards [256]shard }

type shard struct {
	mu sync.Mutex
	// version is odd while entries move. A reader starts again if version changed meanwhile.
	version atomic.Uint32
	table   atomic.Pointer[table]
}

type table struct {
	slots []slot
	// arrays has the sets of servers that do not fit into a slot. Each set is an array of groups;
	// its size is a power of two.
	arrays []atomic.Uint64

	entries int
	used    int         // arrays[used:] was never used
	free    [32]freeSet // free arrays, by the binary logarithm of their size
}

// freeSet is a linked list of free arrays: the offset of the first array plus 1, or 0 at the end. A
// free array contains the next freeSet.
type freeSet uint64

type slot struct{ key, set atomic.Uint64 }

// group is a set of servers with IDs from 32 x number to 32 x number + 31: the number in 31 bits,
// and 32 bits for the servers. A pool's servers are added together, so they need few groups.
type group uint64

func groupOf(id uint32) group             { return group(id/32)<<32 | 1<<(id%32) }
func (g group) number() uint32            { return uint32(g >> 32) }
func (g group) members() uint32           { return uint32(g) }
func (g group) same(other group) bool     { return g>>32 == other>>32 }
func (g group) without(other group) group { return g &^ (other & (1<<32 - 1)) }

// isArray marks a set that is a reference to an array, with the array's size and offset.
const isArray = 1 << 63

func arrayRef(log uint, offset int) uint64      { return isArray | uint64(log)<<32 | uint64(offset) }
func arrayAt(set uint64) (log uint, offset int) { return uint(set>>32) & 31, int(uint32(set)) }

const (
	minSlots = 16
	maxReads = 8 // after this number of reads, a reader assumes that the table lacks the block
)

// secret makes the places of keys unpredictable. Clients determine keys by their prompts. If they
// knew the places, they could put all blocks into one run of slots, which every look-up would read.
var secret = [2]uint64{rand.Uint64(), rand.Uint64()}

// home returns a block's preferred place, before it is reduced to a table's size. One
// multiplication would not suffice: with some secrets, an arithmetic progression of keys would fill
// one run over most slots.
func home(key uint64) uint64 { return mix(mix(key^secret[0], secret[1]), secret[0]) }

func (h *holders) shard(key uint64) *shard { return &h.shards[home(key)>>56] }

// intersect writes to out the servers of the set in that have the block, and reports whether any
// does. Bit k of word i of a set is the server with ID 32 x (first + i) + k.
func (h *holders) intersect(key uint64, first uint32, in, out []uint32) (found bool) {
	s := h.shard(key)
	for range maxReads {
		clear(out)
		version := s.version.Load()
		if version&1 != 0 {
			continue
		}
		found = s.table.Load().intersect(key, first, in, out)
		if s.version.Load() == version {
			return found
		}
	}
	clear(out)
	return false
}

func (t *table) intersect(key uint64, first uint32, in, out []uint32) (found bool) {
	if t == nil {
		return false
	}
	at := t.find(key)
	if t.slots[at].key.Load() != key {
		return false
	}
	set := t.slots[at].set.Load()
	if set&isArray == 0 {
		return intersectGroup(group(set), first, in, out)
	}
	log, offset := arrayAt(set)
	if offset+1<<log > len(t.arrays) { // a concurrent change made the slot inconsistent
		return false
	}
	for i := range t.arrays[offset : offset+1<<log] {
		if intersectGroup(group(t.arrays[offset+i].Load()), first, in, out) {
			found = true
		}
	}
	return found
}

func intersectGroup(g group, first uint32, in, out []uint32) bool {
	i := g.number() - first
	if i >= uint32(len(in)) { // also true if number is below first, because i is unsigned
		return false
	}
	members := in[i] & g.members()
	out[i] |= members
	return members != 0
}

func (t *table) find(key uint64) int {
	mask := len(t.slots) - 1
	for at := int(home(key)) & mask; ; at = (at + 1) & mask {
		if k := t.slots[at].key.Load(); k == key || k == 0 {
			return at
		}
	}
}

func (h *holders) add(key uint64, id uint32) {
	s := h.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table.Load()
	if t == nil {
		t = s.rebuild(nil, minSlots, 0)
	}
	at := t.find(key)
	if t.slots[at].key.Load() == 0 {
		if 4*(t.entries+1) > 3*len(t.slots) {
			t = s.rebuild(t, 2*len(t.slots), 0)
			at = t.find(key)
		}
		t.slots[at].set.Store(uint64(groupOf(id)))
		t.slots[at].key.Store(key)
		t.entries++
		return
	}
	set := t.slots[at].set.Load()
	if joined, ok := t.join(set, groupOf(id)); ok {
		t.slots[at].set.Store(joined)
		return
	}
	if !t.room(set) {
		t = s.rebuild(t, len(t.slots), 1<<larger(set))
		at = t.find(key)
		set = t.slots[at].set.Load()
	}
	s.version.Add(1)
	t.slots[at].set.Store(t.enlarge(set, groupOf(id)))
	s.version.Add(1)
}

func (t *table) join(set uint64, g group) (joined uint64, ok bool) {
	if set&isArray == 0 {
		if group(set).same(g) {
			return set | uint64(g), true
		}
		return set, false
	}
	log, offset := arrayAt(set)
	unused := -1
	for i := offset; i < offset+1<<log; i++ {
		switch have := group(t.arrays[i].Load()); {
		case have.members() == 0:
			unused = i
		case have.same(g):
			t.arrays[i].Store(uint64(have | g))
			return set, true
		}
	}
	if unused < 0 {
		return set, false
	}
	t.arrays[unused].Store(uint64(g))
	return set, true
}

func larger(set uint64) uint {
	if set&isArray == 0 {
		return 1
	}
	log, _ := arrayAt(set)
	return log + 1
}

func (t *table) room(set uint64) bool {
	log := larger(set)
	return t.free[log] != 0 || t.used+1<<log <= len(t.arrays)
}

func (t *table) enlarge(set uint64, g group) uint64 {
	log := larger(set)
	to := t.allocate(log)
	n := 0
	if set&isArray == 0 {
		t.arrays[to].Store(set)
		n++
	} else {
		_, from := arrayAt(set)
		for ; n < 1<<(log-1); n++ {
			t.arrays[to+n].Store(t.arrays[from+n].Load())
		}
		t.release(set)
	}
	t.arrays[to+n].Store(uint64(g))
	for n++; n < 1<<log; n++ {
		t.arrays[to+n].Store(0)
	}
	return arrayRef(log, to)
}

func (t *table) allocate(log uint) (offset int) {
	if free := t.free[log]; free != 0 {
		t.free[log] = freeSet(t.arrays[free-1].Load())
		return int(free - 1)
	}
	offset = t.used
	t.used += 1 << log
	return offset
}

func (t *table) release(set uint64) {
	log, offset := arrayAt(set)
	t.arrays[offset].Store(uint64(t.free[log]))
	t.free[log] = freeSet(offset + 1)
}

func (h *holders) remove(key uint64, id uint32) (last bool) {
	s := h.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table.Load()
	if t == nil {
		return false
	}
	at := t.find(key)
	if t.slots[at].key.Load() == 0 {
		return false
	}
	set := t.slots[at].set.Load()
	left, changed := t.leave(set, groupOf(id))
	if left == set && !changed {
		return false
	}
	if group(left).members() != 0 || left&isArray != 0 {
		if set&isArray != 0 && left&isArray == 0 {
			s.version.Add(1)
			t.slots[at].set.Store(left)
			t.release(set)
			s.version.Add(1)
			return false
		}
		t.slots[at].set.Store(left)
		return false
	}
	s.version.Add(1)
	t.delete(at)
	s.version.Add(1)
	if t.entries == 0 {
		s.table.Store(nil)
	} else if len(t.slots) > minSlots && 8*t.entries < len(t.slots) {
		s.rebuild(t, len(t.slots)/2, 0)
	}
	return true
}

func (t *table) leave(set uint64, g group) (left uint64, changed bool) {
	if set&isArray == 0 {
		if !group(set).same(g) {
			return set, false
		}
		return uint64(group(set).without(g)), true
	}
	log, offset := arrayAt(set)
	groups, last := 0, uint64(0)
	for i := offset; i < offset+1<<log; i++ {
		have := group(t.arrays[i].Load())
		if have.same(g) {
			if have = have.without(g); have.members() == 0 {
				have = 0
			}
			t.arrays[i].Store(uint64(have))
		}
		if have != 0 {
			groups++
			last = uint64(have)
		}
	}
	if groups == 1 {
		return last, true
	}
	return set, true
}

// delete removes an entry, and moves later entries of the same run, so that look-ups find them.
func (t *table) delete(at int) {
	mask := len(t.slots) - 1
	for next := at; ; {
		next = (next + 1) & mask
		key := t.slots[next].key.Load()
		if key == 0 {
			break
		}
		if from := int(home(key)) & mask; (next-from)&mask < (next-at)&mask {
			continue // the entry's home is after the free slot
		}
		t.slots[at].set.Store(t.slots[next].set.Load())
		t.slots[at].key.Store(key)
		at = next
	}
	t.slots[at].key.Store(0)
	t.slots[at].set.Store(0)
	t.entries--
}

// rebuild returns a copy of a table with this number of slots, and room for an array of further
// groups. Readers use the old table until they read the pointer again.
func (s *shard) rebuild(old *table, slots, array int) *table {
	next := &table{slots: make([]slot, slots)}
	if old != nil {
		need := 0
		old.each(func(_, set uint64) {
			if set&isArray != 0 {
				need += 1 << arrayLog(old.groups(set))
			}
		})
		next.arrays = make([]atomic.Uint64, 2*need+array)
		old.each(func(key, set uint64) {
			at := next.find(key)
			next.slots[at].set.Store(next.copySet(old, set))
			next.slots[at].key.Store(key)
			next.entries++
		})
	}
	s.table.Store(next)
	return next
}

func (t *table) each(f func(key, set uint64)) {
	for i := range t.slots {
		if key := t.slots[i].key.Load(); key != 0 {
			f(key, t.slots[i].set.Load())
		}
	}
}

func (t *table) groups(set uint64) (n int) {
	log, offset := arrayAt(set)
	for i := range t.arrays[offset : offset+1<<log] {
		if t.arrays[offset+i].Load() != 0 {
			n++
		}
	}
	return n
}

func arrayLog(n int) uint { return uint(bits.Len(uint(max(n, 2) - 1))) }

func (t *table) copySet(old *table, set uint64) uint64 {
	if set&isArray == 0 {
		return set
	}
	size := arrayLog(old.groups(set))
	to := t.allocate(size)
	log, offset := arrayAt(set)
	n := to
	for i := range old.arrays[offset : offset+1<<log] {
		if g := old.arrays[offset+i].Load(); g != 0 {
			t.arrays[n].Store(g)
			n++
		}
	}
	return arrayRef(size, to)
}
