package schedule

import (
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
)

// Scorers that read the servers' metrics pages. While pages decide nothing, each gives all
// candidates the score of an idle server.

func waiting(s *endpoint.State) float64 { return s.Queue }
func running(s *endpoint.State) float64 { return s.Running }
func kvUse(s *endpoint.State) float64   { return s.KV }

// fewer is queue-scorer and running-requests-size-scorer: 1 for the fewest requests of all
// candidates, 0 for the most, in proportion between; 1 for all if they have equally many.
type fewer struct {
	of func(*endpoint.State) float64
}

func (f fewer) add(v view, weight float64) {
	low, high := v.bounds(f.of)
	for i := range v.c {
		score := 1.0
		if v.paged && high > low {
			score = (high - v.value(i, f.of, high)) / (high - low)
		}
		v.c[i].Score += weight * score
	}
}

// kvCache is kv-cache-utilization-scorer: the part of the KV cache that is free.
type kvCache struct{}

func (kvCache) add(v view, weight float64) {
	_, high := v.bounds(kvUse)
	for i := range v.c {
		score := 1.0
		if v.paged {
			score = within(1 - v.value(i, kvUse, high))
		}
		v.c[i].Score += weight * score
	}
}

// loadAware is load-aware-scorer: 0.5 without waiting requests, falling to 0 at Threshold of them.
type loadAware struct{ *endpointpicker.LoadAware }

func (l loadAware) add(v view, weight float64) {
	_, high := v.bounds(waiting)
	for i := range v.c {
		score := 0.5
		if v.paged {
			score *= 1 - min(v.value(i, waiting, high)/float64(l.Threshold), 1)
		}
		v.c[i].Score += weight * score
	}
}

// loraAffinity is lora-affinity-scorer: 1 where requests for the adapter run, 0.8 where a slot is
// free, 0.6 where requests for it wait, else 0. A stale page counts as it was last.
type loraAffinity struct{}

func (loraAffinity) add(v view, weight float64) {
	for i := range v.c {
		var score float64
		switch a := v.state(i).Adapters; {
		case a.Runs(v.r.Model):
			score = 1
		case a.Free():
			score = 0.8
		case a.Has(v.r.Model):
			score = 0.6
		}
		v.c[i].Score += weight * score
	}
}
