package picker

import (
	"sync"
	"sync/atomic"
	"time"
)

// RelayFailure is why relayed picks of a pool fail. The zero value means success.
type RelayFailure struct {
	NoAnswer   string // the same text for the same cause
	OutOfRange string // one address outside the declared ranges
	Denied     string // reason from Config.Addresses.Outside, or ""
}

const (
	// A canceled call shows a failure of the remote picker only after minAnswerWait. An earlier
	// cancellation shows that the gateway has lost its client.
	minAnswerWait = time.Second
	// OutOfRange is resolved after outOfRangeHold without an address out of range: if only some
	// pods are outside, good and bad picks alternate.
	outOfRangeHold = 5 * time.Second
)

type relayHealth struct {
	failure atomic.Pointer[RelayFailure]

	mu         sync.Mutex
	outOfRange time.Time // time of the last address outside the ranges
}

func (p *Picker) reportRelay(pool *pool, f RelayFailure, at time.Time) {
	h := pool.relayHealth
	if f == (RelayFailure{}) && h.failure.Load() == nil {
		return // usually no lock is needed
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

func (p *Picker) resolveRelay(pool *pool) {
	pool.relayHealth.mu.Lock()
	defer pool.relayHealth.mu.Unlock()
	if pool.relayHealth.failure.Swap(nil) != nil {
		p.config.Troubles.RelayFailed(pool.ID, RelayFailure{})
	}
}
