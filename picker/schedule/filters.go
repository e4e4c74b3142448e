package schedule

import "github.com/penstock-project/penstock/picker/endpoint"

var notDraining = filter{"draining", func(e *endpoint.Endpoint, _ *endpoint.State) bool { return !e.Draining }}

// full is the name of the filter of thresholds.
const full = "full"

// notFull keeps endpoints below all thresholds. Only the threshold of requests in flight applies to
// a stale endpoint, because its last sample no longer holds.
func notFull(f Full) filter {
	return filter{full, func(_ *endpoint.Endpoint, s *endpoint.State) bool { return f.reached(s) == 0 }}
}

// Thresholds that an endpoint has reached.
const (
	reachedInFlight = 1 << iota
	reachedQueue
	reachedKV
)

func (f Full) reached(s *endpoint.State) (r uint8) {
	if f.InFlight > 0 && s.InFlight >= int64(f.InFlight) {
		r |= reachedInFlight
	}
	if !s.Fresh {
		return r
	}
	if f.Queue > 0 && queue(s) >= float64(f.Queue) {
		r |= reachedQueue
	}
	if f.KVCachePercent > 0 && s.KV*100 >= float64(f.KVCachePercent) {
		r |= reachedKV
	}
	return r
}

// queue returns how many requests wait: those of the last scrape and, if there were any, all
// requests sent since, because a server with a queue starts no new request.
func queue(s *endpoint.State) float64 {
	if s.Queue > 0 {
		return s.Queue + float64(s.Unseen)
	}
	return 0
}
