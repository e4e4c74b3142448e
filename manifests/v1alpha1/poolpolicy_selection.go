package v1alpha1

// SelectionSpec configures to which of an InferencePoolImport's exporting clusters requests go.
type SelectionSpec struct {
	// Within bounds the clusters that requests go to. It is never left, whatever fails: prompts may have to stay in some clusters. A
	// cluster outside is no part of the import here, also under the name NAME-CLUSTER.
	Within WithinSpec `json:"within"`
}

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
