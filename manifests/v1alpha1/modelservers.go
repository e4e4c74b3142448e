package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// Group and Version of the kinds in this package.
const (
	Group   = "penstock.dev"
	Version = "v1alpha1"
)

// ImportedByLabel marks an InferencePoolImport that Penstock created for exports of other clusters.
// Its value names the component that created the import. The import is deleted with its last
// export.
const ImportedByLabel = Group + "/imported-by"

// OfPenstock reports whether a controllerName belongs to Penstock.
func OfPenstock(controller string) bool { return strings.HasPrefix(controller, Group+"/") }

// ConditionImported is a condition of each cluster in status.clusters, in imports that a hub
// writes. If it is True, the cluster has been imported since lastTransitionTime. If it is False,
// the entry only shows the reason.
const ConditionImported = "Imported"

// ModelServers lists model servers that are not pods, by address. An InferencePool of the same
// namespace selects them by label, like pods.
//
// +kubebuilder:resource:scope=Namespaced,shortName=ms,path=modelservers,singular=modelservers
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Resolved",type=string,JSONPath=`.status.conditions[?(@.type=="ResolvedRefs")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ModelServers struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ModelServersSpec `json:"spec"`
	// Status reports whether all host names resolve.
	//
	// +optional
	// +kubebuilder:default={}
	Status ModelServersStatus `json:"status,omitzero"`
}

// DeepCopyObject implements runtime.Object.
func (in *ModelServers) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// ModelServersStatus is the status of ModelServers.
type ModelServersStatus struct {
	// ObservedGeneration is the generation of the object that the conditions describe. It is -1
	// before Penstock has written conditions.
	//
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the ModelServers. ResolvedRefs is False with reason AddressNotFound if a host
	// name does not resolve, or AddressNotAllowed if an address is outside the ranges that the
	// operator of Penstock allows. Stalled is True, with the same reason, while ResolvedRefs is
	// False.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ModelServersSpec is the specification of ModelServers.
type ModelServersSpec struct {
	// Servers are the model servers.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	Servers []ModelServer `json:"servers"`
}

// ModelServer is one model server.
type ModelServer struct {
	// Address is an IP address or a host name. Penstock, not Envoy, resolves a host name every 30
	// s, and keeps the last answer while lookups fail. Each address of a host name is a server.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address"`
	// Ports that the server listens on. Defaults to the target ports of the pool that selects the
	// server.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	Ports []int32 `json:"ports,omitempty"`
	// Labels of this server. They override the labels of the ModelServers object.
	Labels map[string]string `json:"labels,omitempty"`
	// Draining excludes the server from new requests. Requests in flight complete.
	Draining bool `json:"draining,omitempty"`
}
