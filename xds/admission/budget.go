package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Budget bounds the bytes of incomplete messages over all connections. When it is used up,
// connections above their share are closed. It is safe for concurrent use; nil: no bound.
type Budget struct {
	max  int64
	held atomic.Int64
}

func NewBudget(bytes int64) *Budget { return &Budget{max: bytes} }

const (
	// fairShare is in bytes; a reconnecting proxy with 5,000 routes sends less.
	fairShare = 1 << 20
	// lastShare replaces fairShare above manyTimes the budget. A thousand reconnecting proxies stay
	// below it.
	lastShare = 64 << 10
	manyTimes = 8
	// forgotten is how many counted bytes expire each second: some, such as pings, never reach a
	// handler.
	forgotten = 4 << 10
	// framing is the minimum overhead of HTTP/2 and gRPC for each 64 KiB, in bytes.
	framing = 64
)

type pending struct {
	mu     sync.Mutex
	bytes  int64
	at     time.Time
	closed bool
}

func (b *Budget) sent(p *pending, n int) bool {
	if b == nil {
		return true
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return true
	}
	before := p.bytes
	p.bytes = max(0, p.bytes-int64(now.Sub(p.at).Seconds()*forgotten)) + int64(n)
	p.at = now
	held := b.held.Add(p.bytes - before)
	return held <= b.max || p.bytes <= lastShare || p.bytes <= fairShare && held <= manyTimes*b.max
}

func (b *Budget) received(p *pending, n int) {
	if b == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	whole := min(p.bytes, int64(n+framing+n/lastShare*framing))
	p.bytes -= whole
	b.held.Add(-whole)
}

func (b *Budget) closed(p *pending) {
	if b == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b.held.Add(-p.bytes)
	p.bytes, p.closed = 0, true
}

// Received removes the n bytes of a received message from the budget.
func Received(ctx context.Context, n int) {
	if c := connOf(ctx); c != nil {
		c.listener.cfg.Budget.received(&c.pending, n)
	}
}
