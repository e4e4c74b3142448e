package schedule

import (
	"math"
	"testing"
)

func TestStrategy_WaitIsThatOfTheLeastLoadedServer(t *testing.T) {
	s := strategy(t, Options{Full: Full{Queue: 10}})
	list := endpoints(t, server{inFlight: 4}, server{inFlight: 2}, server{draining: true}, server{queue: 10})
	w, ok := s.Wait(epoch, list)
	want := 2*perRequest + 1000./defaultRate
	if !ok || w.Servers != 2 || w.Rate != defaultRate || math.Abs(w.Least-want) > 1e-9 {
		t.Errorf("%+v %t, want %g s", w, ok, want)
	}
	if w, ok := s.Wait(epoch, nil); !ok || w != (Wait{}) {
		t.Errorf("without servers: %+v %t", w, ok)
	}
	if _, ok := strategy(t, Options{Name: "least-request"}).Wait(epoch, list); ok {
		t.Error("least-request has costs in seconds")
	}
}
