package publish

import (
	"iter"
	"slices"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// Request is what a proxy says about one type, in delta's terms. What is nil is empty. Nothing of it is kept.
type Request struct {
	Type                   resource.Type
	Subscribe, Unsubscribe iter.Seq[string]
	// Initial is what the proxy has, name and version; on the type's first request only.
	Initial iter.Seq2[string, string]
	// Nonce answers a Response; empty: it answers none. Error: the answer is a NACK, in the proxy's words.
	Nonce string
	Error string
}

// wildcardTypes are subscribed to as a whole by a first request without names.
var wildcardTypes = [types]bool{resource.Cluster: true, resource.Listener: true}

// Handle takes in a request of a delta stream.
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
	var said bitSet
	if first {
		said = s.inherit(r, subscribed, now)
		if s.wildcard[r.Type] {
			for _, slot := range s.cursor.Each(r.Type) {
				if !s.held.has(slot.ID) {
					s.aim(s.settled(slot), slot.Current(), now)
				}
			}
			s.silent[r.Type] = said.empty()
		}
	}
	for _, slot := range subscribed {
		s.subscribe(slot, said.has(slot.ID), now)
	}
	if r.Unsubscribe != nil {
		s.unsubscribe(r.Type, r.Unsubscribe)
	}
	s.asksFor(r.Type)
}

// asksFor ends what was for the type's first request.
func (s *Stream) asksFor(t resource.Type) {
	if t == resource.Endpoints {
		clear(s.owed)
	}
}

// inherit takes in what the proxy brought along from an earlier stream, and returns which names that was.
func (s *Stream) inherit(r Request, subscribed []*cache.Slot, now time.Time) (said bitSet) {
	if r.Initial == nil {
		return said
	}
	current, others := s.cursor.AcquireSaid(r.Type, r.Initial)
	if s.unsure.IsZero() && len(current)+len(others) > 0 {
		s.unsure = now
	}
	var asks bitSet
	for _, slot := range subscribed {
		asks.set(slot.ID)
	}
	// new is for each name once. Of what the proxy does not ask for it knows a version but has nothing: an answer that
	// crossed its loss of interest.
	new := func(slot *cache.Slot) bool {
		again := said.has(slot.ID)
		said.set(slot.ID)
		if again || !s.wildcard[r.Type] && !asks.has(slot.ID) {
			s.cursor.Release(slot)
			return false
		}
		s.held.set(slot.ID) // acquired just now
		return true
	}
	for _, slot := range current {
		new(slot)
	}
	for _, other := range others {
		slot := other.Slot
		current := slot.Current()
		if !new(slot) || current != nil && current.Version == other.Version {
			continue
		}
		it := s.item(slot)
		if p := placeholderFor(slot, current); p != nil && p.Version == other.Version {
			it.have, it.want = p, p
			continue
		}
		it.stale = true
		s.aim(it, current, now)
		if slot.Type == resource.Cluster && current == nil && s.config.Linger > 0 {
			s.drain[slot] = now.Add(s.linger(slot)) // its routes may have left it a moment ago
		}
	}
	return said
}

// placeholderFor is what a proxy has that was told that there is no such resource.
func placeholderFor(slot *cache.Slot, current *cache.Entry) *cache.Entry {
	if current != nil {
		return nil
	}
	return cache.Placeholder(slot)
}

// subscribe takes in one name, which was acquired; has, that the proxy brought a version of it along.
func (s *Stream) subscribe(slot *cache.Slot, has bool, now time.Time) {
	if s.asked.has(slot.ID) {
		s.cursor.Release(slot)
	}
	s.asked.set(slot.ID)
	if has && !s.owed[slot] {
		return // it is not waiting: inherit has compared the versions
	}
	s.again(slot, now)
}

func (s *Stream) unsubscribe(t resource.Type, names iter.Seq[string]) {
	for name := range names {
		if name == "*" {
			s.wildcard[t] = false
		}
	}
	slots := s.cursor.AcquireAll(t, names)
	for _, slot := range slots {
		if !s.asked.has(slot.ID) {
			continue
		}
		s.asked.clear(slot.ID)
		s.cursor.Release(slot)
		if s.wildcard[t] {
			continue
		}
		s.unhold(slot)
		if it := s.items[t][slot]; it != nil {
			s.drop(it)
		}
	}
	s.cursor.Release(slots...)
}

// answered takes in an ACK or a NACK.
func (s *Stream) answered(r Request, now time.Time) {
	if r.Nonce == "" {
		return
	}
	i := slices.IndexFunc(s.unacked, func(u *Response) bool { return u.Nonce == r.Nonce })
	if i < 0 {
		return // of another stream, or answered twice
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

// ack takes in that the proxy has what a part brought.
func (s *Stream) ack(p part, r *Response, now time.Time) {
	it := p.it
	if s.items[it.slot.Type][it.slot] != it {
		return // the proxy lost interest meanwhile
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
	if it.flight != nil && it.onItsWay() == nil {
		return // its removal is on the way
	}
	s.chainGone(it.have, p.entry, now)
	s.routesLeft(it.have, p.entry, now)
	s.expectRoutes(p.entry, now)
	it.have, it.stale = p.entry, false
	s.nowHas(p.entry)
	if it.cut != nil && it.cut.entry == p.entry {
		s.lookInto(it, true, "", now)
		return
	}
	if it.flight == nil && !it.dirty && it.want != nil && it.want.Version == p.entry.Version {
		s.accept(it)
	}
}

// expectRoutes notes the route configurations that a new listener is about to ask for: endpoints that name the
// listener wait for them too.
func (s *Stream) expectRoutes(e *cache.Entry, now time.Time) {
	if e.Type != resource.Listener {
		return
	}
	for _, n := range e.Names {
		if n.Type == resource.RouteConfiguration && !s.held.has(n.ID) && n.Current() != nil {
			it := s.settled(n)
			if it.want == nil {
				it.want, it.since = n.Current(), now
			}
		}
	}
}

// routesLeft notes which clusters a route configuration names no longer: see Config.Linger.
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

// linger is how long a cluster stays that routes have left.
func (s *Stream) linger(cluster *cache.Slot) time.Duration {
	if s.config.Called != nil && s.config.Called(cluster.Name) {
		return max(s.config.Linger, s.config.Drain)
	}
	return s.config.Linger
}

// chainGone notes which clusters the chains used that a listener has no longer: their streams still drain.
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
