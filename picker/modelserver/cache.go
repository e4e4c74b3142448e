package modelserver

import (
	"container/list"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"sync"
)

// tokenID returns the token of a word: a number is its own token, as in a prompt of token IDs.
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

// cache is vLLM's prefix cache: the blocks of the prompts that the server has read, the least
// recently used evicted first.
type cache struct {
	limit  int
	events *kvEvents // nil: none

	mu     sync.Mutex
	blocks map[uint64]*list.Element // by hash
	order  *list.List               // of hashes, the last used in front
}

func newCache(blocks int, e *kvEvents) *cache {
	return &cache{limit: blocks, events: e, blocks: map[uint64]*list.Element{}, order: list.New()}
}

// read adds a prompt to the cache. It returns how many of its tokens were cached; the last token
// never is, because a server computes it for the first one of the answer.
func (c *cache) read(tokens []uint32, lora, salt string) (cached int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hashes := blockHashes(tokens, lora, salt)
	hashes = hashes[:min(len(hashes), c.limit)]
	known := 0
	for known < len(hashes) && c.blocks[hashes[known]] != nil {
		known++
	}
	c.use(hashes[:known]) // before others are evicted
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

// use moves blocks to the front, the first one foremost.
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

// blockHashes returns the hashes of a prompt's full blocks. Each covers everything before it.
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
