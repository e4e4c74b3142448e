package endpoint

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const leaseShards = 64

// Leases are the open leases of one picker process.
type Leases struct {
	owner   string
	timeout time.Duration
	next    atomic.Uint64
	shards  [leaseShards]struct {
		mu   sync.Mutex
		open map[uint64]*Lease
	}
}

// Lease is one request in flight at an endpoint: it was picked for and is not known to have ended.
type Lease struct {
	id     uint64
	opened time.Time
	leases *Leases
	load   atomic.Pointer[Load] // nil after Release
}

// NewLeases returns an empty Leases. owner distinguishes this process's leases from those of others; a lease that is not
// released expires after timeout.
func NewLeases(owner string, timeout time.Duration) *Leases {
	l := &Leases{owner: owner, timeout: timeout}
	for i := range l.shards {
		l.shards[i].open = map[uint64]*Lease{}
	}
	return l
}

// Open counts one request in flight at e.
func (l *Leases) Open(e *Endpoint) *Lease {
	lease := &Lease{id: l.next.Add(1), opened: time.Now(), leases: l}
	e.load.sent.Add(1)
	e.load.inFlight.Add(1)
	lease.load.Store(e.load)
	shard := &l.shards[lease.id%leaseShards]
	shard.mu.Lock()
	shard.open[lease.id] = lease
	shard.mu.Unlock()
	return lease
}

// ID is the lease's name in the metadata of a pick, as Find and Owns take it.
func (lease *Lease) ID() string {
	return lease.leases.owner + "." + strconv.FormatUint(lease.id, 36)
}

// Owns reports whether an ID is one of this process, open or not.
func (l *Leases) Owns(id string) bool {
	owner, _, _ := strings.Cut(id, ".")
	return owner == l.owner
}

// Find returns the open lease with an ID, or nil: unknown, released, expired, or another process's.
func (l *Leases) Find(id string) *Lease {
	owner, text, ok := strings.Cut(id, ".")
	if !ok || owner != l.owner {
		return nil
	}
	number, err := strconv.ParseUint(text, 36, 64)
	if err != nil {
		return nil
	}
	shard := &l.shards[number%leaseShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	return shard.open[number]
}

// Release ends the lease: its endpoint has one request less in flight. It returns the endpoint's counters. If the lease was
// released before, it does nothing and returns nil.
func (lease *Lease) Release() *Load {
	load := lease.load.Swap(nil)
	if load != nil {
		load.inFlight.Add(-1)
	}
	shard := &lease.leases.shards[lease.id%leaseShards]
	shard.mu.Lock()
	delete(shard.open, lease.id)
	shard.mu.Unlock()
	return load
}

// MoveTo moves the request to the endpoint that serves it, which after a retry is not the one picked.
func (lease *Lease) MoveTo(to *Load) {
	from := lease.load.Load()
	if to == nil || from == nil || from == to || !lease.load.CompareAndSwap(from, to) {
		return
	}
	from.inFlight.Add(-1)
	to.inFlight.Add(1)
	to.sent.Add(1)
}

// Len returns how many leases are open.
func (l *Leases) Len() int {
	n := 0
	for i := range l.shards {
		shard := &l.shards[i]
		shard.mu.Lock()
		n += len(shard.open)
		shard.mu.Unlock()
	}
	return n
}

// Run expires leases until ctx ends.
func (l *Leases) Run(ctx context.Context) error {
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

func (l *Leases) expire(now time.Time) {
	var old []*Lease
	for i := range l.shards {
		shard := &l.shards[i]
		shard.mu.Lock()
		for _, lease := range shard.open {
			if now.Sub(lease.opened) >= l.timeout {
				old = append(old, lease)
			}
		}
		shard.mu.Unlock()
	}
	for _, lease := range old {
		lease.Release()
	}
}
