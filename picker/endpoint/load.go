package endpoint

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/penstock-project/penstock/picker/prefix"
)

// Load accounts for the requests to one address. It outlives Snapshots that share it.
type Load struct {
	// What each pick reads is at the beginning, in two cache lines.
	inFlight  atomic.Int64  // of this process
	elsewhere atomic.Int64  // of its peers
	sent      atomic.Uint64 // all picks so far: the difference to a sample's is what the scrape can't have seen
	health    health
	prefill   prefill
	adapters  recentAdapters
	latency   atomic.Pointer[latency] // nil until something is learned
	headers   atomic.Pointer[headers] // the same
	// headersElsewhere is what peers have learned of headers; nil: nothing.
	headersElsewhere atomic.Pointer[HeaderLimits]
	reported         reported
	motion           motion
	prefixes         *prefix.Server // nil if the process knows no prefixes

	addr     netip.AddrPort
	registry *Registry
	served   atomic.Uint64
	failed   atomic.Uint64
	waited   atomic.Int64 // nanoseconds to the first byte, of all served requests together

	limited atomic.Pointer[[]*Slots]  // of the pools that limit requests in flight; replaced under Registry.mu
	sources atomic.Pointer[[]*source] // the pages of the address; replaced under Registry.mu
	dirty   atomic.Bool               // the count is to be published
	// newHeaders: what this process has learned of headers is to be published, too.
	newHeaders atomic.Bool
	gone       atomic.Bool // no Snapshot has it

	refs int // of Snapshots; guarded by Registry.mu
}

// setSources replaces the pages. Registry.mu is held.
func (l *Load) setSources(change func([]*source) []*source) {
	var next []*source
	if old := l.sources.Load(); old != nil {
		next = slices.Clone(*old)
	}
	next = change(next)
	l.sources.Store(&next)
}

// Load returns the counters of e's address.
func (e *Endpoint) Load() *Load { return e.load }

// Prefixes returns the prompt prefixes that the server has cached; nil if the process knows none.
func (l *Load) Prefixes() *prefix.Server { return l.prefixes }

// InFlight returns how many requests this process has in flight.
func (l *Load) InFlight() int64 { return l.inFlight.Load() }

// Total returns how many requests all processes have in flight, as far as it is known here.
func (l *Load) Total() int64 { return l.inFlight.Load() + l.elsewhere.Load() }

// start counts a request. It returns false, and counts nothing, if limit requests are in flight,
// those of peers included; a limit of 0 or less is none.
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

// end uncounts a request.
func (l *Load) end() {
	l.inFlight.Add(-1)
	l.changed(true)
}

// changed has a new count published, and pools with a limit try the picks that wait if it is a
// smaller one.
func (l *Load) changed(less bool) {
	l.markDirty()
	if limited := l.limited.Load(); limited != nil && less {
		for _, slots := range *limited {
			slots.free()
		}
	}
}

// Record counts one request that was served, with the time to the first byte of its response's body
// (0: unknown).
func (l *Load) Record(firstByte time.Duration, now time.Time) {
	l.served.Add(1)
	l.health.succeed(sinceStart(now))
	l.waited.Add(int64(firstByte))
}

// RecordFailed counts one request that the server did not serve, and why, in few words.
func (l *Load) RecordFailed(why string, now time.Time) {
	l.failed.Add(1)
	l.health.fail(why, sinceStart(now))
}

// RecordCanceled counts one request that its client has ended before an answer. It shows nothing
// about the server.
func (l *Load) RecordCanceled() { l.failed.Add(1) }

// Works records that the server has begun a response that shows no failure.
func (l *Load) Works() { l.health.succeed(sinceStart(time.Now())) }

// Totals returns the requests served and failed since the endpoint was added, and the time to the
// first byte of all served requests together.
func (l *Load) Totals() (served, failed uint64, firstByte time.Duration) {
	return l.served.Load(), l.failed.Load(), time.Duration(l.waited.Load())
}
