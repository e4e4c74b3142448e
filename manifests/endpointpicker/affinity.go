package endpointpicker

import (
	"fmt"
	"slices"
	"strings"
)

// ByLabel keeps the endpoints whose Label has one of these values.
type ByLabel struct {
	Label         string   `json:"label"`
	ValidValues   []string `json:"validValues"`
	AllowsNoLabel bool     `json:"allowsNoLabel"` // endpoints without the label stay
}

func (p *ByLabel) check() (out found) {
	out.reject(p.Label == "", "label", "write the label of pods that decides", "is empty")
	return out
}

// Keeps reports whether the filter keeps an endpoint with these labels.
func (p *ByLabel) Keeps(labels map[string]string) bool {
	value, ok := labels[p.Label]
	if !ok {
		return p.AllowsNoLabel
	}
	return slices.Contains(p.ValidValues, value)
}

// PrefixAffinity keeps the endpoints that have cached much of a prompt, unless they are much
// slower.
type PrefixAffinity struct {
	// AffinityThreshold is the cached share of the prompt, from 0 to 1, at which an endpoint stays.
	AffinityThreshold float64 `json:"affinityThreshold"`
	// ExplorationProbability is the share of requests, from 0 to 1, for which all endpoints stay.
	ExplorationProbability float64 `json:"explorationProbability"`
	// MaxTTFTPenaltyMs is how much longer the first token may take at the kept endpoints, in ms; 0:
	// no limit.
	MaxTTFTPenaltyMs float64 `json:"maxTTFTPenaltyMs"`
	// TTFTSource selects the estimate of the time to the first token: prefillThroughput (the
	// default) or latencyPredictor.
	TTFTSource string `json:"ttftSource"`
	// PeakPrefillThroughput is in tokens per second.
	PeakPrefillThroughput float64 `json:"peakPrefillThroughput"`

	PrefixMatchInfoProducerName       string  `json:"prefixMatchInfoProducerName"`
	LatencyPredictionInfoProducerName *string `json:"latencyPredictionInfoProducerName"`
	InFlightLoadProducerName          *string `json:"inFlightLoadProducerName"`
}

const (
	byThroughput = "prefillThroughput"
	byPrediction = "latencyPredictor"
)

// Predicts reports whether the filter uses predicted times.
func (p *PrefixAffinity) Predicts() bool {
	return p.TTFTSource == byPrediction && p.MaxTTFTPenaltyMs > 0
}

func (p *PrefixAffinity) check() (out found) {
	out.part("affinityThreshold", p.AffinityThreshold)
	out.part("explorationProbability", p.ExplorationProbability)
	out.reject(!(p.MaxTTFTPenaltyMs >= 0), "maxTTFTPenaltyMs", "write milliseconds, or 0 for any time",
		"must be at least 0, is %g", p.MaxTTFTPenaltyMs)
	out.reject(p.TTFTSource != "" && p.TTFTSource != byThroughput && p.TTFTSource != byPrediction, "ttftSource",
		"write one of them, or remove it for "+byThroughput, "must be %s or %s, is %q", byThroughput, byPrediction,
		p.TTFTSource)
	out.reject(!(p.PeakPrefillThroughput > 0), "peakPrefillThroughput", "write tokens a second, or remove it for 15928",
		"must be above 0, is %g", p.PeakPrefillThroughput)
	return out
}

func (p *PrefixAffinity) producer() (field, name, kind string) {
	return "prefixMatchInfoProducerName", p.PrefixMatchInfoProducerName, ApproximatePrefixProducer
}

// If no endpoint has cached a part of a prompt, NoHitLRU selects the endpoint that got such a
// prompt least recently.
type NoHitLRU struct {
	// LRUSize bounds the remembered endpoints.
	LRUSize int `json:"lruSize"`

	PrefixPluginType            *string `json:"prefixPluginType"`
	PrefixPluginName            *string `json:"prefixPluginName"`
	PrefixMatchInfoProducerName string  `json:"prefixMatchInfoProducerName"`
}

func (p *NoHitLRU) check() (out found) {
	out.reject(p.LRUSize < 1, "lruSize", "write a number of endpoints, or remove it for 1024",
		"must be at least 1, is %d", p.LRUSize)
	return out
}

func (p *NoHitLRU) producer() (field, name, kind string) {
	return "prefixMatchInfoProducerName", p.PrefixMatchInfoProducerName, ApproximatePrefixProducer
}

// ContextLength scores endpoints by the range of prompt lengths in their label.
type ContextLength struct {
	// Label has the range, in tokens, such as 0-2048.
	Label string `json:"label"`
	// EnableFiltering drops the endpoints whose range excludes the prompt's length.
	EnableFiltering bool `json:"enableFiltering"`
}

func (p *ContextLength) check() (out found) {
	out.reject(p.Label == "", "label", "write the label of pods that has the range, or remove it", "is empty")
	return out
}

// HeaderLabel prefers the endpoints whose label equals a request's header.
type HeaderLabel struct {
	HeaderName string `json:"headerName"`
	LabelKey   string `json:"labelKey"`
}

func (p *HeaderLabel) check() (out found) {
	out.header("headerName", p.HeaderName)
	out.reject(p.LabelKey == "", "labelKey", "write the label that is compared with the header", "is empty")
	return out
}

type sessionID struct {
	HeaderName string `json:"headerName"`
	CookieName string `json:"cookieName"`
}

func (p *sessionID) check() (out found) {
	switch {
	case (p.HeaderName == "") == (p.CookieName == ""):
		out.reject(true, "", "write one of them", "must have headerName or cookieName")
	case p.CookieName != "":
		out.header("cookieName", p.CookieName)
	default:
		out.header("headerName", p.HeaderName)
	}
	return out
}

type agentIdentity struct {
	AdditionalSessionHeaders []string `json:"additionalSessionHeaders"`
}

func (p *agentIdentity) check() (out found) {
	for i, name := range p.AdditionalSessionHeaders {
		out.header(fmt.Sprintf("additionalSessionHeaders[%d]", i), name)
	}
	return out
}

var agentHeaders = []string{"x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"}

const agentAttribute = "agent-identity"

func (r *resolver) identities(p *Profile) {
	agents := func() []string {
		for _, name := range r.names {
			if a, ok := r.instances[name].Parameters.(*agentIdentity); ok {
				return slices.Concat(lower(a.AdditionalSessionHeaders), agentHeaders)
			}
		}
		return nil
	}
	p.AgentHeaders = agents()
	for _, name := range r.names {
		switch q := r.instances[name].Parameters.(type) {
		case *sessionID:
			if p.SessionCookie = q.CookieName; q.HeaderName != "" {
				p.SessionHeaders = append(p.SessionHeaders, strings.ToLower(q.HeaderName))
			}
		case *sessionAffinity:
			for _, s := range q.SessionIDConfig.Sources {
				if s.Attribute == agentAttribute {
					p.SessionHeaders = append(p.SessionHeaders, p.AgentHeaders...)
				} else if s.Header != "" {
					p.SessionHeaders = append(p.SessionHeaders, strings.ToLower(s.Header))
				}
			}
		}
	}
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.ToLower(name)
	}
	return out
}

// precise-prefix-cache-scorer includes a producer.
type preciseScorer struct{ precisePrefix }

func (p *preciseScorer) converted() parameters {
	return &PrefixCache{MatchLengthScaleTokens: 8192, Precise: true}
}
