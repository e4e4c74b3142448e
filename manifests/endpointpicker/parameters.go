package endpointpicker

import (
	"cmp"
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// parameters are the decoded parameters of one type of plugins. Most pointer fields are parameters
// that are accepted and have no effect.
type parameters interface {
	// check returns problems whose fields are relative to the parameters.
	check() found
}

// LabelSelector keeps the endpoints whose pods have matching labels.
type LabelSelector metav1.LabelSelector

func (p *LabelSelector) check() (out found) {
	_, err := metav1.LabelSelectorAsSelector((*metav1.LabelSelector)(p))
	out.reject(err != nil, "", "write matchLabels, or matchExpressions with key, operator (In, NotIn, Exists, "+
		"DoesNotExist) and values", "is not a label selector: %v", err)
	return out
}

// ActiveRequest scores by requests in flight.
type ActiveRequest struct {
	// IdleThreshold is the number of requests up to which the score is 1.
	IdleThreshold int `json:"idleThreshold"`
	// MaxBusyScore is the highest score above IdleThreshold, from 0 to 1.
	MaxBusyScore float64 `json:"maxBusyScore"`

	RequestTimeout           *string `json:"requestTimeout"`
	InFlightLoadProducerName string  `json:"inFlightLoadProducerName"`
}

func (p *ActiveRequest) check() (out found) {
	out.reject(p.IdleThreshold < 0, "idleThreshold", "write a number of requests", "must be at least 0, is %d",
		p.IdleThreshold)
	out.reject(p.MaxBusyScore < 0 || p.MaxBusyScore > 1, "maxBusyScore", "write a score, such as 0.5",
		"must be from 0 to 1, is %g", p.MaxBusyScore)
	out.noEffect("requestTimeout", p.RequestTimeout != nil, "requests are in flight until they end")
	return out
}

func (p *ActiveRequest) producer() (field, name, kind string) {
	return "inFlightLoadProducerName", p.InFlightLoadProducerName, InFlightLoadProducer
}

// TokenLoad scores by queued prompt tokens.
type TokenLoad struct {
	// QueueThresholdTokens is the number of tokens at which the score reaches 0.
	QueueThresholdTokens int64 `json:"queueThresholdTokens"`

	InFlightLoadProducerName string `json:"inFlightLoadProducerName"`
}

func (p *TokenLoad) check() (out found) {
	out.reject(p.QueueThresholdTokens <= 0, "queueThresholdTokens",
		"write a number of tokens, or remove it for 4194304", "must be at least 1, is %d", p.QueueThresholdTokens)
	return out
}

func (p *TokenLoad) producer() (field, name, kind string) {
	return "inFlightLoadProducerName", p.InFlightLoadProducerName, InFlightLoadProducer
}

// LoadAware scores by waiting requests.
type LoadAware struct {
	// Threshold is the number of waiting requests at which the score reaches 0.
	Threshold int `json:"threshold"`
}

func (p *LoadAware) check() (out found) {
	out.reject(p.Threshold <= 0, "threshold", "write a number of waiting requests, or remove it for 128",
		"must be at least 1, is %d", p.Threshold)
	return out
}

// PrefixCache scores by the cached part of the prompt.
type PrefixCache struct {
	// MatchLengthWeight is the share of the score, from 0 to 1, that depends on the length of the
	// match. The rest depends on the match's share of the prompt.
	MatchLengthWeight float64 `json:"matchLengthWeight"`
	// MatchLengthScaleTokens is the length of a match, in tokens, from which the length adds its
	// full share.
	MatchLengthScaleTokens int `json:"matchLengthScaleTokens"`

	PrefixMatchInfoProducerName string `json:"prefixMatchInfoProducerName"`

	// fields of releases in which the scorer had an index
	AutoTune               *bool `json:"autoTune"`
	BlockSizeTokens        *int  `json:"blockSizeTokens"`
	BlockSize              *int  `json:"blockSize"`
	HashBlockSize          *int  `json:"hashBlockSize"`
	MaxPrefixBlocksToMatch *int  `json:"maxPrefixBlocksToMatch"`
	MaxPrefixTokensToMatch *int  `json:"maxPrefixTokensToMatch"`
	LRUCapacityPerServer   *int  `json:"lruCapacityPerServer"`

	// Precise means that prefixes come from KV events. Documents name a producer instead.
	Precise bool `json:"-"`
}

func (p *PrefixCache) check() (out found) {
	former := approximatePrefix{p.AutoTune, p.BlockSizeTokens, cmp.Or(p.BlockSize, p.HashBlockSize),
		p.MaxPrefixBlocksToMatch, p.MaxPrefixTokensToMatch, p.LRUCapacityPerServer}
	out = append(out, former.check()...)
	p.AutoTune, p.BlockSizeTokens, p.BlockSize, p.HashBlockSize = nil, nil, nil, nil
	p.MaxPrefixBlocksToMatch, p.MaxPrefixTokensToMatch, p.LRUCapacityPerServer = nil, nil, nil
	out.reject(p.MatchLengthWeight < 0 || p.MatchLengthWeight > 1, "matchLengthWeight", "write a weight, such as 0.5",
		"must be from 0 to 1, is %g", p.MatchLengthWeight)
	out.reject(p.MatchLengthWeight > 0 && p.MatchLengthScaleTokens <= 0, "matchLengthScaleTokens",
		"write a number of tokens, or remove it for 8192", "must be at least 1, is %d", p.MatchLengthScaleTokens)
	return out
}

func (p *PrefixCache) producer() (field, name, kind string) {
	return "prefixMatchInfoProducerName", p.PrefixMatchInfoProducerName, ApproximatePrefixProducer
}

// sessionAffinity prefers the endpoint of a request's session. A token that the picker sets
// identifies the session. Without a token, an ID identifies it.
type sessionAffinity struct {
	Strategy                    string `json:"strategy"`
	EncodedEndpointHeaderConfig struct {
		Header string `json:"header"`
	} `json:"encodedEndpointHeaderConfig"`
	SessionIDConfig struct {
		Sources []struct {
			Header    string `json:"header"`
			Attribute string `json:"attribute"`
		} `json:"sources"`
		EvictionTTLSeconds   *float64 `json:"evictionTtlSeconds"`
		EvictionSweepSeconds *float64 `json:"evictionSweepSeconds"`
	} `json:"sessionIdConfig"`
	ProfileName *string `json:"profileName"`
}

func (p *sessionAffinity) check() (out found) {
	out.reject(p.Strategy != "" && p.Strategy != "encoded_endpoint_header" && p.Strategy != "session_id", "strategy",
		"write one of them, or remove it", "must be encoded_endpoint_header or session_id, is %q", p.Strategy)
	h := p.EncodedEndpointHeaderConfig.Header
	out.reject(h != "" && !strings.EqualFold(h, "x-session-token"), "encodedEndpointHeaderConfig.header", "remove it",
		"%q is not supported: the token is in x-session-token", h)
	for i, s := range p.SessionIDConfig.Sources {
		field := fmt.Sprintf("sessionIdConfig.sources[%d]", i)
		switch {
		case s.Attribute != "" && s.Header != "" || s.Attribute == "" && s.Header == "":
			out.reject(true, field, "write one of them", "must have header or attribute")
		case s.Header != "":
			out.header(field+".header", s.Header)
		case s.Attribute != agentAttribute:
			out.reject(true, field, "name a header that has the ID",
				"is not supported: %q is not an attribute, and %s is", s.Attribute, agentAttribute)
		}
	}
	out.noEffect("sessionIdConfig.evictionTtlSeconds", p.SessionIDConfig.EvictionTTLSeconds != nil,
		"spec.picker.session.ttlSeconds of the PoolPolicy sets it")
	out.noEffect("sessionIdConfig.evictionSweepSeconds", p.SessionIDConfig.EvictionSweepSeconds != nil,
		"expired sessions make room as new ones begin")
	out.noEffect("profileName", p.ProfileName != nil, "there is one profile")
	return out
}

// External scores in another process, over the gRPC service penstock.scoring.v1.Scorer
// (picker/scoring/scoring.proto).
type External struct {
	// Service is the name of a Service in the pool's namespace.
	Service string `json:"service"`
	// Port is a port of the Service. Its TLS is configured as for an endpoint picker.
	Port int32 `json:"port"`
}

func (p *External) check() (out found) {
	out.reject(len(validation.IsDNS1035Label(p.Service)) > 0, "service", "name a Service in the namespace of the pool",
		"must be the name of a Service, is %q", p.Service)
	out.reject(p.Port < 1 || p.Port > 65535, "port", "write a port of the Service, or remove it for 9003",
		"must be from 1 to 65535, is %d", p.Port)
	return out
}

type pickerParameters struct {
	MaxNumOfEndpoints *int `json:"maxNumOfEndpoints"`
}

func (p *pickerParameters) check() (out found) {
	out.noEffect("maxNumOfEndpoints", p.MaxNumOfEndpoints != nil,
		"spec.picker.fallbacks of the PoolPolicy sets how many endpoints a pick names")
	return out
}

// approximatePrefix are the parameters of a prefix index that the picker fills at each pick.
// Penstock's index has fixed sizes of blocks, and reads cache capacities from metrics pages.
type approximatePrefix struct {
	AutoTune               *bool `json:"autoTune"`
	BlockSizeTokens        *int  `json:"blockSizeTokens"`
	BlockSize              *int  `json:"blockSize"`
	MaxPrefixBlocksToMatch *int  `json:"maxPrefixBlocksToMatch"`
	MaxPrefixTokensToMatch *int  `json:"maxPrefixTokensToMatch"`
	LRUCapacityPerServer   *int  `json:"lruCapacityPerServer"`
}

func (p *approximatePrefix) check() (out found) {
	const why = "Penstock's index matches up to 131,072 tokens, and reads the capacity of caches from the metrics pages"
	for field, set := range map[string]bool{
		"autoTune": p.AutoTune != nil, "blockSizeTokens": p.BlockSizeTokens != nil, "blockSize": p.BlockSize != nil,
		"maxPrefixBlocksToMatch": p.MaxPrefixBlocksToMatch != nil,
		"maxPrefixTokensToMatch": p.MaxPrefixTokensToMatch != nil,
		"lruCapacityPerServer":   p.LRUCapacityPerServer != nil,
	} {
		out.noEffect(field, set, why)
	}
	return out
}

type precisePrefix struct {
	TokenProcessorConfig any `json:"tokenProcessorConfig"`
	IndexerConfig        any `json:"indexerConfig"`
	KVEventsConfig       any `json:"kvEventsConfig"`
	SpeculativeIndexing  any `json:"speculativeIndexing"`
	SpeculativeTTL       any `json:"speculativeTTL"`
}

func (p *precisePrefix) check() (out found) {
	const why = "Penstock's index has keys of its own, counts picks as cached at once, and the PoolPolicy " +
		"configures KV events"
	for field, value := range map[string]any{
		"tokenProcessorConfig": p.TokenProcessorConfig, "indexerConfig": p.IndexerConfig,
		"kvEventsConfig":      p.KVEventsConfig,
		"speculativeIndexing": p.SpeculativeIndexing, "speculativeTTL": p.SpeculativeTTL,
	} {
		out.noEffect(field, value != nil, why)
	}
	return out
}

type inFlightLoad struct {
	AddEstimatedOutputTokens    bool     `json:"addEstimatedOutputTokens"`
	OutputRatio                 *float64 `json:"outputRatio"`
	MaxEstimatedOutputTokens    *int     `json:"maxEstimatedOutputTokens"`
	PrefixMatchInfoProducerName *string  `json:"prefixMatchInfoProducerName"`
	SyncCrossReplicaState       *bool    `json:"syncCrossReplicaState"`
}

func (p *inFlightLoad) check() (out found) {
	set := p.AddEstimatedOutputTokens || p.OutputRatio != nil || p.MaxEstimatedOutputTokens != nil
	out.noEffect("addEstimatedOutputTokens", set, "output tokens are not estimated")
	return out
}

// Fields of found are relative to the document, or to the parameters.
type found []Problem

func (f *found) reject(wrong bool, field, fix, problem string, args ...any) {
	if wrong {
		*f = append(*f, Problem{Field: field, Problem: fmt.Sprintf(problem, args...), Fix: fix})
	}
}

func (f *found) header(field, name string) {
	f.reject(!httpguts.ValidHeaderFieldName(name), field, "write one, such as x-session-id",
		"must be the name of a header, is %q", name)
}

func (f *found) part(field string, v float64) {
	f.reject(!(v >= 0 && v <= 1), field, "write a part, such as 0.5", "must be from 0 to 1, is %g", v)
}

func (f *found) noEffect(field string, set bool, why string) {
	if set {
		*f = append(*f, Problem{Warning: true, Field: field, Problem: "has no effect: " + why, Fix: "remove it"})
	}
}
