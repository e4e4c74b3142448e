package simulation

// recency is a set of blocks in the order of their last use. It is an intrusive list over the
// numbers of blocks, because a run uses millions of them.
type recency struct {
	next, prev []int32 // the last element is the list's head; absent: not in the set
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

// add makes a block the most recently used one.
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

// oldest returns the block that was used least recently; the set is not empty.
func (r *recency) oldest() int32 { return r.next[r.head()] }

// kvCache holds the KV blocks of one server. A block of a prompt stays cached after its requests
// have ended, until its space is needed.
type kvCache struct {
	refs   []int32 // by block of the tree: how many running requests use it; absent: not cached
	unused recency // cached blocks that no running request uses
	free   int     // blocks that hold nothing
	total  int
}

func newKVCache(total, tree int) *kvCache {
	c := &kvCache{refs: make([]int32, tree), unused: newRecency(tree), free: total, total: total}
	for i := range c.refs {
		c.refs[i] = absent
	}
	return c
}

// match returns how many blocks at the start of a prompt are cached.
func (c *kvCache) match(blocks []int32) int {
	for i, b := range blocks {
		if c.refs[b] == absent {
			return i
		}
	}
	return len(blocks)
}

// use adds a running request to a cached block.
func (c *kvCache) use(b int32) {
	if c.refs[b]++; c.refs[b] == 1 {
		c.unused.remove(b)
	}
}

// unuse removes it.
func (c *kvCache) unuse(b int32) {
	if c.refs[b]--; c.refs[b] == 0 {
		c.unused.add(b)
	}
}

// allocate takes n blocks, of those that are free or unused; all or none.
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

// computed makes an allocated block of a request the cached one with the content b, used by that
// request. If there is one already, the request uses that one, and its own becomes free.
func (c *kvCache) computed(b int32) {
	if c.refs[b] != absent {
		c.use(b)
		c.free++
		return
	}
	c.refs[b] = 1
}

// share is the share of blocks that running requests use.
func (c *kvCache) share() float64 { return 1 - float64(c.free+c.unused.size)/float64(c.total) }
