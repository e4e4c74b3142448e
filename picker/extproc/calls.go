package extproc

import (
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// MaxCalls is how many calls of one other cluster a process has open at a time. Each has a stream
// and a goroutine as long as its request lasts.
const MaxCalls = 16384

// Calls bounds the calls that other clusters have open, each cluster's on its own: a member of a
// cluster set is no more trusted than that. Those whose connections prove no cluster have the bound
// together. The Gateways of this cluster have none.
type Calls struct {
	limit  int
	excess atomic.Uint64

	mu sync.Mutex
	of map[string]int // by cluster
}

// NewCalls returns a bound; 0 is MaxCalls.
func NewCalls(limit int) *Calls {
	if limit == 0 {
		limit = MaxCalls
	}
	return &Calls{limit: limit, of: map[string]int{}}
}

// Excess returns how many calls were one too many.
func (c *Calls) Excess() uint64 { return c.excess.Load() }

// begin counts a call until end is called, or returns the error that ends it.
func (c *Calls) begin(cluster string) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[cluster] >= c.limit {
		c.excess.Add(1)
		return status.Errorf(codes.ResourceExhausted,
			"a cluster may have %d calls open at a process: ask another picker, or wait until requests have ended",
			c.limit)
	}
	c.of[cluster]++
	return nil
}

func (c *Calls) end(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[cluster]--; c.of[cluster] == 0 {
		delete(c.of, cluster)
	}
}
