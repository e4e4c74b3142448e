package v1alpha1

import "k8s.io/apimachinery/pkg/runtime"

// PluginsSpec configures the strategy plugins. Filters remove endpoints. Each scorer gives the
// remaining endpoints a score from 0 to 1, and the weighted sum of the scores decides.
type PluginsSpec struct {
	// Filters remove endpoints. If no endpoint is left, requests spill, or are answered with 503.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	Filters []FilterPlugin `json:"filters,omitempty"`
	// Scorers rate the endpoints. Without scorers, all endpoints have the same score.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Scorers []ScorerPlugin `json:"scorers,omitempty"`
	// Choice selects an endpoint by its score: the highest (max-score), at random with the scores
	// as weights (weighted-random), the higher of two random endpoints (power-of-two), or at random
	// without regard to scores (random).
	//
	// +kubebuilder:default=max-score
	// +kubebuilder:validation:Enum=max-score;weighted-random;power-of-two;random
	Choice string `json:"choice,omitempty"`
}

// FilterPlugin is a filter.
type FilterPlugin struct {
	// Type of the filter.
	//
	// +kubebuilder:validation:Enum=label-selector-filter;by-label;decode-filter;prefill-filter;encode-filter;utilization-filter;prefix-cache-affinity-filter;session-affinity-filter;slo-headroom-tier-filter
	Type string `json:"type"`
	// Parameters of the filter, as in llm-d's router. label-selector-filter takes matchLabels and
	// matchExpressions, as in a label selector.
	//
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Parameters *runtime.RawExtension `json:"parameters,omitempty"`
}

// ScorerPlugin is a scorer with its weight.
type ScorerPlugin struct {
	// Type of the scorer.
	//
	// +kubebuilder:validation:Enum=queue-scorer;kv-cache-utilization-scorer;running-requests-size-scorer;active-request-scorer;token-load-scorer;load-aware-scorer;prefix-cache-scorer;lora-affinity-scorer;session-affinity-scorer;no-hit-lru-scorer;latency-scorer;context-length-aware;header-label-affinity-scorer;mm-embeddings-cache-scorer;external-scorer
	Type string `json:"type"`
	// Weight of the score in the sum, relative to the weights of the other scorers.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=1
	Weight *int32 `json:"weight,omitempty"`
	// Parameters of the scorer, as in an EndpointPickerConfig: idleThreshold and maxBusyScore
	// (active-request-scorer), queueThresholdTokens (token-load-scorer), threshold
	// (load-aware-scorer), matchLengthWeight and matchLengthScaleTokens (prefix-cache-scorer),
	// service and port (external-scorer).
	//
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Parameters *runtime.RawExtension `json:"parameters,omitempty"`
}

// ConfigRef names an EndpointPickerConfig in the policy's namespace.
//
// +kubebuilder:validation:XValidation:rule="!has(self.key) || !has(self.kind) || self.kind == 'ConfigMap'",message="key is for kind ConfigMap: remove key, or use another kind"
type ConfigRef struct {
	// Kind of the object with the document: ConfigMap or, in a folder, EndpointPickerConfig.
	//
	// +kubebuilder:default=ConfigMap
	// +kubebuilder:validation:Enum=ConfigMap;EndpointPickerConfig
	Kind string `json:"kind,omitempty"`
	// Name of the object.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key of the ConfigMap with the document. Optional if the ConfigMap has one key.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}
