package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PoolPolicy says how one InferencePool or InferencePoolImport is picked from, when it counts as full, and where its
// requests may go instead. Spilling is always asked for here; weights alone never imply it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=pp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Resolved",type=string,JSONPath=`.status.conditions[?(@.type=="ResolvedRefs")].status`
type PoolPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PoolPolicySpec `json:"spec"`
	// Status says whether the policy is in force.
	//
	// +optional
	Status PoolPolicyStatus `json:"status,omitzero"`
}

// PoolPolicyStatus is what became of a PoolPolicy.
type PoolPolicyStatus struct {
	// Conditions: Accepted, False with reason TargetNotFound or Conflicted; ResolvedRefs, False with reason InvalidSpillTarget
	// if requests cannot spill to a pool that is named.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PoolPolicySpec is what a PoolPolicy says.
type PoolPolicySpec struct {
	// TargetRef is the pool, in the policy's own namespace. Of several policies for one pool the oldest counts, then
	// the first by name; the others say so in a condition.
	TargetRef PoolRef `json:"targetRef"`
	// Picker shapes how our own picker chooses. It says nothing to a foreign picker.
	//
	// +optional
	Picker PickerSpec `json:"picker,omitzero"`
	// Spill lists where a request goes when the pool is full or has no picker and no endpoint, in this order. A target's own
	// policy does not spill a second time.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	Spill []PoolRef `json:"spill,omitempty"`
	// Remote says what an importing cluster may dial. For an InferencePoolImport in EndpointMode only.
	//
	// +optional
	Remote RemoteSpec `json:"remote,omitzero"`
}

// PoolRef names a pool in the policy's namespace, or for a spill target in another one that allows it by a
// ReferenceGrant.
type PoolRef struct {
	// Group of the kind.
	//
	// +optional
	// +kubebuilder:default=inference.networking.k8s.io
	// +kubebuilder:validation:Enum=inference.networking.k8s.io;inference.networking.x-k8s.io
	Group string `json:"group,omitempty"`
	// Kind is InferencePool or InferencePoolImport.
	//
	// +optional
	// +kubebuilder:default=InferencePool
	// +kubebuilder:validation:Enum=InferencePool;InferencePoolImport
	Kind string `json:"kind,omitempty"`
	// Name of the pool. For an import, NAME-CLUSTER pins it to one exporting cluster.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace, for a spill target only; the policy's own by default.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// Strategy names how a picker chooses.
//
// +kubebuilder:validation:Enum=load;round-robin;random;least-request
type Strategy string

// The strategies of our picker.
const (
	// StrategyLoad weighs queue, KV cache and requests under way, from scraped metrics and from what we sent ourselves.
	StrategyLoad Strategy = "load"
	// StrategyRoundRobin takes the endpoints in turn.
	StrategyRoundRobin Strategy = "round-robin"
	// StrategyRandom takes any endpoint.
	StrategyRandom Strategy = "random"
	// StrategyLeastRequest takes the endpoint with the fewest of our own requests under way.
	StrategyLeastRequest Strategy = "least-request"
)

// PickerSpec shapes our own picker.
type PickerSpec struct {
	// Strategy by which an endpoint is chosen.
	//
	// +optional
	// +kubebuilder:default=load
	Strategy Strategy `json:"strategy,omitempty"`
	// FailureMode says what happens when no picker answers, for a pool without an endpointPickerRef (which has a
	// failureMode of its own). FailOpen: any endpoint; FailClose: the spill targets, else 503.
	//
	// +optional
	// +kubebuilder:validation:Enum=FailOpen;FailClose
	FailureMode string `json:"failureMode,omitempty"`
	// Load weighs the parts of the strategy "load".
	//
	// +optional
	Load *LoadWeights `json:"load,omitempty"`
	// Full says when an endpoint takes no further request. With every endpoint full the answer is 429, or the spill
	// targets. Without it an endpoint is never full.
	//
	// +optional
	Full *FullSpec `json:"full,omitempty"`
	// Metrics says where model servers show their load. By default vLLM's names on the serving port at /metrics.
	//
	// +optional
	Metrics *MetricsSpec `json:"metrics,omitempty"`
	// Fallbacks is how many further endpoints a pick names, for Envoy to retry on in order.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	// +kubebuilder:default=2
	Fallbacks *int32 `json:"fallbacks,omitempty"`
	// Body asks for the request's body to be sent to the picker. The strategies so far need none; "Buffered" is for
	// those who want the model's name in traces and debug pages.
	//
	// +optional
	// +kubebuilder:validation:Enum=None;Buffered
	Body string `json:"body,omitempty"`
}

// LoadWeights are relative; 0 leaves a part out.
type LoadWeights struct {
	// Queue of requests waiting, from the last scrape.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=2
	Queue *int32 `json:"queue,omitempty"`
	// KVCache in use, from the last scrape.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=2
	KVCache *int32 `json:"kvCache,omitempty"`
	// InFlight counts requests that we sent and that have not ended.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	InFlight *int32 `json:"inFlight,omitempty"`
}

// FullSpec holds thresholds; an endpoint that reaches any of those given is full.
type FullSpec struct {
	// Queue length.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Queue *int32 `json:"queue,omitempty"`
	// KVCachePercent in use, 1 to 100.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	KVCachePercent *int32 `json:"kvCachePercent,omitempty"`
	// InFlight requests of our own.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	InFlight *int32 `json:"inFlight,omitempty"`
}

// MetricsSpec says where and under which names model servers show their load.
type MetricsSpec struct {
	// Path of the metrics page.
	//
	// +optional
	// +kubebuilder:default=/metrics
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
	// Port of the metrics page; the endpoint's own by default.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
	// Queue is the series with the number of waiting requests.
	//
	// +optional
	Queue string `json:"queue,omitempty"`
	// Running is the series with the number of running requests.
	//
	// +optional
	Running string `json:"running,omitempty"`
	// KVCache is the series with the KV cache's use, 0 to 1.
	//
	// +optional
	KVCache string `json:"kvCache,omitempty"`
}

// RemoteSpec says what an importing cluster may dial.
type RemoteSpec struct {
	// PodCIDRs that remote pods may have. An address outside of them, named by a remote picker, is refused.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	PodCIDRs []string `json:"podCIDRs,omitempty"`
}

// PoolPolicyList is a list of PoolPolicies.
//
// +kubebuilder:object:root=true
type PoolPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PoolPolicy `json:"items"`
}
