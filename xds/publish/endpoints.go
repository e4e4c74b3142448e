package publish

import "time"

// Endpoints that begin to name a hop wait for the hop. The wait is bounded, because the same change
// may remove pods.
func endpointsReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	if it.now {
		return true, time.Time{}
	}
	hop, until := s.awaitsHop(it, now)
	return !hop, until
}
