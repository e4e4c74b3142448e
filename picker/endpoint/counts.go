package endpoint

import (
	"net/netip"
	"slices"
	"time"
)

// Every request in flight counts at its server, whichever process has picked for it. So what this
// process has in flight is published to peers, address by address, and what they publish is added
// here. It is a state and no list of events: what is published late, or twice, or in part, is
// corrected by the next publication. A pick of the last milliseconds may be missing in the count of
// a peer; picker.confirm waits for it where a limit of requests in flight demands it.

// Count is what this process has in flight at an address.
type Count struct {
	Addr netip.AddrPort
	Share
	// NewHeaders: Headers has changed; nil: the address has left all pools. Unlike a Share it
	// counts without requests in flight.
	NewHeaders bool
	Headers    *HeaderLimits
}

// Share is what one process has in flight at an address. Without requests in flight it counts as
// nothing.
type Share struct {
	InFlight int64 // requests
	// Unread is the number of uncached prompt tokens of those whose first token is not reported.
	// Confirmed is the part of it that is known to wait.
	Unread, Confirmed int64
	// Sent is how long the server takes for all the prompts that the process has sent to it so far.
	Sent time.Duration
	// Reading is how long it takes for those that it has not read yet, those of other processes
	// included.
	Reading time.Duration
	// Rate is the prefill rate by the server's series, else the rate that the process has learned;
	// 0: none.
	Rate float64
}

// Elsewhere is what peers have in flight at an address: the sums of their Shares, and what is new.
type Elsewhere struct {
	InFlight, Unread, Confirmed int64
	Sent                        time.Duration // since the last call
	Reading                     time.Duration // at least this; of a peer whose earlier Sent is not known
	Rate                        float64       // of a peer that has learned it; 0: none has
}

// Counted receives a value when Counts has something new.
func (r *Registry) Counted() <-chan struct{} { return r.counted }

// Counts returns the counts that have changed since the last call.
func (r *Registry) Counts(now time.Time) []Count {
	r.publishing.Lock()
	loads := r.unpublished
	r.unpublished = nil
	r.publishing.Unlock()
	out := make([]Count, len(loads))
	for i, l := range loads {
		l.dirty.Store(false) // before the count is read: a later change is reported again
		out[i] = Count{Addr: l.addr, Share: l.share(sinceStart(now)), NewHeaders: l.newHeaders.Swap(false)}
		if out[i].NewHeaders && !l.gone.Load() {
			out[i].Headers = l.headerLimits()
		}
	}
	return out
}

// share is what this process has in flight.
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

// markDirty has the count published.
func (l *Load) markDirty() {
	if l.registry != nil && !l.dirty.Load() && l.dirty.CompareAndSwap(false, true) {
		l.registry.publish(l)
	}
}

// publish adds a load, which is marked dirty, to those that Counts returns.
func (r *Registry) publish(l *Load) {
	r.publishing.Lock()
	r.unpublished = append(r.unpublished, l)
	r.publishing.Unlock()
	notify(r.counted)
}

// SetElsewhere sets what peers have in flight at an address. It keeps that of an address without
// endpoint until it has one.
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

// SetHeadersElsewhere sets what peers have learned of the headers of an address, with or without
// endpoint; nil: no peer has learned anything. A server's endpoint keeps what it had before nil.
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

// limit adds a pool that limits the requests in flight. Registry.mu is held.
func (l *Load) limit(slots *Slots) {
	var next []*Slots
	if old := l.limited.Load(); old != nil {
		next = slices.Clone(*old)
	}
	next = append(next, slots)
	l.limited.Store(&next)
}

// unlimit removes a pool once. Registry.mu is held.
func (l *Load) unlimit(slots *Slots) {
	next := slices.Clone(*l.limited.Load())
	i := slices.Index(next, slots)
	if next = slices.Delete(next, i, i+1); len(next) > 0 {
		l.limited.Store(&next)
		return
	}
	l.limited.Store(nil)
}
