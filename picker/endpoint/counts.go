package endpoint

import (
	"net/netip"
	"slices"
)

// A limit of requests in flight counts those of all processes. So the counts at endpoints with a limit are published to
// peers, and theirs are added here. A pick of the last milliseconds may be missing in the count of a peer; picker.confirm
// waits for it where that matters.

// Count is how many requests this process has in flight at an address.
type Count struct {
	Addr     netip.AddrPort
	InFlight int64 // 0: there are none, or no pool limits them any more
}

// Counted receives a value when Counts has something new.
func (r *Registry) Counted() <-chan struct{} { return r.counted }

// Counts returns the counts that have changed since the last call, of endpoints in pools that limit requests in flight.
func (r *Registry) Counts() []Count {
	r.publishing.Lock()
	loads := r.unpublished
	r.unpublished = nil
	r.publishing.Unlock()
	out := make([]Count, len(loads))
	for i, l := range loads {
		l.dirty.Store(false) // before the count is read: a later change is reported again
		out[i].Addr = l.addr
		if l.limited.Load() != nil {
			out[i].InFlight = l.inFlight.Load()
		}
	}
	return out
}

// publish adds a load, which is marked dirty, to those that Counts returns.
func (r *Registry) publish(l *Load) {
	r.publishing.Lock()
	r.unpublished = append(r.unpublished, l)
	r.publishing.Unlock()
	notify(r.counted)
}

// SetElsewhere sets how many requests peers have in flight at an address.
func (r *Registry) SetElsewhere(addr netip.AddrPort, n int64) {
	r.mu.Lock()
	if r.peers[addr] = n; n == 0 {
		delete(r.peers, addr)
	}
	load := r.loads[addr]
	r.mu.Unlock()
	if load == nil {
		return
	}
	if before := load.elsewhere.Swap(n); n < before {
		if limited := load.limited.Load(); limited != nil {
			for range min(before-n, maxWaiting) {
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
	if l.inFlight.Load() > 0 && l.dirty.CompareAndSwap(false, true) {
		l.registry.publish(l)
	}
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
	if l.dirty.CompareAndSwap(false, true) {
		l.registry.publish(l) // as none
	}
}
