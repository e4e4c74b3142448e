package selection

import "sync"

// News collects what a member's reports have of prompts: the blocks that were sent to it and that
// its recent reports do not have. A block is reported again once half as many as its servers cache
// were reported after it, if a prompt still has it: so the others keep it, too. Its methods may be
// called concurrently.
type News struct {
	mu       sync.Mutex
	recent   blocks // reported before, in the order of their reports
	prompts  []int  // where the blocks of each prompt begin in pending
	pending  []uint64
	overflow int // blocks that were dropped since the last Take
}

// NewNews returns a News of servers that cache a number of blocks together, of which it remembers
// at most DefaultBlocks. secret is random.
func NewNews(secret uint64, capacity int) *News {
	n := &News{recent: newBlocks(secret)}
	n.recent.limit(max(min(capacity, DefaultBlocks)/2, 1))
	return n
}

// Add adds a prompt that was sent to the member, by any gateway.
func (n *News) Add(chain []uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := len(n.pending)
	for _, hash := range chain {
		if n.recent.find(hash) != 0 {
			continue
		}
		if len(n.pending) == MaxReportBlocks {
			n.overflow++
			continue // the next prompt with it reports it
		}
		n.recent.insert(hash, 0)
		n.pending = append(n.pending, hash)
	}
	if len(n.pending) > first {
		n.prompts = append(n.prompts, first)
	}
}

// Take appends the blocks since the last call to out, in the order of Report.Blocks. dropped is how
// many there were beyond MaxReportBlocks.
func (n *News) Take(out []uint64) (blocks []uint64, dropped int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	until := len(n.pending)
	for i := len(n.prompts) - 1; i >= 0; i-- {
		out = append(out, n.pending[n.prompts[i]:until]...)
		until = n.prompts[i]
	}
	dropped = n.overflow
	n.pending, n.prompts, n.overflow = n.pending[:0], n.prompts[:0], 0
	return out, dropped
}
