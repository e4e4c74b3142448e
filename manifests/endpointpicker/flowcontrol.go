package endpointpicker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// flowControlGate is the feature gate without which a document's flowControl has no effect.
const flowControlGate = "flowControl"

// maxTTL bounds how long a request waits: below what Envoy is configured to wait for a picker.
const maxTTL = 280 * time.Second

// Types of plugins for flow control.
const (
	UtilizationDetector  = "utilization-detector"
	FCFSOrdering         = "fcfs-ordering-policy"
	DeadlineOrdering     = "slo-deadline-ordering-policy"
	RoundRobinFairness   = "round-robin-fairness-policy"
	GlobalStrictFairness = "global-strict-fairness-policy"
	StaticUsageLimit     = "static-usage-limit-policy"
)

// FlowControl configures which requests wait while a pool is saturated.
type FlowControl struct {
	// MaxBytes and MaxRequests of all priorities together.
	MaxBytes    *resource.Quantity `json:"maxBytes,omitempty"`
	MaxRequests *resource.Quantity `json:"maxRequests,omitempty"`
	// DefaultRequestTTL is how long a request waits, NoEndpointRequestTTL how long while the pool has no endpoint.
	DefaultRequestTTL    *metav1.Duration `json:"defaultRequestTTL,omitempty"`
	NoEndpointRequestTTL *metav1.Duration `json:"noEndpointRequestTTL,omitempty"`
	// DefaultPriorityBand has the limits of each priority.
	DefaultPriorityBand         *PriorityBand  `json:"defaultPriorityBand,omitempty"`
	DefaultNegativePriorityBand *PriorityBand  `json:"defaultNegativePriorityBand,omitempty"`
	PriorityBands               []PriorityBand `json:"priorityBands,omitempty"`
	UsageLimitPolicyPluginRef   string         `json:"usageLimitPolicyPluginRef,omitempty"`
	SaturationDetector          *Ref           `json:"saturationDetector,omitempty"`
	EnableEviction              bool           `json:"enableEviction,omitempty"`
}

// PriorityBand has the limits of one priority.
type PriorityBand struct {
	Priority          int                `json:"priority,omitempty"`
	MaxBytes          *resource.Quantity `json:"maxBytes,omitempty"`
	MaxRequests       *resource.Quantity `json:"maxRequests,omitempty"`
	FairnessPolicyRef string             `json:"fairnessPolicyRef,omitempty"`
	OrderingPolicyRef string             `json:"orderingPolicyRef,omitempty"`
}

// Ref names a plugin.
type Ref struct {
	PluginRef string `json:"pluginRef,omitempty"`
}

// Flow is what a document makes of flow control. Zero values are the picker's defaults.
//
// +kubebuilder:object:generate=false
type Flow struct {
	Requests      int64         // of each priority that wait
	Bytes         int64         // of their bodies
	TTL, EmptyTTL time.Duration // how long a request waits; while the pool has no endpoint
	Deadlines     bool          // the nearest deadline goes first
	Queue, KV     float64       // waiting requests, and use of the KV cache from 0 to 1, at which a server is saturated
}

// Utilization are the parameters of UtilizationDetector.
//
// +kubebuilder:object:generate=false
type Utilization struct {
	QueueDepthThreshold  float64 `json:"queueDepthThreshold"`
	KVCacheUtilThreshold float64 `json:"kvCacheUtilThreshold"`

	MetricsStalenessThreshold *string  `json:"metricsStalenessThreshold"`
	Headroom                  *float64 `json:"headroom"`
}

func (p *Utilization) check() (out []Problem) {
	if !(p.QueueDepthThreshold > 0) {
		out = append(out, Problem{Field: "queueDepthThreshold", Problem: fmt.Sprintf("must be above 0, is %g", p.QueueDepthThreshold), Fix: "write a number of waiting requests, or remove it for 5"})
	}
	if !(p.KVCacheUtilThreshold > 0 && p.KVCacheUtilThreshold <= 1) {
		out = append(out, Problem{Field: "kvCacheUtilThreshold", Problem: fmt.Sprintf("must be above 0 and at most 1, is %g", p.KVCacheUtilThreshold), Fix: "write a part of the KV cache, or remove it for 0.8"})
	}
	out = append(out, noEffect("metricsStalenessThreshold", p.MetricsStalenessThreshold != nil, "a server without fresh metrics counts by what was sent there")...)
	return append(out, noEffect("headroom", p.Headroom != nil, "no endpoint is left out because it is saturated")...)
}

// usageLimit are the parameters of StaticUsageLimit.
type usageLimit struct {
	Threshold float64 `json:"threshold"`
}

func (p *usageLimit) check() []Problem {
	if !(p.Threshold > 0 && p.Threshold <= 1) {
		return []Problem{{Field: "threshold", Problem: fmt.Sprintf("must be above 0 and at most 1, is %g", p.Threshold), Fix: "write the saturation at which requests wait, or remove it for 1"}}
	}
	return nil
}

// gates reads the feature gates. It returns whether flow control is on.
func (r *resolver) gates(list []string) (flow bool) {
	for i, gate := range list {
		name, value, set := strings.Cut(gate, "=")
		switch {
		case name != flowControlGate:
			r.wrong(fmt.Sprintf("featureGates[%d]", i), "remove it", "%q is not supported", name)
		case set && value != "true" && value != "false":
			r.wrong(fmt.Sprintf("featureGates[%d]", i), "write flowControl, or flowControl=false", "%q is neither true nor false", value)
		default:
			flow = value != "false"
		}
	}
	return flow
}

