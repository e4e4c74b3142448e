package modelserver

import (
	"container/list"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"sync"
)

// tokenID returns a word's token ID: its hash, or the number itself if the word is a number. So a
// prompt may have token IDs instead of text.
func tokenID(word string) uint32 {
	n := uint64(0)
	for i := range len(word) {
		c := word[i]
		if n = 10*n + uint64(c-'0'); c < '0' || c > '9' || n > 1<<32-1 || i == 0 && c == '0' && len(word) > 1 {
			h := fnv.New32a()
			_, _ = h.Write([]byte(word))
			return h.Sum32()
		}
	}
	return uint32(n)
}

func tokenIDs(words []string) []uint32 {
	out := make([]uint32, len(words))
	for i, w := range words {
		out[i] = tokenID(w)
	}
	return out
}

type cache struct {
	limit  int
	events *kvEvents

	mu     sync.Mutex
	blocks map[uint64]*list.Element
	order  *list.List // elements are hashes, most recently used first
}

func newCache(blocks int, e *kvEvents) *cache {
	return &cache{limit: blocks, events: e, blocks: map[uint64]*list.Element{}, order: list.New()}
}

// read adds a prompt to the cache, and returns how many of its tokens were cached before. The last
// token never counts as cached: the server must compute it to generate the first token of the
// answer.
func (c *cache) read(tokens []uint32, lora, salt string) (cached int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hashes := blockHashes(tokens, lora, salt)
	hashes = hashes[:min(len(hashes), c.limit)]
	known := 0
	for known < len(hashes) && c.blocks[hashes[known]] != nil {
		known++
	}
	c.use(hashes[:known]) // before the eviction: the prompt's new blocks do not evict its cached ones
	var removed []uint64
	for len(c.blocks)+len(hashes)-known > c.limit {
		hash := c.order.Remove(c.order.Back()).(uint64)
		delete(c.blocks, hash)
		removed = append(removed, hash)
	}
	c.use(hashes)
	c.events.removed(removed)
	c.events.stored(hashes, known, tokens, lora, salt)
	return min(known*blockSize, max(len(tokens)-1, 0))
}

func (c *cache) use(hashes []uint64) {
	for _, hash := range slices.Backward(hashes) {
		if e := c.blocks[hash]; e != nil {
			c.order.MoveToFront(e)
		} else {
			c.blocks[hash] = c.order.PushFront(hash)
		}
	}
}

func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocks, c.order = map[uint64]*list.Element{}, list.New()
	c.events.cleared()
}

func blockHashes(tokens []uint32, lora, salt string) []uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(lora + "\x00" + salt))
	var out []uint64
	var b [4]byte
	for i, id := range tokens {
		binary.LittleEndian.PutUint32(b[:], id)
		_, _ = h.Write(b[:])
		if (i+1)%blockSize == 0 {
			out = append(out, h.Sum64())
		}
	}
	return out
}
