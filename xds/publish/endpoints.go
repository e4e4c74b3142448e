package publish

import "time"

// endpointsReady sends endpoints at once. Endpoints that name a hop wait for the hop, but only for
// a bounded time, because the same change may remove pods.
func endpointsReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	if it.now {
		return true, time.Time{}
	}
	hop, until := s.awaitsHop(it, now)
	return !hop, until
}
