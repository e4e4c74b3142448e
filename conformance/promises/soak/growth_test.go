package soak

import (
	"math"
	"testing"
)

func TestSoak_SlopeIsFoundInNoise(t *testing.T) {
	var s Samples
	for i := range 360 {
		hours, noise := float64(i)/720, float64(i%7-3)
		s.at = append(s.at, hours)
		s.heap = append(s.heap, 1000+noise)              // without growth
		s.goroutines = append(s.goroutines, 100+2*hours) // grows by 2 per hour, about 2 %
		s.rss = append(s.rss, 1000+200*hours+noise)
	}
	if percent, deviation := slope(s.at, s.goroutines); math.Abs(percent-1.99) > 0.01 || deviation > 1e-6 {
		t.Errorf("a line of 2 %% an hour has %v with error %v, want 1.99 with 0", percent, deviation)
	}
	if percent, deviation := slope(s.at, s.heap); math.Abs(percent) > 2*deviation {
		t.Errorf("noise grows by %v with error %v, want at most two errors", percent, deviation)
	}
	if got := s.Judged(); got != "a slope fails if it exceeds its limit by more than two standard errors" {
		t.Errorf("half an hour: %s, want %q",
			got, "a slope fails if it exceeds its limit by more than two standard errors")
	}
	if got := (&Samples{at: []float64{0, 0.1}}).Judged(); got != "slopes are not judged: samples of 6 minutes show "+
		"noise; a soak of 30 minutes has enough" {
		t.Errorf("six minutes: got %s, want that slopes are not judged", got)
	}
	_, err := s.Growth()
	if err == nil || err.Error() != "rss grows by 19.1 % an hour (standard error 0.1), limit 10" {
		t.Errorf("got %v, want rss grows by 19.1 %% an hour (standard error 0.1), limit 10", err)
	}
}

func TestSoak_LargerConfigurationIsNoGrowth(t *testing.T) {
	flat, grows := Samples{}, Samples{}
	for i := range 360 {
		hours, noise := float64(i)/720, float64(i%7-3)
		size := 50 + 40*math.Sin(float64(i)/200) // the configuration is larger at the end
		endpoints := 30 + size/5 + 20*hours + 5*math.Cos(float64(i)/30)
		for _, s := range []*Samples{&flat, &grows} {
			s.at, s.size, s.endpoints = append(s.at, hours), append(s.size, size), append(s.endpoints, endpoints)
			s.goroutines, s.rss = append(s.goroutines, 100+size), append(s.rss, 1000+size+noise)
		}
		needs := 500 + 10*size + 8*endpoints + noise
		flat.heap, grows.heap = append(flat.heap, needs), append(grows.heap, needs+100*hours)
	}
	if slopes, err := flat.Growth(); err != nil || math.Abs(slopes[0].Percent) > 0.2 {
		t.Errorf("slopes of a heap that follows the configuration: got %v, %v, want at most 0.2 %%", slopes, err)
	}
	if slopes, err := grows.Growth(); err == nil || math.Abs(slopes[0].Percent-5.8) > 0.5 {
		t.Errorf("what grows beside the configuration has %v, %v, want 5.8 %% an hour", slopes, err)
	}
}
