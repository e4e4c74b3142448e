package endpointpicker

import "math"

// Latency scores by the difference between predicted latency and the request's objective.
type Latency struct {
	// TTFTWeight and TPOTWeight are the weights of the time to the first token and of the time per
	// output token.
	TTFTWeight float64 `json:"ttftWeight"`
	TPOTWeight float64 `json:"tpotWeight"`
	// HeadroomSelectionStrategy is least or most: of the endpoints that meet the objective, the
	// endpoint with the least (the default) or the most headroom scores highest.
	HeadroomSelectionStrategy string `json:"headroomSelectionStrategy"`

	CompositeKVWeight                 *float64 `json:"compositeKVWeight"`
	CompositeQueueWeight              *float64 `json:"compositeQueueWeight"`
	CompositePrefixWeight             *float64 `json:"compositePrefixWeight"`
	LatencyPredictionInfoProducerName *string  `json:"latencyPredictionInfoProducerName"`
	PrefixMatchInfoProducerName       string   `json:"prefixMatchInfoProducerName"`
}

func (p *Latency) check() (out found) {
	for _, w := range []struct {
		field string
		value float64
	}{{"ttftWeight", p.TTFTWeight}, {"tpotWeight", p.TPOTWeight}} {
		out.reject(!(w.value >= 0) || math.IsInf(w.value, 0), w.field, "write a weight, such as 0.5",
			"must be at least 0, is %g", w.value)
	}
	strategy := p.HeadroomSelectionStrategy
	out.reject(strategy != "" && strategy != "least" && strategy != "most", "headroomSelectionStrategy",
		"write one of them, or remove it for least", "must be least or most, is %q", strategy)
	composite := p.CompositeKVWeight != nil || p.CompositeQueueWeight != nil || p.CompositePrefixWeight != nil
	out.noEffect("compositeKVWeight", composite, "each server's latency can be predicted")
	return out
}

func (p *Latency) producer() (field, name, kind string) {
	return "prefixMatchInfoProducerName", p.PrefixMatchInfoProducerName, ApproximatePrefixProducer
}

// HeadroomTier keeps the endpoints that are predicted to meet the request's objective.
type HeadroomTier struct {
	// EpsilonExploreNeg is the share of requests, from 0 to 1, for which the filter keeps the other
	// endpoints instead.
	EpsilonExploreNeg float64 `json:"epsilonExploreNeg"`

	LatencyPredictionInfoProducerName *string `json:"latencyPredictionInfoProducerName"`
}

func (p *HeadroomTier) check() (out found) {
	out.part("epsilonExploreNeg", p.EpsilonExploreNeg)
	return out
}

// Probabilistic rejects sheddable requests with a probability that grows with the pool's
// saturation.
type Probabilistic struct {
	// QueueDepthThreshold and KVCacheUtilThreshold are the values at which a server is saturated.
	QueueDepthThreshold  float64 `json:"queueDepthThreshold"`
	KVCacheUtilThreshold float64 `json:"kvCacheUtilThreshold"`
	// The probability is K times the saturation to the power of Power.
	Power float64 `json:"power"`
	K     float64 `json:"k"`
}

func (p *Probabilistic) check() (out found) {
	for _, v := range []struct {
		field string
		value float64
	}{{"queueDepthThreshold", p.QueueDepthThreshold}, {"kvCacheUtilThreshold", p.KVCacheUtilThreshold},
		{"power", p.Power}, {"k", p.K}} {
		out.reject(!(v.value > 0) || math.IsInf(v.value, 0), v.field, "write a number above 0, or remove it",
			"must be above 0, is %g", v.value)
	}
	return out
}

// Admission configures which sheddable requests are rejected. The zero value rejects no request.
type Admission struct {
	// Latency rejects a request that no server is predicted to serve within its objective.
	Latency bool
	// Probabilistic is nil without the plugin.
	Probabilistic *Probabilistic
}

func (r *resolver) admission(p *Profile) {
	for _, name := range r.names {
		in := r.instances[name]
		if in.kind.role != Admitter || in.kind.unknown {
			continue
		}
		if q, ok := in.Parameters.(*Probabilistic); ok {
			p.Admission.Probabilistic = q
		} else {
			p.Admission.Latency = true
		}
		p.reads(&in.kind)
	}
}
