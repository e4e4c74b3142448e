package publish

import (
	"slices"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// Request is what a proxy says about one type, in delta's terms.
type Request struct {
	Type                   resource.Type
	Subscribe, Unsubscribe []string
	// Initial is what the proxy has, name to version; on the type's first request only.
	Initial map[string]string
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
	subscribe := slices.Clone(r.Subscribe)
	if i := slices.Index(subscribe, "*"); i >= 0 || first && len(subscribe) == 0 {
		if i >= 0 {
			subscribe = slices.Delete(subscribe, i, i+1)
		}
		s.wildcard[r.Type] = wildcardTypes[r.Type]
	}
	if first {
		s.inherit(r, now)
		if s.wildcard[r.Type] {
			for _, slot := range s.cursor.Each(r.Type) {
				if !s.held.has(slot.ID) {
					s.aim(s.settled(slot), slot.Current(), now)
				}
			}
			s.silent[r.Type] = len(r.Initial) == 0
		}
	}
	for _, slot := range s.cursor.Acquire(r.Type, subscribe...) {
		s.subscribe(slot, r.Initial, now)
	}
	s.unsubscribe(r.Type, r.Unsubscribe)
	s.asksFor(r.Type)
}

// asksFor ends what was for the type's first request.
func (s *Stream) asksFor(t resource.Type) {
	if t == resource.Endpoints {
		clear(s.owed)
	}
}

// inherit takes in what the proxy brought along from an earlier stream.
func (s *Stream) inherit(r Request, now time.Time) {
	if len(r.Initial) == 0 {
		return
	}
	if s.unsure.IsZero() {
		s.unsure = now
	}
	// Of what it does not ask for it knows a version but has nothing: an answer that crossed its loss of interest.
	asks := make(map[string]bool, len(r.Subscribe))
	for _, name := range r.Subscribe {
		asks[name] = true
	}
	names := make([]string, 0, len(r.Initial))
	for name := range r.Initial {
		if s.wildcard[r.Type] || asks[name] {
			names = append(names, name)
		}
	}
	for _, slot := range s.cursor.Acquire(r.Type, names...) {
		s.held.set(slot.ID) // acquired just now
		current := slot.Current()
		if current != nil && current.Version == r.Initial[slot.Name] {
			continue
		}
		it := s.item(slot)
		if p := placeholderFor(slot, current); p != nil && p.Version == r.Initial[slot.Name] {
			it.have, it.want = p, p
			continue
		}
		it.stale = true
		s.aim(it, current, now)
		if slot.Type == resource.Cluster && current == nil && s.config.Linger > 0 {
			s.drain[slot] = now.Add(s.config.Linger) // its routes may have left it a moment ago
		}
	}
}

// placeholderFor is what a proxy has that was told that there is no such resource.
func placeholderFor(slot *cache.Slot, current *cache.Entry) *cache.Entry {
	if current != nil {
		return nil
	}
	return cache.Placeholder(slot)
}

// subscribe takes in one name, which was acquired.
func (s *Stream) subscribe(slot *cache.Slot, initial map[string]string, now time.Time) {
	if s.asked.has(slot.ID) {
		s.cursor.Release(slot)
	}
	s.asked.set(slot.ID)
	if _, has := initial[slot.Name]; has && !s.owed[slot] {
		return // it is not waiting: inherit has compared the versions
	}
	s.again(slot, now)
}

func (s *Stream) unsubscribe(t resource.Type, names []string) {
	if len(names) == 0 {
		return
	}
	if slices.Contains(names, "*") {
		s.wildcard[t] = false
	}
	slots := s.cursor.Acquire(t, names...)
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
	until := now.Add(s.config.Linger)
	for _, n := range old.Names {
		if n.Type == resource.Cluster && !new.NamesSlot(n) && s.drain[n].Before(until) {
			s.drain[n] = until
		}
	}
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
