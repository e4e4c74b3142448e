package schedule

import (
	"math"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

// latency implements llm-d's latency-scorer. It groups the endpoints by whether they are predicted
// to meet the request's objective. Only the best group (lowest constant below) gets scores. The
// endpoint closest to the objective scores 1. If HeadroomSelectionStrategy is "most" and the group
// meets the objective, the endpoint with the most headroom (objective minus prediction) scores 1.
type latency struct {
	*endpointpicker.Latency
}

const (
	meetsBoth = iota
	idleLate
	lateTokens
	lateFirst
	lateBoth
)

func (l latency) add(v view, weight float64) {
	best := lateBoth
	for i := range v.c {
		best = min(best, l.group(v, i))
	}
	first, between := newSpan(), newSpan()
	for i := range v.c {
		if l.group(v, i) == best {
			first.include(l.first(v, i))
			between.include(l.between(v, i))
		}
	}
	a, b := l.TTFTWeight, l.TPOTWeight
	if sum := a + b; sum > 0 {
		a, b = a/sum, b/sum
	} else {
		a, b = 1, 0
	}
	switch { // a value that is equal at all endpoints gets no weight
	case first.empty() && !between.empty():
		a, b = 0, 1
	case between.empty() && !first.empty():
		a, b = 1, 0
	}
	most := l.HeadroomSelectionStrategy == "most" && best == meetsBoth
	for i := range v.c {
		if l.group(v, i) != best {
			continue
		}
		away := a*first.part(l.first(v, i)) + b*between.part(l.between(v, i))
		if !most {
			away = 1 - away
		}
		v.c[i].Score += weight * (0.01 + 0.99*away)
	}
}

func (l latency) first(v view, i int) float64   { return v.r.Objective.TTFT - v.c[i].TTFT }
func (l latency) between(v view, i int) float64 { return v.r.Objective.TPOT - v.c[i].TPOT }

func (l latency) group(v view, i int) int {
	first, between := l.first(v, i) < 0, l.between(v, i) < 0
	switch {
	case !first && !between:
		return meetsBoth
	case v.state(i).InFlight == 0:
		return idleLate
	case !first:
		return lateTokens
	case !between:
		return lateFirst
	}
	return lateBoth
}

type span struct{ low, high float64 }

func newSpan() span { return span{math.Inf(1), math.Inf(-1)} }

func (s *span) include(headroom float64) {
	d := math.Abs(headroom)
	s.low, s.high = min(s.low, d), max(s.high, d)
}

func (s *span) empty() bool { return s.high-s.low < 1e-9 }

func (s *span) part(headroom float64) float64 {
	if s.empty() {
		return 0.5
	}
	return (math.Abs(headroom) - s.low) / (s.high - s.low)
}

// idleKV is the KV cache usage below which a server counts as idle.
const idleKV = 0.02

// denies reports whether an admitter of the profile rejects a sheddable request.
// latency-slo-admitter does so if no candidate is idle or predicted to meet the objective, and
// probabilistic-admitter with a probability that grows with the pool's saturation.
func (p *plugins) denies(v view) bool {
	if v.r.Criticality != Sheddable {
		return false
	}
	if p.admission.Latency && v.r.Objective != (Objective{}) && p.noneInTime(v) {
		return true
	}
	a := p.admission.Probabilistic
	if a == nil || len(v.c) == 0 {
		return false
	}
	sum := 0.0
	for i := range v.c {
		if s := v.state(i); s.Fresh {
			sum += max(s.Queue/a.QueueDepthThreshold, s.KV/a.KVCacheUtilThreshold)
		} else {
			sum++
		}
	}
	if !v.paged {
		return false
	}
	return uniformPart(p.random()) < math.Pow(sum/float64(len(v.c)), a.Power)*a.K
}

func (p *plugins) noneInTime(v view) bool {
	for i := range v.c {
		if s := v.state(i); !v.c[i].misses || s.InFlight == 0 || s.Fresh && s.KV < idleKV {
			return false
		}
	}
	return true
}
