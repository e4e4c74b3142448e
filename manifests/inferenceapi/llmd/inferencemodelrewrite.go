package llmd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// InferenceModelRewrite replaces the model names in requests to a pool.
//
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Inference Pool",type=string,JSONPath=`.spec.poolRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type InferenceModelRewrite struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec InferenceModelRewriteSpec `json:"spec,omitempty"`
	// +optional
	Status InferenceModelRewriteStatus `json:"status,omitzero"`
}

func (in *InferenceModelRewrite) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// InferenceModelRewriteSpec is the specification of an InferenceModelRewrite.
type InferenceModelRewriteSpec struct {
	// PoolRef is the InferencePool whose requests are rewritten.
	PoolRef *PoolObjectReference `json:"poolRef"`
	// Rules in order. Among all rules for a pool, a rule that matches the model's name takes
	// precedence over a rule without matches. Otherwise the rule of the oldest object takes
	// precedence, then the earliest rule of the object.
	Rules []InferenceModelRewriteRule `json:"rules"`
}

// InferenceModelRewriteRule applies to requests for some models.
type InferenceModelRewriteRule struct {
	// Matches are the models that the rule applies to. If empty, the rule applies to all models.
	Matches []Match `json:"matches,omitempty"`
	// Targets among which the requests are split. If empty, the requests keep their model.
	//
	// +kubebuilder:validation:MinItems=1
	Targets []TargetModel `json:"targets,omitempty"`
}

// TargetModel is one model or adapter.
type TargetModel struct {
	// Weight relative to the rule's other targets. Set it for all targets or for none.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`
	// ModelRewrite is the name of the model at the model server.
	ModelRewrite string `json:"modelRewrite"`
}

// Match selects requests.
type Match struct {
	// Model in the request's body.
	Model *ModelMatch `json:"model"`
}

// ModelMatch matches the name of a model.
type ModelMatch struct {
	// Type of the match.
	//
	// +kubebuilder:default=Exact
	// +kubebuilder:validation:Enum=Exact
	Type string `json:"type,omitempty"`
	// Value is the model's name.
	//
	// +kubebuilder:validation:MinLength=1
	Value string `json:"value"`
}

// InferenceModelRewriteStatus has llm-d's fields.
type InferenceModelRewriteStatus struct {
	// Conditions: Accepted.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:default={{type: "Accepted", status: "Unknown", reason:"Pending", message:"Waiting for controller", lastTransitionTime: "1970-01-01T00:00:00Z"}}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PoolObjectReference names a pool of the same namespace.
type PoolObjectReference struct {
	// Group of the pool.
	//
	// +kubebuilder:default="inference.networking.k8s.io"
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Group string `json:"group,omitempty"`
	// Kind of the pool.
	//
	// +kubebuilder:default="InferencePool"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind,omitempty"`
	// Name of the pool.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
