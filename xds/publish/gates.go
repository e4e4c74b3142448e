package publish

import (
	"slices"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

func always(*Stream, *item, time.Time) (bool, time.Time) { return true, time.Time{} }

func secretReady(_ *Stream, it *item, _ time.Time) (bool, time.Time) {
	return it.quarantine == nil || it.flight == nil, time.Time{}
}

// clusterReady allows one response at a time, so that changes collapse. After Config.Watchdog it
// does not wait for the ACK, which Envoy withholds while any cluster warms.
func clusterReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	// A starting proxy gets internal listeners only after its clusters are warm, so its clusters do
	// not wait.
	if !s.first[resource.Listener] || !s.resumedAt.IsZero() {
		// Another resource may already name the cluster, so internal listeners that its endpoints
		// name come first.
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

// awaitsHop reports whether endpoints wait for a new internal listener or virtual host, and until
// when.
func (s *Stream) awaitsHop(it *item, now time.Time) (bool, time.Time) {
	if len(s.hopsBehind(it, now)) == 0 {
		return false, time.Time{}
	}
	until := it.since.Add(s.config.Watchdog)
	return now.Before(until), until
}

func (s *Stream) hopsBehind(it *item, now time.Time) (out []*cache.Slot) {
	if s.calm {
		return nil
	}
	w := s.waiting(now)
	for _, n := range it.want.Names {
		if isHop(n) && !it.lastSent().NamesSlot(n) && w.awaits(it.want, n) {
			out = append(out, n)
		}
	}
	return out
}

// A listener also waits for the clusters that its routes name.
func routesReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	if it.flight != nil {
		return false, time.Time{}
	}
	w := s.waiting(now)
	if w.any(it.want) || w.secret(it) {
		return false, w.until
	}
	// A change that only removes virtual hosts waits while endpoints name them.
	e := s.withUsedHosts(it, now)
	return e == it.want || it.lastSent() == nil || e.Version != it.lastSent().Version, time.Time{}
}

type waiting struct {
	s     *Stream
	now   time.Time
	seen  map[*cache.Slot]bool
	until time.Time
}

func (s *Stream) waiting(now time.Time) *waiting { return &waiting{s: s, now: now} }

// isCalm detects the usual case without a search: no item waits for another item.
func (s *Stream) isCalm() bool {
	if !s.resumedAt.IsZero() && (s.first[resource.Listener] || s.first[resource.RouteConfiguration]) ||
		len(s.items[resource.Cluster]) > 0 || len(s.items[resource.Listener]) > 0 {
		return false
	}
	for _, it := range s.items[resource.RouteConfiguration] {
		if it.have == nil && !it.stale || it.want != nil && slices.ContainsFunc(it.want.Names, isHost) {
			return false
		}
	}
	return true
}

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
		case resource.RouteConfiguration:
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

func (w *waiting) cluster(n *cache.Slot) bool {
	if !w.enter(n) {
		return false
	}
	it := w.s.items[resource.Cluster][n]
	if it != nil && it.want != nil && (it.dirty || it.flight != nil) && it.want.Version != it.rejected {
		if it.have == nil && !it.stale {
			w.until = time.Time{}
			return true // without the cluster, the routes would answer 503
		}
		if w.before(it.since) {
			return true
		}
	}
	if n.Current() == nil {
		return false
	}
	for _, e := range n.Current().Names {
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
		for _, h := range e.Current().Names {
			if h.Type != resource.VirtualHost {
				continue
			}
			if since, pending := w.host(e.Current(), h); pending && w.before(since) {
				return true
			}
		}
	}
	return false
}

func (w *waiting) hopBehind(e *cache.Slot) bool {
	return e.Current() != nil && slices.ContainsFunc(e.Current().Names, func(n *cache.Slot) bool {
		return w.awaits(e.Current(), n)
	})
}

func (w *waiting) hop(l *cache.Slot) bool {
	if s := w.s; s.first[resource.Listener] {
		// A resumed proxy will soon report its listeners. A new proxy has none yet.
		until := s.resumedAt.Add(s.config.Settle)
		if s.resumedAt.IsZero() || !w.now.Before(until) {
			return false
		}
		s.flushAt(until)
		return true
	}
	if it := w.s.items[resource.Listener][l]; it != nil && it.want != nil && (it.dirty || it.flight != nil) &&
		it.want.Version != it.rejected {
		return true
	}
	if l.Current() == nil {
		return false
	}
	for _, n := range l.Current().Names {
		if n.Type != resource.RouteConfiguration {
			continue
		}
		if it := w.s.items[n.Type][n]; it != nil && it.want != nil && it.have == nil && !it.stale &&
			it.want.Version != it.rejected {
			return true
		}
	}
	return false
}

func (w *waiting) before(since time.Time) bool {
	end := since.Add(w.s.config.Watchdog)
	if !w.now.Before(end) {
		return false
	}
	w.until = end
	return true
}

const lagCheck = time.Second

// unused allows a removal once no desired version, and no version that the proxy may have, names
// the resource.
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
	if !s.resumedAt.IsZero() && s.first[resource.RouteConfiguration] {
		if until := s.resumedAt.Add(s.config.Settle); now.Before(until) {
			return false, until
		}
	}
	if s.proxyNames(slot, it) {
		return false, time.Time{}
	}
	if wait, until := s.mayNameStale(slot, it, now); wait {
		return false, until
	}
	return true, time.Time{}
}

// mayNameStale reports whether a resource other than `but` may name the slot, because its version
// at a resumed proxy is unknown. until is when this assumption ends; zero: never.
func (s *Stream) mayNameStale(slot *cache.Slot, but *item, now time.Time) (wait bool, until time.Time) {
	for t := range s.items {
		for _, other := range s.items[t] {
			if other == but || !other.stale {
				continue
			}
			if wait, until := s.mayName(other, slot, now); wait {
				return true, until
			}
		}
	}
	return false, time.Time{}
}

func (s *Stream) proxyNames(slot *cache.Slot, but *item) bool {
	for t := range s.items {
		for _, other := range s.items[t] {
			if other != but && other.have.NamesSlot(slot) {
				return true
			}
		}
	}
	for _, r := range s.unacked {
		for _, p := range r.parts {
			if p.it != but && p.entry.NamesSlot(slot) {
				return true
			}
		}
	}
	return false
}

func (s *Stream) mayName(it *item, slot *cache.Slot, now time.Time) (wait bool, until time.Time) {
	bound := s.config.Settle
	switch {
	case slot.Type == resource.Cluster &&
		(it.slot.Type == resource.Listener || it.slot.Type == resource.RouteConfiguration):
		if it.want != nil {
			return true, time.Time{}
		}
		bound = max(bound, s.config.Drain)
	case !isHop(slot) || it.slot.Type != resource.Endpoints:
		return false, time.Time{}
	}
	// The wait is bounded to break a cycle: endpoints wait for their cluster, the cluster for its
	// routes, and the routes for the removal of a listener that the endpoints may name. An item to
	// be removed stays while the proxy rejects a desired version; its wait has no bound.
	if it.want == nil && s.keepsRejected() {
		return true, time.Time{}
	}
	until = s.resumedAt.Add(bound)
	return now.Before(until), until
}

func (s *Stream) keepsRejected() bool {
	for t := range s.items {
		for _, it := range s.items[t] {
			if it.rejected != "" && it.want != nil {
				return true
			}
		}
	}
	return false
}
