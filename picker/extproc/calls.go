package extproc

import (
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// MaxCalls bounds the open calls from another cluster at a process.
const MaxCalls = 16384

// Calls bounds the open calls from each other cluster. Connections that authenticate no cluster
// share one bound. Calls of this cluster's Gateways have no bound.
type Calls struct {
	limit  int
	excess atomic.Uint64

	mu   sync.Mutex
	open map[string]int
}

// NewCalls returns Calls with a limit; 0 means MaxCalls.
func NewCalls(limit int) *Calls {
	if limit == 0 {
		limit = MaxCalls
	}
	return &Calls{limit: limit, open: map[string]int{}}
}

// Excess counts the calls that the limit rejected.
func (c *Calls) Excess() uint64 { return c.excess.Load() }

func (c *Calls) begin(cluster string) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[cluster] >= c.limit {
		c.excess.Add(1)
		return status.Errorf(codes.ResourceExhausted,
			"a cluster may have %d calls open at a process: ask another picker, or wait until requests have ended",
			c.limit)
	}
	c.open[cluster]++
	return nil
}

func (c *Calls) end(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[cluster]--; c.open[cluster] == 0 {
		delete(c.open, cluster)
	}
}
