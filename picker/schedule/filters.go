package schedule

import "github.com/penstock-project/penstock/picker/endpoint"

var notDraining = filter{"draining", func(e *endpoint.Endpoint, _ *endpoint.State) bool { return !e.Draining }}

// notFull keeps endpoints below all thresholds. A stale endpoint is judged by our own requests alone: its old queue says
// nothing about now.
func notFull(f Full) filter {
	return filter{"full", func(_ *endpoint.Endpoint, s *endpoint.State) bool {
		if f.InFlight > 0 && s.InFlight >= int64(f.InFlight) {
			return false
		}
		if !s.Fresh {
			return true
		}
		if f.Queue > 0 && queue(s) >= float64(f.Queue) {
			return false
		}
		return f.KVCachePercent <= 0 || s.KV*100 < float64(f.KVCachePercent)
	}}
}

// queue is how many requests wait: those of the last scrape, and, if there were any, all that we sent since, because a
// server that lets requests wait starts no new one.
func queue(s *endpoint.State) float64 {
	if s.Queue > 0 {
		return s.Queue + float64(s.Unseen)
	}
	return 0
}
