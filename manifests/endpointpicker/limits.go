package endpointpicker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// UtilizationLimits keeps the endpoints that are within all limits.
type UtilizationLimits struct {
	Conditions []UtilizationLimit `json:"conditions"`
	// FallbackOnEmpty keeps all endpoints if none is within the limits.
	FallbackOnEmpty bool `json:"fallbackOnEmpty"`

	InFlightLoadProducerName *string `json:"inFlightLoadProducerName"`
}

// UtilizationLimit is the maximum of one metric.
type UtilizationLimit struct {
	Metric   string  `json:"metric"`
	MaxValue float64 `json:"maxValue"`
}

const (
	ActiveRequests     = "active-requests"
	RunningRequests    = "running-requests"
	WaitingQueue       = "waiting-queue"
	KVCacheUtilization = "kv-cache-utilization"
)

func (p *UtilizationLimits) check() (out found) {
	metrics := []string{ActiveRequests, RunningRequests, WaitingQueue, KVCacheUtilization}
	out.reject(len(p.Conditions) == 0, "conditions", "write metric and maxValue", "is empty")
	for i, c := range p.Conditions {
		field := fmt.Sprintf("conditions[%d].", i)
		out.reject(!slices.Contains(metrics, c.Metric), field+"metric", "write one of them", "must be one of %s, is %q",
			strings.Join(metrics, ", "), c.Metric)
		out.reject(!(c.MaxValue >= 0) || c.Metric == KVCacheUtilization && c.MaxValue > 1, field+"maxValue",
			"write the greatest value", "must be at least 0, and at most 1 for %s, is %g", KVCacheUtilization,
			c.MaxValue)
	}
	return out
}

// Concurrency are the parameters of ConcurrencyDetector.
type Concurrency struct {
	// MaxConcurrency is the number of requests in flight at which a server is saturated. The filter
	// keeps a server with up to MaxConcurrency x (1 + Headroom) requests.
	MaxConcurrency int64   `json:"maxConcurrency"`
	Headroom       float64 `json:"headroom"`
	// ConcurrencyMode is requests, tokens or hybrid.
	ConcurrencyMode string `json:"concurrencyMode"`

	MaxTokenConcurrency      *int64  `json:"maxTokenConcurrency"`
	InFlightLoadProducerName *string `json:"inFlightLoadProducerName"`
}

func (p *Concurrency) check() (out found) {
	out.reject(p.MaxConcurrency < 1, "maxConcurrency", "write a number of requests, or remove it for 100",
		"must be at least 1, is %d", p.MaxConcurrency)
	out.reject(!(p.Headroom >= 0), "headroom", "write a part of maxConcurrency, such as 0.2",
		"must be at least 0, is %g", p.Headroom)
	const why = "tokens in flight do not count; a server's queue, its KV cache and its requests do"
	switch p.ConcurrencyMode {
	case "requests":
	case "tokens", "hybrid":
		out.noEffect("concurrencyMode", true, why)
	default:
		out.reject(true, "concurrencyMode", "write one of them, or remove it for requests",
			"must be requests, tokens or hybrid, is %q", p.ConcurrencyMode)
	}
	out.noEffect("maxTokenConcurrency", p.MaxTokenConcurrency != nil && p.ConcurrencyMode == "requests",
		"concurrencyMode is requests")
	return out
}

// Requests returns the number of requests in flight at which a server is saturated; 0: no limit.
func (p *Concurrency) Requests() int64 {
	if p.ConcurrencyMode == "tokens" {
		return 0
	}
	return p.MaxConcurrency
}

type attributeFilter struct {
	Attribute       string          `json:"attribute"`
	OnMissing       string          `json:"onMissing"`
	FallbackOnEmpty bool            `json:"fallbackOnEmpty"`
	Algorithm       json.RawMessage `json:"algorithm"`
	Producer        json.RawMessage `json:"producer"`
}

func (p *attributeFilter) check() (out found) {
	out.reject(p.OnMissing == "Fail" && !p.FallbackOnEmpty, "onMissing",
		"use "+UtilizationFilter+", or write Pass", "Fail leaves no server: %s", noAttributes)
	return out
}

type dataSource struct {
	Scheme             string `json:"scheme"`
	Path               string `json:"path"`
	InsecureSkipVerify *bool  `json:"insecureSkipVerify"`
}

func (p *dataSource) check() (out found) {
	switch p.Scheme {
	case "", "http":
	case "https":
		out.reject(p.InsecureSkipVerify != nil && !*p.InsecureSkipVerify, "insecureSkipVerify",
			"remove it, and write a BackendTLSPolicy for the InferencePool, by which its pages are read over "+
				"verified TLS",
			"false is not supported: %s names no CA", metricsDataSource)
	default:
		out.reject(true, "scheme", "write one of them", "must be http or https, is %q", p.Scheme)
	}
	out.reject(p.Path != "" && !strings.HasPrefix(p.Path, "/"), "path",
		"write the path of the metrics page, such as /metrics", "must begin with /, is %q", p.Path)
	return out
}

// PageSource is the place of metrics pages. The zero value selects the pool's setting.
type PageSource struct {
	Path string // "": the pool's path
	// TLS means that pages are read over TLS. The certificate is verified only if a
	// BackendTLSPolicy applies.
	TLS bool
}

func (r *resolver) pageSource() (s PageSource) {
	for _, name := range r.names {
		if p, ok := r.instances[name].Parameters.(*dataSource); ok {
			s = PageSource{Path: p.Path, TLS: p.Scheme == "https"}
		}
	}
	return s
}