// flow resolves the flow control of a document; nil if it is off.
func (r *resolver) flow(c *EndpointPickerConfig) *Flow {
	warn := func(field, problem, fix string) {
		r.problems = append(r.problems, Problem{Warning: true, Field: field, Problem: problem, Fix: fix})
	}
	on, spec := r.gates(c.FeatureGates), c.FlowControl
	if spec != nil && !on {
		warn("flowControl", "has no effect: flow control is off", "add flowControl to featureGates, or remove it")
	}
	detector := c.SaturationDetector
	field := "saturationDetector"
	if spec != nil && spec.SaturationDetector != nil {
		detector, field = spec.SaturationDetector, "flowControl.saturationDetector"
	}
	f := &Flow{}
	if in := r.named(detector.ref(), field+".pluginRef", UtilizationDetector); in != nil {
		f.Queue, f.KV = in.Parameters.(*Utilization).QueueDepthThreshold, in.Parameters.(*Utilization).KVCacheUtilThreshold
	}
	if !on {
		if detector.ref() != "" {
			warn(field, "has no effect: flow control is off", "add flowControl to featureGates, or set spec.picker.full of the PoolPolicy")
		}
		return nil
	}
	if spec == nil {
		return f
	}
	f.TTL = r.wait("flowControl.defaultRequestTTL", spec.DefaultRequestTTL)
	f.EmptyTTL = cmp.Or(r.wait("flowControl.noEndpointRequestTTL", spec.NoEndpointRequestTTL), f.TTL)
	if in := r.named(spec.UsageLimitPolicyPluginRef, "flowControl.usageLimitPolicyPluginRef", StaticUsageLimit); in != nil {
		at := in.Parameters.(*usageLimit).Threshold
		f.Queue, f.KV = cmp.Or(f.Queue, 5)*at, cmp.Or(f.KV, 0.8)*at
	}
	if spec.EnableEviction {
		r.wrong("flowControl.enableEviction", "remove it", "is not supported: a request that a server has is not taken back")
	}
	for _, limit := range []struct {
		field string
		set   *resource.Quantity
	}{{"maxBytes", spec.MaxBytes}, {"maxRequests", spec.MaxRequests}} {
		if limit.set != nil {
			warn("flowControl."+limit.field, "has no effect: each priority has a limit of its own", "set it in defaultPriorityBand")
		}
	}
	if b := spec.DefaultPriorityBand; b != nil {
		r.band(f, b, "flowControl.defaultPriorityBand")
	}
	bands := slices.Clone(spec.PriorityBands)
	fields := make([]string, len(bands))
	for i := range bands {
		fields[i] = fmt.Sprintf("flowControl.priorityBands[%d]", i)
	}
	if b := spec.DefaultNegativePriorityBand; b != nil {
		bands, fields = append(bands, *b), append(fields, "flowControl.defaultNegativePriorityBand")
	}
	for i := range bands {
		var own Flow
		if r.band(&own, &bands[i], fields[i]); own != (Flow{Requests: f.Requests, Bytes: f.Bytes, Deadlines: f.Deadlines}) {
			warn(fields[i], "has no effect: all priorities have the limits and the order of defaultPriorityBand", "set these in defaultPriorityBand")
		}
	}
	return f
}

func (r *Ref) ref() string {
	if r == nil {
		return ""
	}
	return r.PluginRef
}

// band sets what a priority's band configures.
func (r *resolver) band(f *Flow, b *PriorityBand, field string) {
	for _, limit := range []struct {
		field string
		from  *resource.Quantity
		to    *int64
	}{{"maxBytes", b.MaxBytes, &f.Bytes}, {"maxRequests", b.MaxRequests, &f.Requests}} {
		if limit.from == nil {
			continue
		}
		if *limit.to = limit.from.Value(); *limit.to < 0 {
			r.wrong(field+"."+limit.field, "write a number, such as 5k or 1Gi", "must be at least 0, is %s", limit.from)
		}
	}
	if in := r.named(b.OrderingPolicyRef, field+".orderingPolicyRef", FCFSOrdering, DeadlineOrdering); in != nil {
		f.Deadlines = in.Type == DeadlineOrdering
	}
	if in := r.named(b.FairnessPolicyRef, field+".fairnessPolicyRef", RoundRobinFairness, GlobalStrictFairness); in != nil && in.Type == GlobalStrictFairness {
		r.problems = append(r.problems, Problem{Warning: true, Field: field + ".fairnessPolicyRef", Problem: "has no effect: fairness IDs take turns", Fix: "use " + RoundRobinFairness})
	}
}

// wait is how long a request waits; 0 without a value.
func (r *resolver) wait(field string, d *metav1.Duration) time.Duration {
	switch {
	case d == nil:
		return 0
	case d.Duration < time.Second || d.Duration > maxTTL:
		r.wrong(field, "write a time such as 60s", "must be 1s to %v, is %v", maxTTL, d.Duration)
	}
	return d.Duration
}

// named returns the plugin with a name, which is one of the document or a type's own; nil without one. Its type is one of some.
func (r *resolver) named(name, field string, types ...string) *instance {
	if name == "" {
		return nil
	}
	in := r.instances[name]
	if in == nil && slices.Contains(types, name) { // llm-d's router makes it by itself
		in = &instance{Instance: Instance{Name: name, Type: name}, kind: kinds[name]}
		if in.kind.parameters != nil {
			in.Parameters = in.kind.parameters()
		}
	}
	if in == nil || !slices.Contains(types, in.Type) {
		r.wrong(field, "name a plugin of type "+strings.Join(types, " or "), "%q is not the name of such a plugin", name)
		return nil
	}
	return in
}
