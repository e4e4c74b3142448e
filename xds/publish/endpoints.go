package publish

import "time"

// endpointsReady sends endpoints at once, except that a hop precedes endpoints that name it. The
// wait is bounded, because a change of endpoints may also remove pods.
func endpointsReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	if it.now {
		return true, time.Time{}
	}
	hop, until := s.awaitsHop(it, now)
	return !hop, until
}
