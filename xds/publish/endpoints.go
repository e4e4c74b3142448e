package publish

import "time"

// endpointsReady sends endpoints at once, but after hops that they name, for a bounded time,
// because a change may also remove pods.
func endpointsReady(s *Stream, it *item, now time.Time) (bool, time.Time) {
	if it.now {
		return true, time.Time{}
	}
	hop, until := s.awaitsHop(it, now)
	return !hop, until
}
