package publish

import (
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

func (s *Stream) takeInitial(r Request, subscribed []*cache.Slot, now time.Time) (initial bitSet) {
	if r.Initial == nil {
		return initial
	}
	current, others := s.cursor.AcquireInitial(r.Type, r.Initial)
	if len(current)+len(others) > 0 {
		s.resumed = true
		if s.resumedAt.IsZero() {
			s.resumedAt = now
		}
	}
	var asks bitSet
	for _, slot := range subscribed {
		asks.set(slot.ID)
	}
	// The proxy may list a name without a subscription, if a response crossed the unsubscription.
	take := func(slot *cache.Slot) bool {
		repeated := initial.has(slot.ID)
		initial.set(slot.ID)
		if repeated || !s.wildcard[r.Type] && !asks.has(slot.ID) {
			s.cursor.Release(slot)
			return false
		}
		s.held.set(slot.ID)
		return true
	}
	for _, slot := range current {
		take(slot)
	}
	for _, other := range others {
		slot := other.Slot
		current := slot.Current()
		if !take(slot) {
			continue
		}
		if current != nil && current.Version == other.Version {
			s.resumedWith(current)
			continue
		}
		it := s.newItem(slot)
		if p := placeholderFor(slot, current); p != nil && p.Version == other.Version {
			it.have, it.want = p, p
			continue
		}
		it.stale = true
		s.setWant(it, current, now)
		if slot.Type == resource.Cluster && current == nil && s.config.Linger > 0 {
			s.drain[slot] = now.Add(s.linger(slot))
		}
	}
	return initial
}

// Without an item, the next pull would assume that the proxy has the version before e.
func (s *Stream) resumedWith(e *cache.Entry) {
	if e.Seq > s.cursor.Seq() {
		it := s.newItem(e.Slot)
		it.have, it.want = e, e
	}
}

func placeholderFor(slot *cache.Slot, current *cache.Entry) *cache.Entry {
	if current != nil {
		return nil
	}
	return cache.Placeholder(slot)
}
