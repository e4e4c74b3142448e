package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Budget bounds what all connections together have sent of messages that are not received as a
// whole yet. A client may have a valid credential, or need none, and send the largest message on
// many streams: once the budget is used up, a connection that sends more than its share is closed.
// It is safe for concurrent use; nil has no bound.
type Budget struct {
	max  int64
	held atomic.Int64
}

// NewBudget returns a budget of some bytes.
func NewBudget(bytes int64) *Budget { return &Budget{max: bytes} }

const (
	// fairShare is what a connection may have sent of its messages when the budget is used up. What
	// a proxy of 5,000 routes sends when it reconnects is smaller.
	fairShare = 1 << 20
	// lastShare is the same when manyTimes the budget is used: by a thousand proxies that reconnect
	// at once, for instance, it is not.
	lastShare = 64 << 10
	manyTimes = 8
	// forgotten is how many bytes a second are not counted any more: those of frames that are not
	// messages, such as pings, and of streams that ended before their message was read.
	forgotten = 4 << 10
	// framing is HTTP/2's and gRPC's part of a message of 64 KiB, at least.
	framing = 64
)

// pending is what one connection has sent of messages that are not received yet.
type pending struct {
	mu     sync.Mutex
	bytes  int64
	at     time.Time // when bytes was computed
	closed bool
}

// sent counts n bytes, and reports whether the connection may go on.
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

// received counts a message of n bytes as received.
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

// closed counts a connection no longer.
func (b *Budget) closed(p *pending) {
	if b == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b.held.Add(-p.bytes)
	p.bytes, p.closed = 0, true
}

// Received reports that a handler has received a message of a call, of n bytes. Without it the
// connection's messages count for longer in its Budget.
func Received(ctx context.Context, n int) {
	if c := connOf(ctx); c != nil {
		c.listener.cfg.Budget.received(&c.pending, n)
	}
}
