package endpoint

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const ledgerShards = 64

// Ledger keeps the leases of one picker process. A lease is one request under way at one endpoint.
type Ledger struct {
	owner   string
	timeout time.Duration
	next    atomic.Uint64
	shards  [ledgerShards]struct {
		mu     sync.Mutex
		leases map[uint64]*Lease
	}
}

// Lease is one request that was sent to an endpoint and is not known to have ended.
type Lease struct {
	id     uint64
	opened time.Time
	ledger *Ledger
	load   atomic.Pointer[Load] // nil once it was settled
}

// NewLedger makes a Ledger. owner tells this process's leases from those of others; timeout is when a lease that nobody
// settles expires.
func NewLedger(owner string, timeout time.Duration) *Ledger {
	l := &Ledger{owner: owner, timeout: timeout}
	for i := range l.shards {
		l.shards[i].leases = map[uint64]*Lease{}
	}
	return l
}

// Open counts one request towards e.
func (l *Ledger) Open(e *Endpoint) *Lease {
	lease := &Lease{id: l.next.Add(1), opened: time.Now(), ledger: l}
	e.load.sent.Add(1)
	e.load.inFlight.Add(1)
	lease.load.Store(e.load)
	shard := &l.shards[lease.id%ledgerShards]
	shard.mu.Lock()
	shard.leases[lease.id] = lease
	shard.mu.Unlock()
	return lease
}

// Text names the lease towards the gateway; Find understands it.
func (lease *Lease) Text() string {
	return lease.ledger.owner + "." + strconv.FormatUint(lease.id, 36)
}

// Owns says whether a lease is one of this process, open or not.
func (l *Ledger) Owns(text string) bool {
	owner, _, _ := strings.Cut(text, ".")
	return owner == l.owner
}

// Find returns the open lease of a text, or nil: unknown, settled, expired, or another process's.
func (l *Ledger) Find(text string) *Lease {
	owner, number, ok := strings.Cut(text, ".")
	if !ok || owner != l.owner {
		return nil
	}
	id, err := strconv.ParseUint(number, 36, 64)
	if err != nil {
		return nil
	}
	shard := &l.shards[id%ledgerShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	return shard.leases[id]
}

// Settle ends the lease: its endpoint has one request less. It returns the endpoint's counters; nil, and nothing done, if
// the lease was settled before.
func (lease *Lease) Settle() *Load {
	load := lease.load.Swap(nil)
	if load != nil {
		load.inFlight.Add(-1)
	}
	shard := &lease.ledger.shards[lease.id%ledgerShards]
	shard.mu.Lock()
	delete(shard.leases, lease.id)
	shard.mu.Unlock()
	return load
}

// MoveTo charges the request to the endpoint that serves it, which after a retry is not the one picked.
func (lease *Lease) MoveTo(to *Load) {
	from := lease.load.Load()
	if to == nil || from == nil || from == to || !lease.load.CompareAndSwap(from, to) {
		return
	}
	from.inFlight.Add(-1)
	to.inFlight.Add(1)
	to.sent.Add(1)
}

// Len is how many leases are open.
func (l *Ledger) Len() int {
	n := 0
	for i := range l.shards {
		shard := &l.shards[i]
		shard.mu.Lock()
		n += len(shard.leases)
		shard.mu.Unlock()
	}
	return n
}

// Run expires leases until ctx ends.
func (l *Ledger) Run(ctx context.Context) error {
	tick := time.NewTicker(max(l.timeout/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			l.expire(now)
		}
	}
}

func (l *Ledger) expire(now time.Time) {
	var old []*Lease
	for i := range l.shards {
		shard := &l.shards[i]
		shard.mu.Lock()
		for _, lease := range shard.leases {
			if now.Sub(lease.opened) >= l.timeout {
				old = append(old, lease)
			}
		}
		shard.mu.Unlock()
	}
	for _, lease := range old {
		lease.Settle()
	}
}
