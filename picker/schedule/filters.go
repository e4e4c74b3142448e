package schedule

import "github.com/penstock-project/penstock/picker/endpoint"

var notDraining = filter{"draining", func(e *endpoint.Endpoint, _ *endpoint.State) bool { return !e.Draining }}

const full = "full"

// notFull removes full endpoints. For an endpoint with a stale metrics page, only the requests in
// flight count.
func notFull(f Full) filter {
	return filter{full, func(_ *endpoint.Endpoint, s *endpoint.State) bool { return f.reached(s) == 0 }}
}

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

// queue returns the number of waiting requests. If the last scrape shows a queue, requests sent
// since that scrape also count.
func queue(s *endpoint.State) float64 {
	if s.Queue > 0 {
		return s.Queue + float64(s.Unseen)
	}
	return 0
}
