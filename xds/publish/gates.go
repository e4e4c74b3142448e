package publish

import (
	"slices"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

func always(*Stream, *item, time.Time) (bool, time.Time) { return true, time.Time{} }

// clusterReady: one response at a time, so that changes collapse; but the ACK is withheld while anything warms, so
// the next may go after the watchdog.
func clusterReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	if !s.first[resource.Listener] || !s.unsure.IsZero() { // at a start endpoints come first, or nothing would ever be warm
		// The hops of endpoints that it will bring along come first: something may name it already.
		w := s.waiting(now)
		for _, e := range it.want.Names {
			if e.Type == resource.Endpoints && !it.have.NamesSlot(e) && w.hopBehind(e) && w.before(it.since) {
				return false, w.until
			}
		}
	}
	for i := len(s.unacked) - 1; i >= 0; i-- {
		if r := s.unacked[i]; r.Type == resource.Cluster {
			until := r.At.Add(s.config.Watchdog)
			return !now.Before(until), until
		}
	}
	return true, time.Time{}
}

// endpointsReady: at once, except that a hop comes before the endpoints that name it. Only for so long: endpoints also
// tell which pods are gone.
func endpointsReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	if it.now {
		return true, time.Time{}
	}
	hop, until := s.awaitsHop(it, now)
	return !hop, until
}

// awaitsHop says whether endpoints begin to name a hop that is on its way, and until when that matters.
func (s *Stream) awaitsHop(it *item, now time.Time) (bool, time.Time) {
	if len(s.hopsBehind(it, now)) == 0 {
		return false, time.Time{}
	}
	until := it.since.Add(s.config.Watchdog)
	return now.Before(until), until
}

// hopsBehind are the hops that endpoints begin to name and that are on their way.
func (s *Stream) hopsBehind(it *item, now time.Time) (out []*cache.Slot) {
	if s.calm {
		return nil
	}
	w := s.waiting(now)
	for _, n := range it.want.Names {
		if n.Type == resource.Listener && !it.last().NamesSlot(n) && w.hop(n) {
			out = append(out, n)
		}
	}
	return out
}

// routesReady, for route configurations and listeners: after the clusters that they (or a listener's routes) name, and
// the hops behind these.
func routesReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	if it.flight != nil {
		return false, time.Time{}
	}
	w := s.waiting(now)
	return !w.any(it.want), w.until
}

// waiting looks for what a resource has to wait for.
type waiting struct {
	s    *Stream
	now  time.Time
	seen map[*cache.Slot]bool
	// until is when the watchdog of what was found ends; zero if it is to be waited for however long it takes.
	until time.Time
}

func (s *Stream) waiting(now time.Time) *waiting { return &waiting{s: s, now: now} }

// isCalm says that there is nothing to wait for, which is nearly always so and saves looking.
func (s *Stream) isCalm() bool {
	if !s.unsure.IsZero() && s.first[resource.Listener] || len(s.items[resource.Cluster]) > 0 || len(s.items[resource.Listener]) > 0 {
		return false
	}
	for _, it := range s.items[resource.RouteConfiguration] {
		if it.have == nil && !it.stale {
			return false // perhaps a hop's
		}
	}
	return true
}

// any says whether something that the entry names is not in force yet.
func (w *waiting) any(e *cache.Entry) bool {
	if w.s.calm {
		return false
	}
	if w.seen == nil {
		w.seen = map[*cache.Slot]bool{}
	}
	for _, n := range e.Names {
		switch n.Type {
		case resource.Cluster:
			if w.cluster(n) {
				return true
			}
		case resource.RouteConfiguration: // of a listener: what its routes wait for
			if w.enter(n) && n.Current() != nil && w.any(n.Current()) {
				return true
			}
		}
	}
	return false
}

func (w *waiting) enter(n *cache.Slot) bool {
	if w.seen[n] {
		return false
	}
	w.seen[n] = true
	return true
}

// cluster says whether a cluster is on its way. A rejected one is not: the routes to others go on without it.
func (w *waiting) cluster(n *cache.Slot) bool {
	if !w.enter(n) {
		return false
	}
	it := w.s.items[resource.Cluster][n]
	if it != nil && it.want != nil && (it.dirty || it.flight != nil) && it.want.Version != it.bad {
		if it.have == nil && !it.stale {
			w.until = time.Time{}
			return true // new: without it these routes answer 503
		}
		if w.before(it.since) {
			return true
		}
	}
	if n.Current() == nil {
		return false
	}
	for _, e := range n.Current().Names { // its hops
		if e.Type != resource.Endpoints || e.Current() == nil {
			continue
		}
		for _, l := range e.Current().Names {
			if l.Type != resource.Listener || !w.hop(l) {
				continue
			}
			if hop := w.s.items[resource.Listener][l]; hop != nil && w.before(hop.since) {
				return true
			}
		}
	}
	return false
}

