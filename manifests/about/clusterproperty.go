package about

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// ClusterName is the name of the ClusterProperty whose value is the cluster's name in the cluster
// set.
const ClusterName = "cluster.clusterset.k8s.io"

// ClusterProperty is a fact about its cluster.
//
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, a copy of the schema in kubernetes-sigs/about-api"
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name=value,type=string,JSONPath=`.spec.value`
// +kubebuilder:printcolumn:name=age,type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterProperty struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterPropertySpec `json:"spec"`
}

func (in *ClusterProperty) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// ClusterPropertySpec is the specification of a ClusterProperty.
type ClusterPropertySpec struct {
	// Value of the property. For cluster.clusterset.k8s.io, it is the name of the cluster in its
	// cluster set.
	//
	// +kubebuilder:validation:MinLength=1
	Value string `json:"value"`
}
