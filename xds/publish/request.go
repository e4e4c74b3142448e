package publish

import (
	"iter"
	"slices"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// Request is a proxy's request for one type in the delta protocol. The stream does not retain it.
type Request struct {
	Type                   resource.Type
	Subscribe, Unsubscribe iter.Seq[string]
	Initial                iter.Seq2[string, string]
	// Error is the error detail of a NACK; "" for an ACK.
	Nonce string
	Error string
}

// A first request for these types without names subscribes to all resources.
var wildcardTypes = [types]bool{resource.Cluster: true, resource.Listener: true}

func (s *Stream) Handle(r Request, now time.Time) {
	s.answered(r, now)
	first := s.first[r.Type]
	s.first[r.Type] = false
	var subscribed []*cache.Slot
	all := false
	if r.Subscribe != nil {
		subscribed = s.cursor.AcquireAll(r.Type, func(yield func(string) bool) {
			for name := range r.Subscribe {
				if all = all || name == "*"; name != "*" && !yield(name) {
					return
				}
			}
		})
	}
	if all || first && len(subscribed) == 0 {
		s.wildcard[r.Type] = wildcardTypes[r.Type]
	}
	var initial bitSet
	if first {
		initial = s.takeInitial(r, subscribed, now)
		if s.wildcard[r.Type] {
			for _, slot := range s.cursor.Each(r.Type) {
				if !s.held.has(slot.ID) {
					s.setWant(s.itemOf(slot), slot.Current(), now)
				}
			}
			s.unanswered[r.Type] = initial.empty()
		}
	}
	for _, slot := range subscribed {
		s.subscribe(slot, initial.has(slot.ID), now)
	}
	if r.Unsubscribe != nil {
		s.unsubscribe(r.Type, r.Unsubscribe, now)
	}
	s.firstRequestDone(r.Type)
}

func (s *Stream) firstRequestDone(t resource.Type) {
	if t == resource.Endpoints {
		clear(s.owed)
	}
}

func (s *Stream) answered(r Request, now time.Time) {
	if r.Nonce == "" {
		return
	}
	i := slices.IndexFunc(s.unacked, func(u *Response) bool { return u.Nonce == r.Nonce })
	if i < 0 {
		return
	}
	resp := s.unacked[i]
	s.unacked = slices.Delete(s.unacked, i, i+1)
	if r.Error != "" {
		s.nack(resp, r.Error, now)
		return
	}
	for _, p := range resp.parts {
		s.ack(p, resp, now)
	}
}

func (s *Stream) ack(p part, r *Response, now time.Time) {
	it := s.items[p.it.slot.Type][p.it.slot]
	if it == nil || it != p.it && p.entry == nil {
		return // the proxy has unsubscribed meanwhile
	}
	if it != p.it {
		s.hold(it.slot) // the proxy subscribed again before the response arrived
	}
	if it.flight == r {
		it.flight = nil
	}
	if p.entry == nil {
		if it.flight == nil && it.want == nil {
			s.unhold(it.slot)
			s.drop(it)
		}
		return
	}
	if it.flight != nil && it.inFlight() == nil {
		return
	}
	s.chainGone(it.have, p.entry, now)
	s.routesLeft(it.have, p.entry, now)
	s.expectRoutes(p.entry, now)
	it.have, it.stale = p.entry, false
	s.noteAccepted(p.entry)
	if it.want == nil && it.flight == nil && it.slot.Type == resource.Endpoints {
		s.setWant(it, nil, now)
	}
	whole := sameVersion(it.want, p.entry) || it.quarantine != nil && it.quarantine.secret != nil
	placed := it.quarantine != nil && it.quarantine.placed
	if it.quarantine != nil && it.quarantine.entry == p.entry {
		s.continueQuarantine(it, true, "", now)
	} else if it.flight == nil && !it.dirty && it.want != nil && it.want.Version == p.entry.Version {
		s.accept(it)
	}
	if it.slot.Type == resource.Secret && it.quarantine == nil && it.flight == nil {
		s.suspects.clear(it.slot.ID)
		if s.retryUsers(it.slot, now); whole || placed {
			s.retryBeside(it.slot, placed, now)
		}
	}
}

// Endpoints that name a new listener wait for the route configurations that the proxy will request
// for it.
func (s *Stream) expectRoutes(e *cache.Entry, now time.Time) {
	if e.Type != resource.Listener {
		return
	}
	for _, n := range e.Names {
		if n.Type == resource.RouteConfiguration && !s.held.has(n.ID) && n.Current() != nil {
			it := s.itemOf(n)
			if it.want == nil {
				it.want, it.since = n.Current(), now
			}
		}
	}
}

func (s *Stream) routesLeft(old, new *cache.Entry, now time.Time) {
	if s.config.Linger == 0 || old == nil || old.Type != resource.RouteConfiguration {
		return
	}
	for _, n := range old.Names {
		if n.Type != resource.Cluster || new.NamesSlot(n) {
			continue
		}
		if until := now.Add(s.linger(n)); s.drain[n].Before(until) {
			s.drain[n] = until
		}
	}
}

func (s *Stream) linger(cluster *cache.Slot) time.Duration {
	if s.config.Called != nil && s.config.Called(cluster.Name) {
		return max(s.config.Linger, s.config.Drain)
	}
	return s.config.Linger
}

func (s *Stream) chainGone(old, new *cache.Entry, now time.Time) {
	if s.config.Drain == 0 || old == nil || old.Type != resource.Listener {
		return
	}
	until := now.Add(s.config.Drain)
	for _, n := range old.Names {
		if new.NamesSlot(n) {
			continue
		}
		switch n.Type {
		case resource.Cluster:
			s.drain[n] = until
		case resource.RouteConfiguration:
			routes := n.Current()
			if it := s.items[n.Type][n]; it != nil {
				routes = it.have
			}
			if routes == nil {
				continue
			}
			for _, c := range routes.Names {
				if c.Type == resource.Cluster {
					s.drain[c] = until
				}
			}
		}
	}
}
