package endpointpicker

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const flowControlGate = "flowControl"

// maxTTL bounds a request's wait. It is below Envoy's timeout for a picker.
const maxTTL = 280 * time.Second

const (
	UtilizationDetector  = "utilization-detector"
	FCFSOrdering         = "fcfs-ordering-policy"
	DeadlineOrdering     = "slo-deadline-ordering-policy"
	RoundRobinFairness   = "round-robin-fairness-policy"
	GlobalStrictFairness = "global-strict-fairness-policy"
	StaticUsageLimit     = "static-usage-limit-policy"
	ConcurrencyDetector  = "concurrency-detector"
)

// FlowControl configures how requests wait while a pool is saturated.
type FlowControl struct {
	// MaxBytes and MaxRequests limit all priorities together.
	MaxBytes    *resource.Quantity `json:"maxBytes,omitempty"`
	MaxRequests *resource.Quantity `json:"maxRequests,omitempty"`
	// DefaultRequestTTL limits a request's wait; NoEndpointRequestTTL limits it while the pool has
	// no endpoint.
	DefaultRequestTTL    *metav1.Duration `json:"defaultRequestTTL,omitempty"`
	NoEndpointRequestTTL *metav1.Duration `json:"noEndpointRequestTTL,omitempty"`
	// DefaultPriorityBand limits each priority.
	DefaultPriorityBand         *PriorityBand  `json:"defaultPriorityBand,omitempty"`
	DefaultNegativePriorityBand *PriorityBand  `json:"defaultNegativePriorityBand,omitempty"`
	PriorityBands               []PriorityBand `json:"priorityBands,omitempty"`
	UsageLimitPolicyPluginRef   string         `json:"usageLimitPolicyPluginRef,omitempty"`
	SaturationDetector          *Ref           `json:"saturationDetector,omitempty"`
	EnableEviction              bool           `json:"enableEviction,omitempty"`
}

// PriorityBand limits one priority.
type PriorityBand struct {
	Priority          int                `json:"priority,omitempty"`
	MaxBytes          *resource.Quantity `json:"maxBytes,omitempty"`
	MaxRequests       *resource.Quantity `json:"maxRequests,omitempty"`
	FairnessPolicyRef string             `json:"fairnessPolicyRef,omitempty"`
	OrderingPolicyRef string             `json:"orderingPolicyRef,omitempty"`
	// DefaultRequestTTL limits the wait of this priority's requests.
	DefaultRequestTTL    *metav1.Duration `json:"defaultRequestTTL,omitempty"`
	NoEndpointRequestTTL *metav1.Duration `json:"noEndpointRequestTTL,omitempty"`
}

// Ref names a plugin. In older releases the saturation detector was not a plugin, and Ref has the
// detector's thresholds.
type Ref struct {
	PluginRef string `json:"pluginRef,omitempty"`

	QueueDepthThreshold       *int             `json:"queueDepthThreshold,omitempty"`
	KVCacheUtilThreshold      *float64         `json:"kvCacheUtilThreshold,omitempty"`
	MetricsStalenessThreshold *metav1.Duration `json:"metricsStalenessThreshold,omitempty"`
}

func (r *Ref) thresholds() *Utilization {
	if r == nil || r.QueueDepthThreshold == nil && r.KVCacheUtilThreshold == nil {
		return nil
	}
	u := &Utilization{QueueDepthThreshold: 5, KVCacheUtilThreshold: 0.8}
	if r.QueueDepthThreshold != nil {
		u.QueueDepthThreshold = float64(*r.QueueDepthThreshold)
	}
	if r.KVCacheUtilThreshold != nil {
		u.KVCacheUtilThreshold = *r.KVCacheUtilThreshold
	}
	return u
}

// Flow is the flow control of a document. Zero values select the picker's defaults.
type Flow struct {
	Requests      int64         // limit of waiting requests of each priority
	Bytes         int64         // limit of the bodies of waiting requests, in bytes
	TTL, EmptyTTL time.Duration // limits of a request's wait; EmptyTTL while the pool has no endpoint
	Deadlines     bool          // requests with the nearest deadline go first
	Queue, KV     float64       // waiting requests, and use of the KV cache from 0 to 1, at which a server is saturated
	InFlight      int64         // requests in flight at which a server is saturated; 0: no limit
	TTLs          []BandTTL     // sorted by priority
}

// BandTTL limits the wait of one priority's requests.
type BandTTL struct {
	Priority int32
	// Negative means that the limit is for every priority below 0 that has no BandTTL itself.
	Negative bool
	TTL      time.Duration
}

