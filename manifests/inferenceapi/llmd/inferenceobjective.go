package llmd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// InferenceObjective gives a priority to requests that go to its pool and name it in a header.
//
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Inference Pool",type=string,JSONPath=`.spec.poolRef.name`
// +kubebuilder:printcolumn:name="Priority",type=string,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type InferenceObjective struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec InferenceObjectiveSpec `json:"spec,omitempty"`
	// +optional
	Status InferenceObjectiveStatus `json:"status,omitzero"`
}

func (in *InferenceObjective) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// InferenceObjectiveSpec is the specification of an InferenceObjective.
type InferenceObjectiveSpec struct {
	// Priority of the requests; requests of a higher priority go first. Requests with a negative
	// priority can be shed. Defaults to 0.
	Priority *int32 `json:"priority,omitempty"`
	// PoolRef is the InferencePool that serves the requests.
	PoolRef PoolObjectReference `json:"poolRef"`
}

// InferenceObjectiveStatus has llm-d's fields.
type InferenceObjectiveStatus struct {
	// Conditions: Accepted.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:default={{type: "Ready", status: "Unknown", reason:"Pending", message:"Waiting for controller", lastTransitionTime: "1970-01-01T00:00:00Z"}}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
