package v1alpha1

// SelectionSpec configures to which of an InferencePoolImport's exporting clusters requests go.
// +kubebuilder:validation:XValidation:rule="!has(self.order) || has(self.policy) && self.policy == 'Priority'",message="order is for policy Priority: add policy: Priority, or remove order"
type SelectionSpec struct {
	// Policy decides which cluster is the first to get a request. With Weighted the clusters share requests by the weight of each. With
	// Priority all requests go to one cluster, and the next ones get what it declines. In both cases a cluster that declines a request
	// is followed by another for the same request.
	//
	// +optional
	// +kubebuilder:default=Weighted
	Policy SelectionPolicy `json:"policy,omitempty"`
	// Order lists clusters, of policy Priority. Those that it does not name come after it: this cluster itself, then the others by name.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Order []string `json:"order,omitempty"`
	// Within bounds the clusters that requests go to. It is never left, whatever fails: prompts may have to stay in some clusters. A
	// cluster outside is no part of the import here, also under the name NAME-CLUSTER.
	//
	// +optional
	Within *WithinSpec `json:"within,omitempty"`
}

// SelectionPolicy is how the exporting clusters of an import share requests.
//
// +kubebuilder:validation:Enum=Weighted;Priority
type SelectionPolicy string

// The policies of selection.
const (
	SelectWeighted SelectionPolicy = "Weighted"
	SelectPriority SelectionPolicy = "Priority"
)

// WithinSpec bounds clusters.
type WithinSpec struct {
	// Clusters are the names of the clusters, in the cluster set.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Clusters []string `json:"clusters"`
}
