package publish

import "time"

// Endpoints wait for a new internal listener or virtual host that they name. The wait is bounded,
// because the same change may remove pods.
func endpointsReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	if it.now {
		return true, time.Time{}
	}
	hop, until := s.awaitsHop(it, now)
	return !hop, until
}
