package picker

import (
	"sync"
	"sync/atomic"
	"time"
)

// RelayFailure is why relayed picks of a pool fail. The zero value means that they succeed;
// otherwise NoAnswer or OutOfRange is set.
type RelayFailure struct {
	NoAnswer   string // why the remote picker can't be asked; the same text for every attempt with the same cause
	OutOfRange string // an address that it named, outside the declared ranges
	Denied     string // why Config.Outside does not allow that address; "" if it does
}

const (
	// minAnswerWait separates two reasons for a canceled call. A gateway that cancels after this
	// long has given up on the remote picker; one that cancels earlier has lost its client.
	minAnswerWait = time.Second
	// outOfRangeHold is how long a pool must get no address outside its ranges before OutOfRange is
	// resolved: only some of its pods may lie outside, so good and bad picks alternate.
	outOfRangeHold = 5 * time.Second
)

// relayHealth is the state of a pool's relayed picks.
type relayHealth struct {
	failure atomic.Pointer[RelayFailure] // nil: they succeed

	mu         sync.Mutex // serialises changes
	outOfRange time.Time  // when the remote picker last named an address outside the ranges
}

// reportRelay records the outcome of a relayed pick, and reports it if it changes the pool's state.
func (p *Picker) reportRelay(pool *pool, f RelayFailure, at time.Time) {
	h := pool.relayHealth
	if f == (RelayFailure{}) && h.failure.Load() == nil {
		return // the usual case takes no lock
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var before RelayFailure
	if b := h.failure.Load(); b != nil {
		before = *b
	}
	if f.OutOfRange != "" {
		h.outOfRange = at
	}
	switch {
	case f == before, f.OutOfRange != "" && before.OutOfRange != "":
		return
	case f == (RelayFailure{}) && before.OutOfRange != "" && at.Sub(h.outOfRange) < outOfRangeHold:
		return
	}
	if now := p.pools.now.Load().byName[pool.Name]; now == nil || now.relayHealth != h {
		return // the pool was replaced or removed
	}
	h.failure.Store(&f)
	if f == (RelayFailure{}) {
		h.failure.Store(nil)
	}
	p.config.Troubles.RelayFailed(pool.ID, f)
}

// resolveRelay resolves the failure of a pool that was replaced or removed.
func (p *Picker) resolveRelay(pool *pool) {
	pool.relayHealth.mu.Lock()
	defer pool.relayHealth.mu.Unlock()
	if pool.relayHealth.failure.Swap(nil) != nil {
		p.config.Troubles.RelayFailed(pool.ID, RelayFailure{})
	}
}
