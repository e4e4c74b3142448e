package flow

import (
	"math"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

const (
	// By default, a server is saturated with DefaultQueue waiting requests, or at a KV cache usage
	// of DefaultKV.
	DefaultQueue = 5
	DefaultKV    = 0.8
	// A server with at least sheddableQueue waiting requests gets no sheddable requests.
	sheddableQueue = 1
	prefillRate    = 4000
)

// Saturation configures when a server is saturated.
type Saturation struct {
	Queue    float64 // waiting requests; 0 means DefaultQueue
	KV       float64 // usage of the KV cache, 0 to 1; 0 means DefaultKV
	InFlight int64   // 0 means no limit
}

// Measure returns the room of a pool with these endpoints. A server's saturation is the larger of
// queue / s.Queue and KV cache usage / s.KV; the pool's saturation is the mean of its servers. A
// pool with a saturation below 1 has room for as many requests as would raise it to 1 in the
// queues. InFlight limits the room further. A server's queue is the queue on its metrics page plus
// the requests sent since. If the page is stale, the queue is estimated from the requests in
// flight.
func (s Saturation) Measure(list []endpoint.Endpoint, now time.Time) Room {
	if s.Queue <= 0 {
		s.Queue = DefaultQueue
	}
	if s.KV <= 0 {
		s.KV = DefaultKV
	}
	var room Room
	var sum, sheddable float64
	slots, inFlight := int64(0), int64(0)
	low := min(sheddableQueue, s.Queue)
	var state endpoint.State
	at := endpoint.At(now)
	for i := range list {
		e := &list[i]
		if e.Draining {
			continue
		}
		e.ReadState(&state, at)
		room.Endpoints++
		queue, kv := queued(&state), 0.0
		if state.Fresh {
			kv = state.KV / s.KV
		}
		sum += max(queue/s.Queue, kv)
		sheddable += max(queue/low, kv)
		slots += max(0, s.InFlight-state.InFlight)
		inFlight += state.InFlight
	}
	if room.Endpoints == 0 {
		return room
	}
	n := float64(room.Endpoints)
	room.Saturation = sum / n
	room.Requests = places((n - sum) * s.Queue)
	room.Sheddable = places((n - sheddable) * low)
	if s.InFlight > 0 {
		room.Requests, room.Sheddable = int(min(int64(room.Requests), slots)), int(min(int64(room.Sheddable), slots))
		room.Saturation = max(room.Saturation, float64(inFlight)/(n*float64(s.InFlight)))
		if slots == 0 {
			room.Saturation = max(room.Saturation, 1)
		}
	}
	return room
}

func places(free float64) int {
	if free <= 1e-9 {
		return 0
	}
	return int(max(1, math.Floor(free+1e-9)))
}

func queued(s *endpoint.State) float64 {
	unread := float64(s.Unseen + s.UnseenElsewhere)
	if !s.Fresh {
		unread = max(0, float64(s.InFlight)-s.Running)
	}
	// A request leaves the queue when its prompt is read, so unread is at most the number of
	// prompts that the server has yet to read. But a server that reports a queue cannot run more
	// requests.
	if s.Prompt > 0 && !(s.Fresh && s.Queue > 0) {
		rate := s.Rate
		if rate <= 0 {
			rate = prefillRate
		}
		unread = min(unread, s.Reading*rate/max(s.Prompt, 1))
	}
	if !s.Fresh {
		return unread
	}
	return s.Queue + unread
}
