package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// The types of a ModelRegistry.
const (
	HuggingFaceRegistry = "hugging-face"
	FileRegistry        = "file"
)

// ModelRegistry is where ModelDeployments of its namespace get models from: Hugging Face, a mirror
// of it, or a folder of this machine. Penstock downloads models into Hugging Face's own cache. On
// Kubernetes it has no effect yet, and its status reports that.
//
// +kubebuilder:resource:scope=Namespaced,path=modelregistries,singular=modelregistry
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ModelRegistry struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ModelRegistrySpec `json:"spec"`
	// Status reports whether the registry is valid and answers.
	//
	// +optional
	// +kubebuilder:default={}
	Status ModelRegistryStatus `json:"status,omitzero"`
}

// DeepCopyObject implements runtime.Object.
func (in *ModelRegistry) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// ModelRegistryStatus is the status of a ModelRegistry.
type ModelRegistryStatus struct {
	// ObservedGeneration is the generation of the object that the conditions describe. It is -1
	// before Penstock has written conditions.
	//
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the registry. Accepted is False if its credentials do not exist. Ready is False
	// if the registry did not answer the last download; it is absent before the first one.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ModelRegistrySpec is the specification of a ModelRegistry.
//
// +kubebuilder:validation:XValidation:message="type file requires path, and has neither url nor credentials",rule="self.type != 'file' || has(self.path) && !has(self.url) && !has(self.credentials)"
// +kubebuilder:validation:XValidation:message="only type file has a path",rule="self.type == 'file' || !has(self.path)"
type ModelRegistrySpec struct {
	// Type is hugging-face or file.
	//
	// +kubebuilder:validation:Enum=hugging-face;file
	Type string `json:"type"`
	// URL of a mirror that speaks Hugging Face's HTTP. Defaults to https://huggingface.co.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https?://[^/@\x00-\x20]+(/[^\x00-\x20?#]*)?$`
	URL string `json:"url,omitempty"`
	// Path is the absolute path of a folder. The model NAME is the file or folder PATH/NAME.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^/[^\x00-\x1f\x7f]*$`
	Path string `json:"path,omitempty"`
	// Credentials name a Secret of the registry's namespace whose token is sent to the registry. It
	// is sent to no other host, and without encryption to this machine alone.
	//
	// +optional
	Credentials *RegistryCredentials `json:"credentials,omitempty"`
}

// RegistryCredentials are a credential for a ModelRegistry.
type RegistryCredentials struct {
	// SecretRef names a Secret with the key token.
	SecretRef AccessObject `json:"secretRef"`
}
