package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SelectionSpec configures which exporting clusters of an InferencePoolImport receive requests.
// +kubebuilder:validation:XValidation:rule="!has(self.order) || has(self.policy) && self.policy == 'Priority'",message="order is for policy Priority: add policy: Priority, or remove order"
// +kubebuilder:validation:XValidation:rule="!has(self.localMargin) || has(self.policy) && self.policy in ['LeastLoad', 'Latency']",message="localMargin is for policies LeastLoad and Latency: add policy, or remove localMargin"
// +kubebuilder:validation:XValidation:rule="!has(self.affinity) || has(self.policy) && self.policy in ['LeastLoad', 'Latency']",message="affinity is for policies LeastLoad and Latency: add policy, or remove affinity"
// +kubebuilder:validation:XValidation:rule="!has(self.affinity) || self.affinity != 'Prefix' || !has(self.policy) || self.policy != 'Latency'",message="affinity: Prefix is for policy LeastLoad: write Session or None, or remove affinity"
type SelectionSpec struct {
	// Policy selects which cluster receives a request first. If a cluster declines the request,
	// another cluster receives it. Weighted distributes requests by the clusters' weights. Locality
	// prefers clusters in the zone of this cluster (also this cluster), then in its region, then
	// all others. Priority sends all requests to the first ready cluster in order; a cluster that
	// was not ready is used again once it has been ready for 3 s. LeastLoad sends each request to
	// the cluster with the earliest expected first token. Penstock's picker ranks the clusters for
	// each request by their reported load, the cached part of the prompt, and the round trip.
	// Latency sends each request to the cluster whose responses begin earliest, by the round trip
	// and the recent time to the first byte.
	//
	// +kubebuilder:default=Weighted
	Policy SelectionPolicy `json:"policy,omitempty"`
	// Order lists clusters by precedence, for policy Priority. Clusters that it does not name
	// follow: this cluster itself, then the other clusters by name.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Order []string `json:"order,omitempty"`
	// LocalMargin is the cost advantage that another cluster needs over this cluster, for policies
	// LeastLoad and Latency. A larger margin keeps more requests in this cluster, and some of them
	// wait longer. It applies only if this cluster backs the import. Defaults to 100ms.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m))+$`
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1m')",message="localMargin must be 0s to 1m, such as 300ms"
	LocalMargin *metav1.Duration `json:"localMargin,omitempty"`
	// Affinity selects which requests stay together, for policies LeastLoad and Latency. Prefix
	// (the default for LeastLoad, not available for Latency) reads the bodies of known APIs, so
	// that prompts with the same beginning go to the same cluster. Session keeps the requests of a
	// session in the cluster that served the first request. If that cluster takes no requests, the
	// session moves to the best other cluster and stays there. A session is identified by the
	// header x-session-token, which each response sets and the client sends back, else by the
	// header x-session-id, else by a cookie. picker.session configures the cookie's name and the
	// idle time after which a session starts again. None (the default for Latency) keeps no
	// requests together. With Session and None no body is read, and a request's cost follows from
	// its length.
	Affinity SelectionAffinity `json:"affinity,omitempty"`
	// Within restricts the clusters to which requests go, for example if prompts must stay in some
	// clusters. Requests never leave these clusters, even if all of them fail. Any other cluster is
	// not part of the import here, not even under the name NAME-CLUSTER.
	Within *WithinSpec `json:"within,omitempty"`
}

// SelectionPolicy selects how the exporting clusters of an import share requests.
//
// +kubebuilder:validation:Enum=Weighted;Locality;Priority;LeastLoad;Latency
type SelectionPolicy string

const (
	SelectWeighted  SelectionPolicy = "Weighted"
	SelectLocality  SelectionPolicy = "Locality"
	SelectPriority  SelectionPolicy = "Priority"
	SelectLeastLoad SelectionPolicy = "LeastLoad"
	SelectLatency   SelectionPolicy = "Latency"
)

// SelectionAffinity selects which requests stay together.
//
// +kubebuilder:validation:Enum=Prefix;Session;None
type SelectionAffinity string

const (
	AffinityPrefix  SelectionAffinity = "Prefix"
	AffinitySession SelectionAffinity = "Session"
	AffinityNone    SelectionAffinity = "None"
)

// WithinSpec restricts clusters. If both lists are set, a cluster must match both.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusters) || has(self.regions)",message="write clusters, regions, or both"
type WithinSpec struct {
	// Clusters are names of clusters in the cluster set.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Clusters []string `json:"clusters,omitempty"`
	// Regions of the allowed clusters, as in each cluster's ClusterSet. A cluster with an unknown
	// region does not match.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Regions []string `json:"regions,omitempty"`
}
