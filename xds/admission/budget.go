package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Budget bounds the bytes of incomplete messages over all connections. Once the budget is used up,
// a connection above its share is closed. A Budget is safe for concurrent use. A nil Budget has no
// bound.
type Budget struct {
	max  int64
	held atomic.Int64
}

// NewBudget returns a budget of this many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{max: bytes} }

const (
	// fairShare is more than a reconnecting proxy with 5,000 routes sends.
	fairShare = 1 << 20
	// lastShare replaces fairShare when the bytes in use exceed manyTimes the budget. Each of a
	// thousand proxies that reconnect at once stays below lastShare.
	lastShare = 64 << 10
	manyTimes = 8
	// forgotten is how many counted bytes of a connection expire each second. Some bytes never
	// reach a handler, such as pings.
	forgotten = 4 << 10
	// framing is the minimum overhead of HTTP/2 and gRPC for each 64 KiB of a message, in bytes.
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

// Received reports that a handler has received a message of n bytes. Other counted bytes stay until
// they expire.
func Received(ctx context.Context, n int) {
	if c := connOf(ctx); c != nil {
		c.listener.cfg.Budget.received(&c.pending, n)
	}
}
