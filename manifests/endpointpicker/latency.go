package endpointpicker

import (
	"fmt"
	"math"
)

// Parameters of plugins that go by latency, and of those that reject sheddable requests.

// Latency scores by how far the predicted latency is from what a request asks for.
//
// +kubebuilder:object:generate=false
type Latency struct {
	// TTFTWeight and TPOTWeight are the parts of the times to the first token, and between two.
	TTFTWeight float64 `json:"ttftWeight"`
	TPOTWeight float64 `json:"tpotWeight"`
	// HeadroomSelectionStrategy is least, for the endpoint that meets the objective most closely,
	// or most.
	HeadroomSelectionStrategy string `json:"headroomSelectionStrategy"`

	CompositeKVWeight                 *float64 `json:"compositeKVWeight"`
	CompositeQueueWeight              *float64 `json:"compositeQueueWeight"`
	CompositePrefixWeight             *float64 `json:"compositePrefixWeight"`
	LatencyPredictionInfoProducerName *string  `json:"latencyPredictionInfoProducerName"`
	PrefixMatchInfoProducerName       string   `json:"prefixMatchInfoProducerName"`
}

func (p *Latency) check() (out []Problem) {
	for _, w := range []struct {
		field string
		value float64
	}{{"ttftWeight", p.TTFTWeight}, {"tpotWeight", p.TPOTWeight}} {
		if !(w.value >= 0) || math.IsInf(w.value, 0) {
			out = append(out,
				Problem{Field: w.field, Problem: fmt.Sprintf("must be at least 0, is %g", w.value),
					Fix: "write a weight, such as 0.5"})
		}
	}
	switch p.HeadroomSelectionStrategy {
	case "", "least", "most":
	default:
		out = append(out, Problem{Field: "headroomSelectionStrategy",
			Problem: fmt.Sprintf("must be least or most, is %q", p.HeadroomSelectionStrategy),
			Fix:     "write one of them, or remove it for least"})
	}
	composite := p.CompositeKVWeight != nil || p.CompositeQueueWeight != nil || p.CompositePrefixWeight != nil
	return append(out, noEffect("compositeKVWeight", composite, "each server's latency can be predicted")...)
}

func (p *Latency) producer() (field, name, kind string) {
	return "prefixMatchInfoProducerName", p.PrefixMatchInfoProducerName, ApproximatePrefixProducer
}

// HeadroomTier keeps the endpoints that are predicted to meet a request's objective.
//
// +kubebuilder:object:generate=false
type HeadroomTier struct {
	// EpsilonExploreNeg is the part of requests for which the others stay instead.
	EpsilonExploreNeg float64 `json:"epsilonExploreNeg"`

	LatencyPredictionInfoProducerName *string `json:"latencyPredictionInfoProducerName"`
}

func (p *HeadroomTier) check() []Problem { return part("epsilonExploreNeg", p.EpsilonExploreNeg) }

// Probabilistic rejects sheddable requests with a probability that grows with the pool's
// saturation.
//
// +kubebuilder:object:generate=false
type Probabilistic struct {
	// QueueDepthThreshold and KVCacheUtilThreshold are where a server is saturated.
	QueueDepthThreshold  float64 `json:"queueDepthThreshold"`
	KVCacheUtilThreshold float64 `json:"kvCacheUtilThreshold"`
	// Power and K: the probability is K times the saturation to the Power.
	Power float64 `json:"power"`
	K     float64 `json:"k"`
}

func (p *Probabilistic) check() (out []Problem) {
	for _, v := range []struct {
		field string
		value float64
	}{{"queueDepthThreshold", p.QueueDepthThreshold}, {"kvCacheUtilThreshold", p.KVCacheUtilThreshold},
		{"power", p.Power}, {"k", p.K}} {
		if !(v.value > 0) || math.IsInf(v.value, 0) {
			out = append(out,
				Problem{Field: v.field, Problem: fmt.Sprintf("must be above 0, is %g", v.value),
					Fix: "write a number above 0, or remove it"})
		}
	}
	return out
}

// Admission are the rules by which a document rejects sheddable requests. The zero value has none.
//
// +kubebuilder:object:generate=false
type Admission struct {
	// Latency rejects one that no server is predicted to serve within its objective.
	Latency bool
	// Probabilistic is nil without the plugin.
	Probabilistic *Probabilistic
}

// admission returns the admitters of a document, which need not be part of a profile.
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
