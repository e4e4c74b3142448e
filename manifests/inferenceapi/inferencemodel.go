package inferenceapi

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// InferenceModel is v1alpha2's mapping of a public model name to target models of one pool.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:subresource:status
type InferenceModel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec InferenceModelSpec `json:"spec"`
	// +optional
	Status InferenceModelStatus `json:"status,omitzero"`
}

// InferenceModelStatus has the fields of the last release with this kind.
type InferenceModelStatus struct {
	// Conditions: Accepted.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// InferenceModelSpec is the specification of an InferenceModel.
type InferenceModelSpec struct {
	// ModelName in requests.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ModelName string `json:"modelName"`
	// Criticality of its requests: Critical, Standard or Sheddable.
	//
	// +optional
	// +kubebuilder:validation:Enum=Critical;Standard;Sheddable
	Criticality string `json:"criticality,omitempty"`
	// TargetModels that requests are split among.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	TargetModels []TargetModel `json:"targetModels,omitempty"`
	// PoolRef is the InferencePool that serves it.
	PoolRef ModelPoolRef `json:"poolRef"`
}

// TargetModel is one model or adapter.
type TargetModel struct {
	// Name of the model at the model server.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Weight relative to the other models. Either all have one, or none.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`
}

// ModelPoolRef names a pool of the same namespace.
type ModelPoolRef struct {
	// Group of the pool.
	//
	// +optional
	Group string `json:"group,omitempty"`
	// Kind of the pool.
	//
	// +optional
	// +kubebuilder:default=InferencePool
	Kind string `json:"kind,omitempty"`
	// Name of the pool.
	//
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// InferenceModelList is a list of InferenceModels.
//
// +kubebuilder:object:root=true
type InferenceModelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []InferenceModel `json:"items"`
}
