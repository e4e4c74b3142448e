package schedule

import (
	"math"
	"testing"
	"time"
)

func TestStrategy_WaitIsThatOfTheLeastLoadedServer(t *testing.T) {
	s := strategy(t, Options{Full: Full{Queue: 10}})
	list := endpoints(t, server{inFlight: 4}, server{inFlight: 2}, server{draining: true}, server{queue: 10})
	w, ok := s.Wait(epoch, list)
	want := 2*PerRequest + 1000./defaultRate
	if !ok || w.Servers != 2 || w.Rate != defaultRate || math.Abs(w.Least-want) > 1e-9 {
		t.Errorf("%+v %t, want %g s", w, ok, want)
	}
	if w, ok := s.Wait(epoch, nil); !ok || w != (Wait{}) {
		t.Errorf("without servers: got %+v %t, want no wait, and true", w, ok)
	}
	if _, ok := strategy(t, Options{Name: "least-request"}).Wait(epoch, list); ok {
		t.Error("least-request has costs in seconds")
	}
}

// A request waits behind the picker's queue until the servers have read the queued prompts, but at
// least as long as the oldest queued request has waited.
func TestStrategy_WaitGoesBehindTheQueue(t *testing.T) {
	for name, c := range map[string]struct {
		w    Wait
		q    Queued
		want float64
	}{
		"none": {Wait{Least: 1, Servers: 2, Rate: 1000}, Queued{}, 1},
		"prompts": {Wait{Least: 1, Servers: 2, Rate: 1000}, Queued{Requests: 5, Tokens: 4000},
			1 + (4+5*PerRequest)/2},
		"one waits longer": {Wait{Least: 1, Servers: 2, Rate: 1000},
			Queued{Requests: 5, Tokens: 4000, Oldest: 9 * time.Second}, 10},
		"all are full": {Wait{}, Queued{Requests: 1, Tokens: defaultRate}, 1 + PerRequest},
	} {
		if c.w.Behind(c.q); math.Abs(c.w.Least-c.want) > 1e-9 {
			t.Errorf("%s: %g s, want %g s", name, c.w.Least, c.want)
		}
	}
}
