package endpoint

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/prefix"
)

// Load counts and measures the requests to one address, for all pools.
type Load struct {
	// Every pick reads these fields, in two cache lines.
	inFlight         atomic.Int64
	elsewhere        atomic.Int64
	sent             atomic.Uint64
	health           health
	prefill          prefill
	adapters         recentAdapters
	latency          atomic.Pointer[latency]
	headers          atomic.Pointer[headers]
	headersElsewhere atomic.Pointer[HeaderLimits] // learned by peers; may be nil
	reported         reported
	motion           motion
	prefixes         *prefix.Server

	addr     netip.AddrPort
	registry *Registry
	served   atomic.Uint64
	failed   atomic.Uint64
	waited   atomic.Int64 // sum of the times to the first byte of served requests, in nanoseconds

	limited    atomic.Pointer[[]*Slots] // limited and sources are replaced under Registry.mu
	sources    atomic.Pointer[[]*source]
	dirty      atomic.Bool // the count is in Registry.unpublished
	newHeaders atomic.Bool
	gone       atomic.Bool

	refs int // guarded by Registry.mu
}

// The caller holds Registry.mu.
func (l *Load) setSources(change func([]*source) []*source) {
	var next []*source
	if old := l.sources.Load(); old != nil {
		next = slices.Clone(*old)
	}
	next = change(next)
	l.sources.Store(&next)
}

// Load returns the Load of e's address.
func (e *Endpoint) Load() *Load { return e.load }

// Prefixes returns the prompt prefixes that the server has cached; nil if they are not tracked.
func (l *Load) Prefixes() *prefix.Server { return l.prefixes }

// InFlight returns this process's number of requests in flight.
func (l *Load) InFlight() int64 { return l.inFlight.Load() }

// Total returns this process's and its peers' requests in flight.
func (l *Load) Total() int64 { return l.inFlight.Load() + l.elsewhere.Load() }

// start counts a new request, or returns false if limit requests of this process and its peers are
// in flight. A limit of 0 or less means no limit.
func (l *Load) start(limit int64) bool {
	if limit > 0 {
		for {
			own := l.inFlight.Load()
			if own+l.elsewhere.Load() >= limit {
				return false
			}
			if l.inFlight.CompareAndSwap(own, own+1) {
				break
			}
		}
	} else {
		l.inFlight.Add(1)
	}
	l.changed(false)
	return true
}

func (l *Load) end() {
	l.inFlight.Add(-1)
	l.changed(true)
}

func (l *Load) changed(less bool) {
	l.markDirty()
	if limited := l.limited.Load(); limited != nil && less {
		for _, slots := range *limited {
			slots.free()
		}
	}
}

// Record counts a served request. firstByte is the time to the first byte of the body, or 0.
func (l *Load) Record(firstByte time.Duration, now time.Time) {
	l.served.Add(1)
	l.health.succeed(sinceStart(now))
	l.waited.Add(int64(firstByte))
}

// RecordFailed counts a request that the server did not serve, and why in a few words.
func (l *Load) RecordFailed(why string, now time.Time) {
	l.failed.Add(1)
	l.health.fail(why, sinceStart(now))
}

// RecordCanceled counts a request that its client canceled before a response. The server's health
// stays the same.
func (l *Load) RecordCanceled() { l.failed.Add(1) }

// Works records that the server has begun a successful response.
func (l *Load) Works() { l.health.succeed(sinceStart(time.Now())) }

// Totals returns the numbers of served and failed requests, and the sum of the times to the first
// byte of served requests.
func (l *Load) Totals() (served, failed uint64, firstByte time.Duration) {
	return l.served.Load(), l.failed.Load(), time.Duration(l.waited.Load())
}
