package selection

import "sync"

// News collects the prompt blocks for the next report of a member. It omits blocks that were
// reported recently, until other blocks have filled half of the servers' cache. Its methods may be
// called concurrently.
type News struct {
	mu      sync.Mutex
	recent  blocks
	prompts []int // where each prompt's blocks begin in pending
	pending []uint64
}

// NewNews returns a News for servers that together cache capacity blocks, or DefaultBlocks if that
// is less.
func NewNews(capacity int) *News {
	n := &News{}
	n.recent.limit(max(min(capacity, DefaultBlocks)/2, 1))
	return n
}

// Add adds a prompt that any gateway sent to the member. Blocks beyond MaxReportBlocks are dropped.
func (n *News) Add(chain []uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := len(n.pending)
	for _, hash := range chain {
		if n.recent.at[hash] == 0 && len(n.pending) < MaxReportBlocks {
			n.recent.insert(hash, 0)
			n.pending = append(n.pending, hash)
		}
	}
	if len(n.pending) > first {
		n.prompts = append(n.prompts, first)
	}
}

// Take returns the new blocks since the last call of Take, in the order of Report.Blocks.
func (n *News) Take() (blocks []uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	until := len(n.pending)
	for i := len(n.prompts) - 1; i >= 0; i-- {
		blocks = append(blocks, n.pending[n.prompts[i]:until]...)
		until = n.prompts[i]
	}
	n.pending, n.prompts = n.pending[:0], n.prompts[:0]
	return blocks
}
