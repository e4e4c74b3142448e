package flow

import (
	"math"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

const (
	// DefaultQueue and DefaultKV are the waiting requests and the use of the KV cache at which a
	// server is saturated.
	DefaultQueue = 5
	DefaultKV    = 0.8
	// sheddableQueue is the same for requests of a priority below 0: what a server has queued is
	// what a more urgent request waits for.
	sheddableQueue = 1
	// prefillRate, in tokens a second, stands for a rate that is not learned yet.
	prefillRate = 4000
)

// Saturation is when a server is saturated. Zero values mean the defaults.
type Saturation struct {
	Queue    float64 // waiting requests
	KV       float64 // use of the KV cache, 0 to 1
	InFlight int64   // requests in flight; 0: any number
}

// Measure returns how much the endpoints take. A pool's saturation is the mean of its servers', a
// server's is max(queue / Queue, KV / KV). It has room while that is below 1, for as many requests
// as raise it to 1 if each one is queued. With InFlight the saturation is at least the part of the
// requests in flight that the pool may have.
//
// A server's queue is what its page shows, and what was sent there since the page was read. A
// server whose page is stale has the queue that its requests in flight make it have.
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

// places is how many requests a number of free places in queues is: at least one if it is not 0.
func places(free float64) int {
	if free <= 1e-9 {
		return 0
	}
	return int(max(1, math.Floor(free+1e-9)))
}

// queued estimates how many requests wait at a server.
func queued(s *endpoint.State) float64 {
	unread := float64(s.Unseen + s.UnseenElsewhere)
	if !s.Fresh {
		unread = max(0, float64(s.InFlight)-s.Running)
	}
	// Prompts sent there are accounted for, and those that have been read run. A server whose
	// requests wait has no place for more to run.
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