// Utilization are the parameters of UtilizationDetector.
type Utilization struct {
	QueueDepthThreshold  float64 `json:"queueDepthThreshold"`
	KVCacheUtilThreshold float64 `json:"kvCacheUtilThreshold"`

	MetricsStalenessThreshold *string  `json:"metricsStalenessThreshold"`
	Headroom                  *float64 `json:"headroom"`
}

func (p *Utilization) check() (out found) {
	out.reject(!(p.QueueDepthThreshold > 0), "queueDepthThreshold",
		"write a number of waiting requests, or remove it for 5", "must be above 0, is %g", p.QueueDepthThreshold)
	out.reject(!(p.KVCacheUtilThreshold > 0 && p.KVCacheUtilThreshold <= 1), "kvCacheUtilThreshold",
		"write a part of the KV cache, or remove it for 0.8", "must be above 0 and at most 1, is %g",
		p.KVCacheUtilThreshold)
	out.noEffect("metricsStalenessThreshold", p.MetricsStalenessThreshold != nil, whyStale)
	out.noEffect("headroom", p.Headroom != nil, "no endpoint is left out because it is saturated")
	return out
}

const whyStale = "a server without fresh metrics counts by what was sent there"

type usageLimit struct {
	Threshold float64 `json:"threshold"`
}

func (p *usageLimit) check() (out found) {
	out.reject(!(p.Threshold > 0 && p.Threshold <= 1), "threshold",
		"write the saturation at which requests wait, or remove it for 1", "must be above 0 and at most 1, is %g",
		p.Threshold)
	return out
}

func (r *resolver) gates(list []string) (flow bool) {
	for i, gate := range list {
		name, value, set := strings.Cut(gate, "=")
		switch {
		case name != flowControlGate:
			problem := fmt.Sprintf("has no effect: Penstock has no feature gate %q", name)
			r.warn(fmt.Sprintf("featureGates[%d]", i), problem, "remove it")
		case set && value != "true" && value != "false":
			r.wrong(fmt.Sprintf("featureGates[%d]", i), "write flowControl, or flowControl=false",
				"%q is neither true nor false", value)
		default:
			flow = value != "false"
		}
	}
	return flow
}

func (r *resolver) flow(c *EndpointPickerConfig) *Flow {
	on, spec := r.gates(c.FeatureGates), c.FlowControl
	if spec != nil && !on {
		r.warn("flowControl", "has no effect: flow control is off", "add flowControl to featureGates, or remove it")
	}
	f := &Flow{}
	r.saturation(c, f, on)
	if !on {
		return nil
	}
	if spec == nil {
		return f
	}
	f.TTL = r.wait("flowControl.defaultRequestTTL", spec.DefaultRequestTTL)
	f.EmptyTTL = cmp.Or(r.wait("flowControl.noEndpointRequestTTL", spec.NoEndpointRequestTTL), f.TTL)
	if in := r.named(spec.UsageLimitPolicyPluginRef, "flowControl.usageLimitPolicyPluginRef",
		StaticUsageLimit); in != nil {
		at := in.Parameters.(*usageLimit).Threshold
		if f.InFlight > 0 && at < 1 {
			f.InFlight = max(1, int64(float64(f.InFlight)*at))
		}
		f.Queue, f.KV = cmp.Or(f.Queue, 5)*at, cmp.Or(f.KV, 0.8)*at
	}
	r.problems.noEffect("flowControl.enableEviction", spec.EnableEviction, noEviction)
	for _, limit := range []struct {
		field string
		set   *resource.Quantity
	}{{"maxBytes", spec.MaxBytes}, {"maxRequests", spec.MaxRequests}} {
		if limit.set != nil {
			r.warn("flowControl."+limit.field, "has no effect: each priority has a limit of its own",
				"set it in defaultPriorityBand")
		}
	}
	if b := spec.DefaultPriorityBand; b != nil {
		r.band(f, b, "flowControl.defaultPriorityBand")
		f.EmptyTTL = cmp.Or(f.EmptyTTL, f.TTL)
	}
	r.bands(f, spec)
	return f
}

