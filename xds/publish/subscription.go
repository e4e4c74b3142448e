package publish

import (
	"iter"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// slot must be acquired. has is set if the proxy resumed with a version of the resource.
func (s *Stream) subscribe(slot *cache.Slot, has bool, now time.Time) {
	if s.subscribed.has(slot.ID) {
		s.cursor.Release(slot)
	}
	s.subscribed.set(slot.ID)
	if has && !s.owed[slot] {
		return // takeInitial has compared the versions
	}
	s.resend(slot, now)
}

func (s *Stream) unsubscribe(t resource.Type, names iter.Seq[string], now time.Time) {
	for name := range names {
		if name == "*" {
			s.wildcard[t] = false
		}
	}
	slots := s.cursor.AcquireAll(t, names)
	for _, slot := range slots {
		if !s.subscribed.has(slot.ID) {
			continue
		}
		s.subscribed.clear(slot.ID)
		s.cursor.Release(slot)
		if s.wildcard[t] {
			continue
		}
		s.unhold(slot)
		if it := s.items[t][slot]; it != nil {
			s.drop(it)
		}
		if t == resource.Secret {
			s.retryUsers(slot, now) // the proxy drops a secret that no resource uses
		}
	}
	s.cursor.Release(slots...)
}
