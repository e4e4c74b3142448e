package publish

import "time"

// endpointsReady sends endpoints at once, unless they begin to name a hop. The wait for the hop is
// bounded, because the same change may remove pods.
func endpointsReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	if it.now {
		return true, time.Time{}
	}
	hop, until := s.awaitsHop(it, now)
	return !hop, until
}
