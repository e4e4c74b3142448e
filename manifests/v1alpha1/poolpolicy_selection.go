package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SelectionSpec configures to which of an InferencePoolImport's exporting clusters requests go.
// +kubebuilder:validation:XValidation:rule="!has(self.order) || has(self.policy) && self.policy == 'Priority'",message="order is for policy Priority: add policy: Priority, or remove order"
// +kubebuilder:validation:XValidation:rule="!has(self.localMargin) || has(self.policy) && self.policy in ['LeastLoad', 'Latency']",message="localMargin is for policies LeastLoad and Latency: add policy, or remove localMargin"
// +kubebuilder:validation:XValidation:rule="!has(self.affinity) || has(self.policy) && self.policy in ['LeastLoad', 'Latency']",message="affinity is for policies LeastLoad and Latency: add policy, or remove affinity"
// +kubebuilder:validation:XValidation:rule="!has(self.affinity) || self.affinity != 'Prefix' || !has(self.policy) || self.policy != 'Latency'",message="affinity: Prefix is for policy LeastLoad: write Session or None, or remove affinity"
type SelectionSpec struct {
	// Policy decides which cluster is the first to get a request. With Weighted the clusters share
	// requests by the weight of each. With Locality those in the zone of this cluster do, itself
	// included; what they decline goes to those of its region, and then to the rest. With Priority
	// all requests go to one cluster, and the next ones get what it declines; one that was not
	// ready is first again once it has been ready for 3 s. With LeastLoad each request goes to the
	// cluster where its first token is expected first: Penstock's picker names the clusters for
	// each request, by what they report of their load, by what they have cached of the prompt, and
	// by the round trip. With Latency each request goes to the cluster whose answers begin first:
	// by the round trip, and the time until the first byte of its recent answers here. In all cases
	// a cluster that declines a request is followed by another for the same request.
	//
	// +optional
	// +kubebuilder:default=Weighted
	Policy SelectionPolicy `json:"policy,omitempty"`
	// Order lists clusters, of policy Priority. Those that it does not name come after it: this
	// cluster itself, then the others by name.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Order []string `json:"order,omitempty"`
	// LocalMargin is by how much another cluster must be cheaper than this cluster itself, of
	// policies LeastLoad and Latency; default 100ms. With a larger one fewer requests leave the
	// cluster, and some wait longer. It has an effect where this cluster is among the import's.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m))+$`
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1m')",message="localMargin must be 0s to 1m, such as 300ms"
	LocalMargin *metav1.Duration `json:"localMargin,omitempty"`
	// Affinity is what keeps requests together; default Prefix with policy LeastLoad, None with
	// Latency. With Prefix, of LeastLoad alone, the bodies of known APIs are read, so that prompts
	// with the same beginning go to the cluster that has read it. With Session, of LeastLoad and
	// Latency, the requests of a session go to the cluster that serves its first one, while that
	// takes requests, and then to the best one, where the session stays. The header
	// x-session-token, which is set in each response and which a client sends back, names a
	// request's session, else the header x-session-id, else a cookie. picker.session has the name
	// of the cookie, and after how long without requests a session begins again, as for pools. With
	// Session and None no body is read, and a request counts by its length.
	//
	// +optional
	Affinity SelectionAffinity `json:"affinity,omitempty"`
	// Within bounds the clusters that requests go to. It is never left, whatever fails: prompts may
	// have to stay in some clusters. A cluster outside is no part of the import here, also under
	// the name NAME-CLUSTER.
	//
	// +optional
	Within *WithinSpec `json:"within,omitempty"`
}

// SelectionPolicy is how the exporting clusters of an import share requests.
//
// +kubebuilder:validation:Enum=Weighted;Locality;Priority;LeastLoad;Latency
type SelectionPolicy string

// The policies of selection.
const (
	SelectWeighted  SelectionPolicy = "Weighted"
	SelectLocality  SelectionPolicy = "Locality"
	SelectPriority  SelectionPolicy = "Priority"
	SelectLeastLoad SelectionPolicy = "LeastLoad"
	SelectLatency   SelectionPolicy = "Latency"
)

// SelectionAffinity is what requests are kept together by.
//
// +kubebuilder:validation:Enum=Prefix;Session;None
type SelectionAffinity string

// The affinities of selection.
const (
	AffinityPrefix  SelectionAffinity = "Prefix"
	AffinitySession SelectionAffinity = "Session"
	AffinityNone    SelectionAffinity = "None"
)

// WithinSpec bounds clusters. With both lists a cluster must be in both.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusters) || has(self.regions)",message="write clusters, regions, or both"
type WithinSpec struct {
	// Clusters are the names of the clusters, in the cluster set.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Clusters []string `json:"clusters,omitempty"`
	// Regions are those of the clusters, as each has it in its ClusterSet. A cluster whose region
	// is not known is in none.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Regions []string `json:"regions,omitempty"`
}
