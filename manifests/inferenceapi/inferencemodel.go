package inferenceapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// InferenceModel maps a public model name to target models of one pool, as in v1alpha2.
//
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Model Name",type=string,JSONPath=`.spec.modelName`
// +kubebuilder:printcolumn:name="Inference Pool",type=string,JSONPath=`.spec.poolRef.name`
// +kubebuilder:printcolumn:name="Criticality",type=string,JSONPath=`.spec.criticality`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type InferenceModel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec InferenceModelSpec `json:"spec"`
	// +optional
	Status InferenceModelStatus `json:"status,omitzero"`
}

func (in *InferenceModel) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// InferenceModelStatus has the fields of the last release with this kind.
type InferenceModelStatus struct {
	// Conditions: Accepted.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:default={{type: "Ready", status: "Unknown", reason:"Pending", message:"Waiting for controller", lastTransitionTime: "1970-01-01T00:00:00Z"}}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// InferenceModelSpec is the specification of an InferenceModel.
type InferenceModelSpec struct {
	// ModelName in requests. If several InferenceModels of a pool have the same name, the oldest is
	// used.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="modelName is immutable"
	ModelName string `json:"modelName"`
	// Criticality of the model's requests: Critical, Standard or Sheddable.
	//
	// +kubebuilder:validation:Enum=Critical;Standard;Sheddable
	Criticality string `json:"criticality,omitempty"`
	// TargetModels among which requests are split. By default requests keep the model's name.
	//
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule="self.all(model, has(model.weight)) || self.all(model, !has(model.weight))",message="weights must be set for all targetModels, or for none"
	// +listType=atomic
	TargetModels []TargetModel `json:"targetModels,omitempty"`
	// PoolRef is the InferencePool that serves the model.
	PoolRef ModelPoolRef `json:"poolRef"`
}

// TargetModel is one model or adapter.
type TargetModel struct {
	// Name of the model at the model server.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Weight relative to the other models. Set it for all models or for none.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`
}

// ModelPoolRef names a pool of the same namespace.
type ModelPoolRef struct {
	// Group of the pool.
	//
	// +kubebuilder:default="inference.networking.x-k8s.io"
	Group string `json:"group,omitempty"`
	// Kind of the pool.
	//
	// +kubebuilder:default=InferencePool
	Kind string `json:"kind,omitempty"`
	// Name of the pool.
	//
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}
