package schedule

import (
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/endpoint"
)

func waiting(s *endpoint.State) float64 { return s.Queue }
func running(s *endpoint.State) float64 { return s.Running }
func kvUse(s *endpoint.State) float64   { return s.KV }

// fewer implements llm-d's queue-scorer and running-requests-size-scorer: the fewest requests score
// 1, the most 0, and others in proportion.
type fewer struct {
	value func(*endpoint.State) float64
}

func (f fewer) add(v view, weight float64) {
	low, high := v.bounds(f.value)
	for i := range v.c {
		score := 1.0
		if v.paged && high > low {
			score = (high - v.value(i, f.value, high)) / (high - low)
		}
		v.c[i].Score += weight * score
	}
}

// kvCache implements llm-d's kv-cache-utilization-scorer: the score is the free part of the KV
// cache.
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

// loadAware implements llm-d's load-aware-scorer: 0.5 without waiting requests, decreasing to 0 at
// Threshold waiting requests.
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

// loraAffinity implements llm-d's lora-affinity-scorer: 1 if requests for the adapter run, 0.8 if
// an adapter slot is free, 0.6 if requests for the adapter wait, else 0.
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