// hopBehind says whether endpoints name a hop that is on its way.
func (w *waiting) hopBehind(e *cache.Slot) bool {
	return e.Current() != nil && slices.ContainsFunc(e.Current().Names, func(l *cache.Slot) bool {
		return l.Type == resource.Listener && w.hop(l)
	})
}

// hop says whether a listener or its routes are on their way.
func (w *waiting) hop(l *cache.Slot) bool {
	if s := w.s; s.first[resource.Listener] {
		// It has come back and will say in a moment which listeners it has; unless it had not come that far.
		until := s.unsure.Add(s.config.Settle)
		if s.unsure.IsZero() || !w.now.Before(until) {
			return false
		}
		s.wakeAt(until)
		return true
	}
	if it := w.s.items[resource.Listener][l]; it != nil && it.want != nil && (it.dirty || it.flight != nil) && it.want.Version != it.bad {
		return true
	}
	if l.Current() == nil {
		return false
	}
	for _, n := range l.Current().Names {
		if n.Type != resource.RouteConfiguration {
			continue
		}
		if it := w.s.items[n.Type][n]; it != nil && it.want != nil && it.have == nil && !it.stale && it.want.Version != it.bad {
			return true
		}
	}
	return false
}

// before says whether the watchdog that began at a time is still running, and notes its end.
func (w *waiting) before(since time.Time) bool {
	end := since.Add(w.s.config.Watchdog)
	if !w.now.Before(end) {
		return false
	}
	w.until = end
	return true
}

// lagCheck is how often a removal that waits for Config.Lagging looks again.
const lagCheck = time.Second

// unused says whether nothing names a resource any more: neither what the proxy should have, nor what it may have.
func unused(s *Stream, it *item, now time.Time) (bool, time.Time) {
	slot := it.slot
	if slot.Named() {
		return false, time.Time{}
	}
	if s.config.Lagging != nil && s.config.Lagging() {
		return false, now.Add(lagCheck)
	}
	if until, draining := s.drain[slot]; draining {
		return false, until
	}
	if !s.unsure.IsZero() && s.first[resource.RouteConfiguration] {
		if until := s.unsure.Add(s.config.Settle); now.Before(until) {
			return false, until
		}
	}
	for t := range s.items {
		for _, other := range s.items[t] {
			if other == it {
				continue
			}
			if other.have.NamesSlot(slot) {
				return false, time.Time{}
			}
			if other.stale {
				if wait, until := s.mayName(other, slot, now); wait {
					return false, until
				}
			}
		}
	}
	for _, r := range s.unacked {
		for _, p := range r.parts {
			if p.it != it && p.entry.NamesSlot(slot) {
				return false, time.Time{}
			}
		}
	}
	return true, time.Time{}
}

// mayName says whether the version of a resource that the proxy came back with, which we do not know, may name another.
func (s *Stream) mayName(it *item, slot *cache.Slot, now time.Time) (wait bool, until time.Time) {
	bound := s.config.Settle
	switch {
	case slot.Type == resource.Cluster && (it.slot.Type == resource.Listener || it.slot.Type == resource.RouteConfiguration):
		if it.want != nil {
			return true, time.Time{}
		}
		bound = max(bound, s.config.Drain)
	case slot.Type != resource.Listener || it.slot.Type != resource.Endpoints:
		return false, time.Time{}
	}
	// Only for so long: endpoints may be waiting for their cluster, it for its routes, and these for the very listener
	// to go that the endpoints may name. Unless that chain begins with something that stays: its new version is refused.
	if it.want == nil && s.refuses() {
		return true, time.Time{}
	}
	until = s.unsure.Add(bound)
	return now.Before(until), until
}

// refuses says whether the proxy keeps something because it refuses what should replace it.
func (s *Stream) refuses() bool {
	for t := range s.items {
		for _, it := range s.items[t] {
			if it.bad != "" && it.want != nil {
				return true
			}
		}
	}
	return false
}