func (r *resolver) saturation(c *EndpointPickerConfig, f *Flow, on bool) {
	detector := c.SaturationDetector
	field := "saturationDetector"
	if spec := c.FlowControl; spec != nil && spec.SaturationDetector != nil {
		detector, field = spec.SaturationDetector, "flowControl.saturationDetector"
	}
	if u := detector.thresholds(); u != nil {
		for _, found := range u.check() {
			found.Field = field + "." + found.Field
			r.problems = append(r.problems, found)
		}
		f.Queue, f.KV = u.QueueDepthThreshold, u.KVCacheUtilThreshold
	}
	stale := detector != nil && detector.MetricsStalenessThreshold != nil
	r.problems.noEffect(field+".metricsStalenessThreshold", stale, whyStale)
	if in := r.named(detector.ref(), field+".pluginRef", UtilizationDetector, ConcurrencyDetector); in != nil {
		switch p := in.Parameters.(type) {
		case *Utilization:
			f.Queue, f.KV = p.QueueDepthThreshold, p.KVCacheUtilThreshold
		case *Concurrency:
			if f.InFlight = p.Requests(); p.ConcurrencyMode == "requests" { // only requests in flight count
				f.Queue, f.KV = math.MaxInt32, math.MaxInt32
			}
		}
	}
	if !on && detector.ref() != "" {
		r.warn(field, "has no effect: flow control is off",
			"add flowControl to featureGates, or set spec.picker.full of the PoolPolicy")
	}
}

func (r *resolver) bands(f *Flow, spec *FlowControl) {
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
		r.band(&own, &bands[i], fields[i])
		if own.TTL > 0 {
			f.TTLs = append(f.TTLs, BandTTL{int32(bands[i].Priority), i == len(spec.PriorityBands), own.TTL})
		}
		if own.EmptyTTL > 0 {
			r.warn(fields[i]+".noEndpointRequestTTL",
				"has no effect: flowControl.noEndpointRequestTTL is for all priorities",
				"set flowControl.noEndpointRequestTTL")
		}
		requests, bytes := cmp.Or(own.Requests, f.Requests), cmp.Or(own.Bytes, f.Bytes)
		if requests != f.Requests || bytes != f.Bytes || own.Deadlines && !f.Deadlines {
			r.warn(fields[i], "has no effect: all priorities have the limits and the order of defaultPriorityBand",
				"set these in defaultPriorityBand")
		}
	}
}

func (r *Ref) ref() string {
	if r == nil {
		return ""
	}
	return r.PluginRef
}

func (r *resolver) band(f *Flow, b *PriorityBand, field string) {
	if ttl := r.wait(field+".defaultRequestTTL", b.DefaultRequestTTL); ttl > 0 {
		f.TTL = ttl
	}
	if ttl := r.wait(field+".noEndpointRequestTTL", b.NoEndpointRequestTTL); ttl > 0 {
		f.EmptyTTL = ttl
	}
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
	if in := r.named(b.FairnessPolicyRef, field+".fairnessPolicyRef", RoundRobinFairness,
		GlobalStrictFairness); in != nil && in.Type == GlobalStrictFairness {
		r.warn(field+".fairnessPolicyRef", "has no effect: fairness IDs take turns", "use "+RoundRobinFairness)
	}
}

// wait returns 0 if d is nil. A 0 in a document means no limit, and counts as maxTTL.
func (r *resolver) wait(field string, d *metav1.Duration) time.Duration {
	switch {
	case d == nil:
		return 0
	case d.Duration == 0, d.Duration > maxTTL:
		problem := fmt.Sprintf("%v counts as %v, the longest that Envoy waits for a picker", d.Duration, maxTTL)
		r.warn(field, problem, "write a time of 1s to "+maxTTL.String())
		return maxTTL
	case d.Duration < time.Second:
		r.wrong(field, "write a time such as 60s", "must be 1s to %v, is %v", maxTTL, d.Duration)
	}
	return d.Duration
}

// named returns the plugin with a name. The name of a type also names the type's implicit plugin.
// The plugin's type must be in the list types. named returns nil if there is no such plugin.
func (r *resolver) named(name, field string, types ...string) *instance {
	if name == "" {
		return nil
	}
	in := r.instances[name]
	if in == nil && slices.Contains(types, name) {
		in = &instance{Instance: Instance{Name: name, Type: name}, kind: kinds[name]}
		if in.kind.parameters != nil {
			in.Parameters = in.kind.parameters()
		}
	}
	if in != nil && in.kind.silent && in.kind.role == Policy {
		return nil // the plugin has a Warning, and the default applies
	}
	if in == nil && upstreamKinds[name].role == Policy {
		in = &instance{Instance: Instance{Name: name, Type: name}, field: field}
		r.upstream(in, new(upstreamKinds[name]), nil)
	}
	if in == nil || !slices.Contains(types, in.Type) {
		r.wrong(field, "name a plugin of type "+strings.Join(types, " or "), "%q is not the name of such a plugin",
			name)
		return nil
	}
	return in
}
