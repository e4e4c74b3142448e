package picker

import (
	"sync"
	"sync/atomic"
	"time"
)

// RelayFailure is why relayed picks of a pool fail. The zero value means success.
type RelayFailure struct {
	NoAnswer   string // why the remote picker did not answer, or ""; equal causes have equal texts
	OutOfRange string // one named address that is outside the declared ranges, or ""
	Denied     string // why OutOfRange is denied (Config.Addresses.Outside), or ""
}

const (
	// If the gateway cancels a call after more than minAnswerWait, the remote picker counts as
	// failed. At an earlier cancellation, the client has probably disconnected.
	minAnswerWait = time.Second
	// A failure OutOfRange is resolved when no address was out of range for outOfRangeHold. If only
	// some pods are out of range, a shorter time would resolve and report the failure repeatedly.
	outOfRangeHold = 5 * time.Second
)

type relayHealth struct {
	failure atomic.Pointer[RelayFailure]

	mu         sync.Mutex
	outOfRange time.Time
}

func (p *Picker) reportRelay(pool *pool, f RelayFailure, at time.Time) {
	h := pool.relayHealth
	if f == (RelayFailure{}) && h.failure.Load() == nil {
		return // the usual case, without the lock
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
