package endpoint

import (
	"net/netip"
	"slices"
	"time"
)

// Each process publishes its counts of each server to its peers. The counts are absolute: the next
// count corrects a late, lost or repeated one.

// Count is this process's Share at a server's address.
type Count struct {
	Addr netip.AddrPort
	Share
	// NewHeaders means that Headers changed since the last Count. Headers may be nil.
	NewHeaders bool
	Headers    *HeaderLimits
}

// Share is the load that one process causes at a server's address.
type Share struct {
	InFlight int64
	// Unread counts the uncached prompt tokens of requests without a reported first token.
	// Confirmed is the part whose requests still wait by a recent report.
	Unread, Confirmed int64
	// Sent is the estimated total time that the server takes for all prompts sent to it so far.
	Sent time.Duration
	// Reading is the estimated time until the server has read the prompts of all processes.
	Reading time.Duration
	// Rate is the prefill rate, reported or else inferred; 0 if unknown.
	Rate float64
}

// Elsewhere is the sum of all peers' Shares at a server's address.
type Elsewhere struct {
	InFlight, Unread, Confirmed int64
	Sent                        time.Duration // growth since the last SetElsewhere
	Reading                     time.Duration // at least this long, for peers whose earlier Sent is unknown
	Rate                        float64       // learned by a peer; 0 if unknown
}

// Counted returns a channel that receives a value when Counts has a change.
func (r *Registry) Counted() <-chan struct{} { return r.counted }

// Counts returns the counts that changed since the last call.
func (r *Registry) Counts(now time.Time) []Count {
	r.publishing.Lock()
	loads := r.unpublished
	r.unpublished = nil
	r.publishing.Unlock()
	out := make([]Count, len(loads))
	for i, l := range loads {
		l.dirty.Store(false) // before reading, so that a later change is reported again
		out[i] = Count{Addr: l.addr, Share: l.share(sinceStart(now)), NewHeaders: l.newHeaders.Swap(false)}
		if out[i].NewHeaders && !l.gone.Load() {
			out[i].Headers = l.headerLimits()
		}
	}
	return out
}

func (l *Load) share(now int64) Share {
	p := &l.prefill
	s := Share{InFlight: l.inFlight.Load(), Unread: p.unread.Load(), Confirmed: p.confirmed.Load(),
		Sent: time.Duration(p.sent.Load())}
	if s.Rate = l.reported.read(now); s.Rate == 0 {
		s.Rate = p.learned()
	}
	s.Reading = time.Duration(max(0, p.readBy.Load()-now))
	return s
}

func (l *Load) markDirty() {
	if l.registry != nil && !l.dirty.Load() && l.dirty.CompareAndSwap(false, true) {
		l.registry.publish(l)
	}
}

func (r *Registry) publish(l *Load) {
	r.publishing.Lock()
	r.unpublished = append(r.unpublished, l)
	r.publishing.Unlock()
	notify(r.counted)
}

// SetElsewhere sets the load of peers at an address, even if no pool has the address.
func (r *Registry) SetElsewhere(addr netip.AddrPort, e Elsewhere, now time.Time) {
	r.mu.Lock()
	if r.peers[addr] = e; e.InFlight == 0 {
		delete(r.peers, addr)
	}
	load := r.loads[addr]
	r.mu.Unlock()
	if load != nil {
		load.setElsewhere(e, sinceStart(now))
	}
}

// SetHeadersElsewhere sets the header limits that peers learned for an address. After nil, an
// existing endpoint keeps its earlier limits.
func (r *Registry) SetHeadersElsewhere(addr netip.AddrPort, limits *HeaderLimits) {
	if limits != nil && !limits.valid() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if limits == nil {
		delete(r.headers, addr)
		return
	}
	r.headers[addr] = limits
	if load := r.loads[addr]; load != nil {
		load.headersElsewhere.Store(limits)
	}
}

func (l *Load) setElsewhere(e Elsewhere, now int64) {
	l.prefill.setElsewhere(e, now)
	if before := l.elsewhere.Swap(e.InFlight); e.InFlight < before {
		if limited := l.limited.Load(); limited != nil {
			for range min(before-e.InFlight, maxWaiting) {
				for _, slots := range *limited {
					slots.free()
				}
			}
		}
	}
}

// The caller holds Registry.mu.
func (l *Load) limit(slots *Slots) {
	var next []*Slots
	if old := l.limited.Load(); old != nil {
		next = slices.Clone(*old)
	}
	next = append(next, slots)
	l.limited.Store(&next)
}

// The caller holds Registry.mu.
func (l *Load) unlimit(slots *Slots) {
	next := slices.Clone(*l.limited.Load())
	i := slices.Index(next, slots)
	if next = slices.Delete(next, i, i+1); len(next) > 0 {
		l.limited.Store(&next)
		return
	}
	l.limited.Store(nil)
}
