package simulation

// recency is a set of blocks ordered by last use: an intrusive linked list, indexed by block
// number, because a run uses millions of blocks.
type recency struct {
	next, prev []int32 // the last element is the list's head; absent means that a block is not in the set
	size       int
}

const absent = -1

func newRecency(blocks int) recency {
	r := recency{next: make([]int32, blocks+1), prev: make([]int32, blocks+1)}
	for i := range r.next {
		r.next[i] = absent
	}
	head := int32(blocks)
	r.next[head], r.prev[head] = head, head
	return r
}

func (r *recency) head() int32 { return int32(len(r.next) - 1) }

func (r *recency) has(b int32) bool { return r.next[b] != absent }

func (r *recency) add(b int32) {
	if r.has(b) {
		r.remove(b)
	}
	head := r.head()
	last := r.prev[head]
	r.next[last], r.prev[b], r.next[b], r.prev[head] = b, last, head, b
	r.size++
}

func (r *recency) remove(b int32) {
	n, p := r.next[b], r.prev[b]
	r.next[p], r.prev[n] = n, p
	r.next[b] = absent
	r.size--
}

func (r *recency) oldest() int32 { return r.next[r.head()] }

// kvCache holds one server's KV blocks. A prompt's blocks stay cached until the server needs the
// space.
type kvCache struct {
	refs   []int32 // running requests that use a block of the tree; absent if not cached
	unused recency // cached blocks without a running request
	free   int
	total  int
}

func newKVCache(total, tree int) *kvCache {
	c := &kvCache{refs: make([]int32, tree), unused: newRecency(tree), free: total, total: total}
	for i := range c.refs {
		c.refs[i] = absent
	}
	return c
}

func (c *kvCache) match(blocks []int32) int {
	for i, b := range blocks {
		if c.refs[b] == absent {
			return i
		}
	}
	return len(blocks)
}

func (c *kvCache) use(b int32) {
	if c.refs[b]++; c.refs[b] == 1 {
		c.unused.remove(b)
	}
}

func (c *kvCache) unuse(b int32) {
	if c.refs[b]--; c.refs[b] == 0 {
		c.unused.add(b)
	}
}

func (c *kvCache) allocate(n int) bool {
	if n > c.free+c.unused.size {
		return false
	}
	for c.free < n {
		b := c.unused.oldest()
		c.unused.remove(b)
		c.refs[b] = absent
		c.free++
	}
	c.free -= n
	return true
}

// computed records that a request has computed block b into a block that it had allocated. b is
// then cached. If b was cached already, the allocated block becomes free.
func (c *kvCache) computed(b int32) {
	if c.refs[b] != absent {
		c.use(b)
		c.free++
		return
	}
	c.refs[b] = 1
}

func (c *kvCache) share() float64 { return 1 - float64(c.free+c.unused.size)/float64(c.total) }
